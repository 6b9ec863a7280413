"""Without interference, on a fast network and servers of one speed, all placements earn the same reward.

All complete placements of two jobs on two or three servers, taken in `ray_sim/Placement-v0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium

from ray_sim.environments import PlacementEnv
from tests.interfering_worlds import interference, interfering_world
from tests.training import profile

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
    return gymnasium.make("ray_sim/Placement-v0", episodes=world, reward=reward, reward_scale_s=SCALE_S)


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
@pytest.mark.parametrize("reward", ["progress", "jct"])
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
