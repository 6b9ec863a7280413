"""Rewards of progress: the sum over an episode, and placements that must earn the same.

The rewards add up to the jobs that complete and the shares of the others. The shares are recomputed from the
events of the result: who held what when, each job's speed alone on what it held, and its slowdown by the
definition. Without interference, on a fast network and servers of one speed, all complete placements of two
jobs on two or three servers earn the same reward.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, groupby, product
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.world import World
from ray_sim.environments import PlacementEnv, QueueEnv
from ray_sim.kernels.core.arrays import ROLE_NAMES
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.result import RunResult
from tests.environments.rules import at_random, play
from tests.interfering_worlds import interference, interfering_world, naive_slowdown
from tests.proofs import instances, quick_first
from tests.training import profile
from tests.worlds import Change

Held = dict[tuple[int, int], int]
"""Tasks by server and role."""


def drawn(seed: int) -> World:
    """Up to ten jobs of two types on up to four servers of several sizes and speeds.

    Half of the worlds each have interference, outages, and a horizon; others have costs of restarts,
    checkpoints and oversubscribed servers.
    """
    draw = np.random.default_rng((20261130, seed))
    n, servers = int(draw.integers(1, 11)), int(draw.integers(1, 5))
    types = draw.choice(["a", "b"], n).tolist()
    loads, sensitivity = ({name: draw.uniform(0, 1, 2).tolist() for name in "ab"} for _ in range(2))
    params: dict[str, object] = {
        "slot_s": float(draw.choice([10, 60])),
        "restart_cost_s": float(draw.choice([0, 7, 100])),
        "checkpoint_s": float(draw.choice([0, 30, 200])),
        "overcommit": float(draw.choice([1, 1.5, 2])),
        "horizon_s": float(draw.integers(100, 3000)) if draw.integers(2) else None,
    }
    return interfering_world(
        sorted(draw.uniform(0, 600, n).round(3).tolist()),
        [(kind, _job(draw)) for kind in types],
        draw.integers(1, 5, servers).tolist(),
        interference(loads, sensitivity, loads, ("cpu", "qpi"), ["qpi"]) if draw.integers(2) else None,
        {name: value for name, value in params.items() if value is not None},
        sockets=draw.integers(1, 3, servers).tolist(),
        speed=draw.choice([0.5, 1.0, 2.0], servers).tolist(),
        changes=list(_outages(draw, servers)) if draw.integers(2) else None,
    )


def _job(draw: np.random.Generator) -> TrainingProfile:
    ps = int(draw.integers(0, 3))
    exchange = draw.choice([Exchange.SYNC, Exchange.ASYNC]) if ps else Exchange.ALL_REDUCE
    workers, samples = int(draw.integers(1, 4)), int(draw.integers(100, 5000))
    return profile(exchange=exchange, num_workers=workers, num_ps=ps, epochs=1, samples=samples)


def _outages(draw: np.random.Generator, servers: int) -> Iterator[Change]:
    """Servers go and come back; half of those that are away at the end return no more."""
    there = dict.fromkeys(range(servers), True)
    for time_s in sorted(draw.uniform(0, 1500, int(draw.integers(1, 9))).round(2).tolist()):
        server = int(draw.integers(servers))
        there[server] = not there[server]
        yield time_s, server, there[server]
    for server, up in there.items():
        if not up and draw.integers(2):
            yield 2000.0, server, True


class Piece(NamedTuple):
    """A time in which a job trains at one rate."""

    length_s: float
    share_per_s: float


@dataclass
class Naive:
    """Jobs of a run as its events tell."""

    world: World
    held: dict[int, Held] = field(default_factory=dict)
    alone_per_s: dict[int, float] = field(default_factory=dict)
    """Samples per second of what it holds, if nothing slows it."""
    since_s: dict[int, float] = field(default_factory=dict)
    trains_from_s: dict[int, float] = field(default_factory=dict)
    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    """Pieces of the present run, by job; jobs that hold servers only."""
    share: dict[int, float] = field(default_factory=dict)
    """Share of its work that a job keeps from earlier runs, by job."""
    run_s: dict[int, float] = field(default_factory=dict)
    """Time with servers."""
    lost_s: dict[int, float] = field(default_factory=dict)

    def start(self, job: int, held: Held, now_s: float) -> None:
        pause_s = self.world.restart_us / 1e6 if job in self.run_s else 0.0
        self.held[job], self.pieces[job] = held, []
        self.alone_per_s[job] = _alone_per_s(self.world, job, held)
        self.since_s[job], self.trains_from_s[job] = now_s, now_s + pause_s
        self.run_s.setdefault(job, 0.0)

    def train(self, since_s: float, until_s: float) -> None:
        """All jobs that hold servers hold the same until then."""
        for job in self.held:
            length_s = until_s - max(since_s, self.trains_from_s[job])
            if length_s > 0:
                rate = self.alone_per_s[job] / self._slowdown(job)
                self.pieces[job].append(Piece(length_s, rate / float(self.world.work[job])))

    def _slowdown(self, job: int) -> float:
        cluster = self.world.cluster
        training = ElasticFacts.in_world(self.world).profile
        if cluster.interference is None:
            return 1.0
        types = [cluster.interference.types.index(training.model_names[at]) for at in training.model]
        sockets = [1] * len(cluster) if cluster.sockets is None else cluster.sockets.tolist()
        return naive_slowdown(cluster.interference, self.held, types, sockets, job)

    def stop(self, job: int, now_s: float, *, lost: bool) -> None:
        """The job holds nothing any more; where it lost a server, work since its last checkpoint is lost."""
        pieces, every_s = self.pieces.pop(job), self.world.checkpoint_us / 1e6
        ran_s = sum(piece.length_s for piece in pieces)
        self.run_s[job] += now_s - self.since_s[job]
        kept_s = (ran_s + 1e-7) // every_s * every_s if lost and every_s else ran_s
        self.lost_s[job] = self.lost_s.get(job, 0.0) + max(0.0, ran_s - kept_s)
        self.share[job] = self.share.get(job, 0.0)
        for length_s, share_per_s in pieces:
            self.share[job] += min(length_s, kept_s) * share_per_s
            kept_s = max(0.0, kept_s - length_s)
        del self.held[job]


def _alone_per_s(world: World, job: int, held: Held) -> float:
    """Samples per second of a job that nothing slows."""
    facts = ElasticFacts.in_world(world)
    columns = np.array([(server, role, count) for (server, role), count in sorted(held.items())]).T
    rows = Rows(np.array([0, len(held)]), *(np.ascontiguousarray(column) for column in columns))
    alone = facts.progress(np.ones(len(world.table)), None)
    return float(alone.samples_per_s(np.array([job]), rows)[0])


def naive_run(world: World, result: RunResult, end_s: float) -> Naive:
    """The jobs of a run at its end."""
    naive, now_s = Naive(world), 0.0
    names = {name: number for number, name in enumerate(world.table.job_id)}
    events = result.events.select("time_s", "event", "job_id", "server", "role", "count").rows()
    for time_s, instant in groupby(events, key=lambda row: row[0]):
        naive.train(now_s, time_s - world.table.origin_us / 1e6)
        now_s = time_s - world.table.origin_us / 1e6
        for (event, name), rows in groupby(instant, key=lambda row: (row[1], row[2])):
            if event == "start":
                held = {
                    (world.cluster.server_names.index(server), ROLE_NAMES.index(role)): count
                    for *_, server, role, count in rows
                }
                naive.start(names[name], held, now_s)
            elif event in ("finish", "lose"):
                naive.stop(names[name], now_s, lost=event == "lose")
    naive.train(now_s, end_s)
    for job in list(naive.held):
        naive.stop(job, end_s, lost=False)
    return naive


@pytest.mark.slow
def test_rewards_of_progress_add_up_to_the_jobs_and_the_shares_of_those_that_do_not_complete() -> None:
    seen = {"interference": 0, "lost": 0, "share": 0, "completed": 0}
    for seed in range(instances(1_500, per_commit=40)):
        world = drawn(seed)
        env = (PlacementEnv, QueueEnv)[seed % 2](world, most_jobs=4, reward="progress")
        try:
            earned = sum(reward for _, reward, _, _ in play(env, at_random(seed), seed=0))
        except InvalidScenarioError:  # no action is valid in the whole run
            continue
        result = env.result()
        naive = naive_run(world, result, world.horizon_us / 1e6 if world.bounded else 0.0)
        complete = (result.jobs["status"] == "completed").to_numpy()
        for column, expected in (("run_s", naive.run_s), ("lost_s", naive.lost_s)):
            by_job = [expected.get(job, 0.0) for job in range(len(world.table))]
            assert result.jobs[column].to_list() == pytest.approx(by_job, abs=1e-5), (seed, column)
        shares = [naive.share.get(int(job), 0.0) for job in np.flatnonzero(~complete)]
        assert earned == pytest.approx(int(complete.sum()) + sum(shares), abs=1e-6), seed
        seen["interference"] += world.cluster.interference is not None
        seen["lost"] += sum(naive.lost_s.values()) > 0
        seen["share"] += bool(sum(shares) > 0)
        seen["completed"] += bool(complete.any())
    assert min(seen.values()) >= 5, seen


Placement = tuple[tuple[int, ...], ...]
"""Servers of the workers and of the parameter servers of job 0, then of job 1."""

GANGS = ((2, 1), (1, 1))
"""Workers and parameter servers of the two jobs; each task takes a GPU."""

SCALE_S = 10.0


class Setting(NamedTuple):
    """Servers, and the second submission; the first is at 0."""

    gpus: tuple[int, ...]
    later_s: float = 0.0
    sensitivity: float = 0.0
    bandwidth_mbps: float = 1e12
    """Between servers; within one it is 1e12. 50 MB take 0.4 ns at 1e12."""
    speed: tuple[float, ...] | None = None


SETTINGS = [
    Setting((5, 4)),
    Setting((3, 3)),
    Setting((2, 2, 1)),
    Setting((3, 2, 2)),
    Setting((2, 2, 2), 15.0),
]


def env_of(setting: Setting, reward: str) -> Any:
    """Jobs of 20 steps, of 10 s with one worker: 100 s with two, 200 s with one. The run ends at 120 s."""
    network = {"bandwidth_mbps": setting.bandwidth_mbps, "internal_bandwidth_mbps": 1e12}
    jobs = [
        (name, profile(num_workers=w, num_ps=p, **network)) for name, (w, p) in zip("ab", GANGS, strict=True)
    ]
    loads, sensitivity = {"a": [0.5, 0.1], "b": [0.2, 0.4]}, dict.fromkeys("ab", [setting.sensitivity] * 2)
    world = interfering_world(
        [0.0, setting.later_s],
        jobs,
        setting.gpus,
        interference(loads, sensitivity, loads),
        {"slot_s": 10, "horizon_s": 120},
        speed=setting.speed,
    )
    return gymnasium.make("ray_sim/Placement-v1", episodes=world, reward=reward, reward_scale_s=SCALE_S)


def placements(servers: int) -> Iterator[Placement]:
    """All complete placements of both jobs on this number of servers, whether they fit or not."""
    tasks = [n for gang in GANGS for n in gang]
    return product(*(combinations_with_replacement(range(servers), n) for n in tasks))


def fits(placement: Placement, gpus: Sequence[int]) -> bool:
    taken = Counter(server for places in placement for server in places)
    return all(taken[server] <= room for server, room in enumerate(gpus))


def rewards(env: Any, placement: Placement) -> list[float] | None:
    """Rewards of the steps that place both jobs so, one task after the other; None where one is forbidden."""
    inner = env.unwrapped
    assert isinstance(inner, PlacementEnv)
    servers = len(inner.episodes[0].world.cluster)
    seen, _ = env.reset(seed=0)
    found, truncated = [], False
    for number, places in enumerate(placement):
        job, role = divmod(number, 2)
        for server in places:
            row = next(row for row in range(2) if inner.new_job(row) == job)
            action = (row * 2 + role) * servers + server
            if not seen["action_mask"][action]:
                return None
            seen, reward, _, truncated, _ = env.step(action)
            found.append(reward)
    assert truncated
    return found


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("reward", quick_first(["progress", "jct"]))
def test_all_complete_placements_earn_the_same_reward(setting: Setting, reward: str) -> None:
    # Job 0 trains from 0 to 100 s. Job 1 starts at 0, or at 20 s, the slot after its submission at 15 s, and
    # has done 120 / 200 or 100 / 200 of its work at the horizon.
    start_s = 20.0 if setting.later_s else 0.0
    whole = {"progress": 1 + (120 - start_s) / 200, "jct": -(100 + 120 - setting.later_s) / SCALE_S}
    until_20_s = {"progress": 20 / 100, "jct": -(20 + 5) / SCALE_S}
    env, tried = env_of(setting, reward), 0
    for placement in placements(len(setting.gpus)):
        steps = rewards(env, placement)
        assert (steps is not None) == fits(placement, setting.gpus), placement
        if steps is None:
            continue
        tried += 1
        assert sum(steps) == pytest.approx(whole[reward], rel=1e-7), placement
        expected = until_20_s[reward] if setting.later_s else 0.0
        assert steps[2] == pytest.approx(expected, rel=1e-7), placement
    assert tried >= 14


@pytest.mark.parametrize(
    "changed",
    [{"sensitivity": 1.0}, {"bandwidth_mbps": 1000.0}, {"speed": (1.0, 0.5, 1.0)}],
    ids=["interference", "slow network", "two speeds"],
)
def test_placements_differ_where_one_of_the_three_conditions_is_broken(changed: dict[str, Any]) -> None:
    env = env_of(Setting((3, 2, 2))._replace(**changed), "progress")
    found = (rewards(env, placement) for placement in placements(3))
    earned = [sum(steps) for steps in found if steps is not None]
    assert max(earned) <= 1.6 + 1e-7
    assert min(earned) < 0.95 * max(earned)
