"""`batch` against its rules in plain Python, decision by decision, in small clusters with quotas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Changes
from ray_sim.model.result import RunResult
from ray_sim.model.teams import JobClass, Quota, Team
from ray_sim.policies.batch.policy import Batch
from ray_sim.policy_api import Decision, PolicyContext, Streams, View
from tests.naive_placement import Placement
from tests.policies.batch.naive_batch import Facts, Naive
from tests.proofs import instances
from tests.worlds import Job, cluster_of, job_table

DEFAULT_US = 20_000_000


def starts_and_stops(changes: Changes | None) -> tuple[dict[int, Placement], set[int]]:
    """Servers of the jobs that start, and the jobs that stop."""
    if changes is None:
        return {}, set()
    starts: dict[int, Placement] = {}
    stops = set()
    for i, job in enumerate(changes.job[: changes.size[0]].tolist()):
        rows = range(changes.ptr[i], changes.ptr[i + 1])
        if rows:
            starts[job] = {int(changes.server[k]): int(changes.tasks[k]) for k in rows}
        else:
            stops.add(job)
    return starts, stops


class Checked(Batch):
    """Compares each of its decisions with that of the twin, and what teams hold with their quotas."""

    unchanging = Batch.unchanging | {"naive"}

    def __init__(self, naive: Naive, **params: Any) -> None:
        super().__init__(**params)
        self.naive = naive

    def start(self, world: PolicyContext, streams: Streams) -> None:
        super().start(world, streams)
        self.seen = np.zeros(4, dtype=np.int64)  # decisions, starts, stops, promises

    def decide(self, view: View) -> Decision:
        decision, facts = super().decide(view), self.naive.facts
        running = view.running
        rows = view.placements.rows_of(running)
        held = {
            job: (
                int(view.last_start_us(np.array([job]))[0]),
                {int(rows.server[k]): int(rows.tasks[k]) for k in range(rows.ptr[i], rows.ptr[i + 1])},
            )
            for i, job in enumerate(running.tolist())
        }
        waiting = [job for job in view.waiting.tolist() if job not in set(decision.reject.tolist())]
        if self._order == "priority":
            waiting.sort(key=lambda job: (-facts.rank[job], job))
        expected = self.naive.decide(view.now_us, held, waiting)
        starts, stops = starts_and_stops(decision.changes)
        assert starts == expected.starts
        victims, by = (column.tolist() for column in self.causes())
        assert dict(zip(victims, by, strict=True)) == expected.stops
        late = {victim for _, leaving in self.naive.promises.values() for victim in leaving}
        assert stops == expected.stops.keys() - late
        assert all(facts.preemptible[job] for job in stops)
        self._check_quotas((set(held) - stops) | set(starts))
        self.seen += [1, len(starts), len(stops), len(self.naive.promises)]
        return decision

    def _check_quotas(self, running: set[int]) -> None:
        """0 <= U <= N + B, and what is used of the pool is at most the pool."""
        facts = self.naive.facts
        held = [
            sum(1000 * facts.gpus[job] for job in running if facts.team[job] == m)
            for m in range(len(facts.teams))
        ]
        used = dict.fromkeys((team.cohort for team in facts.teams), 0)
        pool = dict(used)
        for team, quanta in zip(facts.teams, held, strict=True):
            for quota in team.quotas:
                assert quota.borrow is None or quanta <= quota.nominal + quota.borrow
                pool[team.cohort] += quota.lend
                used[team.cohort] += max(0, quanta - (quota.nominal - quota.lend))
        assert all(used[cohort] <= pool[cohort] for cohort in pool)


@dataclass(frozen=True)
class Instance:
    """A small cluster with its jobs, and a configuration of `batch`."""

    world: World
    facts: Facts
    params: dict[str, Any]

    def run(self) -> tuple[RunResult, Checked]:
        policy = Checked(Naive(self.facts), **self.params)
        return run_world(self.world, policy, loop="general"), policy


def random_instance(seed: int, *, quotas: bool = True) -> Instance:
    """Up to 3 servers, 3 teams in 1 or 2 cohorts, 3 classes, 16 jobs whose limits may be too short."""
    draw = np.random.default_rng([50, seed])
    servers = draw.integers(1, 7, draw.integers(1, 4)).tolist()
    total, n = sum(servers), int(draw.integers(4, 17))
    teams: list[Team] = []
    for name in "abc"[: draw.integers(1, 4)] if quotas else "":
        nominal = int(draw.integers(0, total + 1))
        borrow = None if draw.random() < 0.6 else int(draw.integers(0, 4)) * 1000
        lend = nominal if draw.random() < 0.6 else int(draw.integers(0, nominal + 1))
        quota = (Quota("gpu", 1000 * nominal, borrow, 1000 * lend),) if draw.random() < 0.9 else ()
        weight = float(draw.choice([0.0, 1.0, 1.0, 1.0, 2.0, 3.0]))
        teams.append(Team(name, quota, weight, cohort=str(draw.integers(0, 4) // 3)))
    classes = tuple(JobClass(f"c{p}", p, preemptible=p < 2 or draw.random() < 0.5) for p in range(3))
    run_s = draw.integers(0, 12, n)
    limits = [None if draw.random() < 0.2 else float(max(0, run + draw.integers(-2, 8))) for run in run_s]
    priority = draw.integers(0, 3, n).tolist()
    submit, gpus = np.sort(draw.integers(0, 20, n)), draw.integers(1, min(total, 6) + 1, n)
    names = [team.name for team in teams] or ["a", "b"]
    vc = draw.integers(0, len(names), n).tolist()
    jobs = [
        Job(float(s), float(g), float(d), names[v])
        for s, g, d, v in zip(submit, gpus, run_s, vc, strict=True)
    ]
    table = job_table(jobs, columns={"time_limit_s": limits, "priority": priority})
    cluster = replace(cluster_of(servers), teams=tuple(teams), classes=classes)
    params: dict[str, Any] = {
        "placement": str(draw.choice(["pooled", "consolidate"])),
        "backfill": bool(draw.random() < 0.8),
        "order": str(draw.choice(["fifo", "priority"])),
        "reserve": int(draw.choice([0, 1, 2, 9])),
        "preempt": str(draw.choice(["never", "lower", "lower_or_newer"])),
        "reclaim": str(draw.choice(["never", "lower", "any", "any"])),
        "sharing": str(draw.choice(["first_come", "fair"])),
        "grace_s": float(draw.choice([0, 0, 3])),
        "default_limit_s": DEFAULT_US / 1e6,
    }
    facts = Facts(
        servers=servers,
        gpus=gpus.tolist(),
        limit=[DEFAULT_US if each is None else max(1, round(each * 1e6)) for each in limits],
        submit=(submit - submit[0]).tolist(),
        team=vc if teams else [0] * n,
        rank=priority,
        preemptible=[classes[p].preemptible for p in priority],
        teams=tuple(teams),
        placement=params["placement"],
        backfill=params["backfill"],
        reserve=params["reserve"],
        preempt=params["preempt"],
        reclaim=params["reclaim"],
        fair=params["sharing"] == "fair",
        grace=round(params["grace_s"] * 1e6),
    )
    return Instance(build_world(table, cluster), facts, params)


def test_every_decision_is_that_of_the_twin() -> None:
    seen = np.zeros(4, dtype=np.int64)
    for seed in range(instances(1000, 75)):
        try:
            _, policy = random_instance(seed).run()
        except Exception as failure:
            pytest.fail(f"instance {seed}: {failure!r}")
        seen += policy.seen
    assert (seen > 0).all()  # there were starts, stops and promises


def test_every_decision_without_quotas_is_that_of_the_twin() -> None:
    for seed in range(instances(300, 10)):
        try:
            random_instance(seed, quotas=False).run()
        except Exception as failure:
            pytest.fail(f"instance {seed}: {failure!r}")


class Planned(Checked):
    """Notes when the first job without room was first planned to start."""

    unchanging = Checked.unchanging | {"planned"}

    def start(self, world: PolicyContext, streams: Streams) -> None:
        super().start(world, streams)
        self.planned: dict[int, float] = {}

    def decide(self, view: View) -> Decision:
        decision = super().decide(view)
        if first := next((holding for holding in self.naive.plan if holding.planned), None):
            self.planned.setdefault(first.job, first.begin)
        return decision


def test_the_first_job_without_room_starts_no_later_than_first_planned() -> None:
    # Pooled, first come, no limit below the run time: what starts meanwhile ends in time or leaves room.
    planned = 0
    for seed in range(instances(300, 15)):
        found = random_instance(seed, quotas=False)
        table = found.world.table
        assert table.time_limit_us is not None
        limits = np.where(table.time_limit_us < 0, -1, np.maximum(table.time_limit_us, table.work_us))
        world = build_world(replace(table, time_limit_us=limits), found.world.cluster)
        facts = replace(
            found.facts,
            placement="pooled",
            preempt="never",
            grace=0,
            backfill=True,
            reserve=max(found.facts.reserve, 1),
            limit=np.where(limits < 0, DEFAULT_US, np.maximum(limits, 1)).tolist(),
        )
        policy = Planned(
            Naive(facts), placement="pooled", reserve=facts.reserve, default_limit_s=DEFAULT_US / 1e6
        )
        start_s = run_world(world, policy, loop="general").jobs["start_s"].to_list()
        start = {job: 1e6 * at - table.origin_us for job, at in enumerate(start_s)}
        assert all(start[job] <= at for job, at in policy.planned.items()), f"instance {seed}"
        planned += len(policy.planned)
    assert planned > 0
