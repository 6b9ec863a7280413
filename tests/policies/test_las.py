from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop
from ray_sim.engine.world import World
from ray_sim.kernels.core.attained_service import crossing_us, level_of, promotion_us
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.registry import create_policy
from tests.worlds import Job, cluster_of, events_of, fingerprint, job_table, replay, times_of, world_of

STARVING = [Job(0, 1, 6), Job(1, 1, 2), Job(3, 1, 2), Job(5, 1, 2)]


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_a_knob_beyond_the_clock_is_no_knob(loop: Loop) -> None:
    # 2 s of service times 1e15 is more than the clock holds: J1 is promoted never, not at once.
    world = world_of(STARVING, [1])
    never = fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,)))
    for knob in (1e15, 9e15):
        assert fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,), knob=knob)) == never


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_an_earlier_start_suspends_jobs_of_the_same_queue_unless_those_that_run_come_first(
    loop: Loop,
) -> None:
    # 2 GPUs, limit 4 GPU-s. J1 (2 GPUs) moves down at 2; J2 and J3 (1 each) take its place at 2 and 3 and
    # move down at 6 and 7. By first start J1 then comes first: 7-11, and J2 and J3 have 5 s and 6 s left.
    # With those that run first J1 needs both GPUs at once: 13-17.
    world = world_of([Job(0, 2, 6), Job(1, 1, 10), Job(3, 1, 10)], [2])
    by_start = replay(world, "las", loop=loop, limits_gpu_s=(4,))
    assert times_of(by_start) == {"J1": (0, 11), "J2": (2, 16), "J3": (3, 17)}
    by_place = replay(world, "las", loop=loop, limits_gpu_s=(4,), queue_order="running_first")
    assert times_of(by_place) == {"J1": (0, 17), "J2": (2, 12), "J3": (3, 13)}


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_service_beyond_64_bits_is_beyond_every_limit(loop: Loop) -> None:
    # 20,000 GPUs x 8e6 s are 1.6e20 milli-GPU microseconds. J1 is in the last queue, so J2 goes first.
    world = world_of([Job(0, 20_000, 8.5e6), Job(8e6, 1, 10)], [20_000])
    result = replay(world, "las", loop=loop)
    assert times_of(result) == {"J1": (0, 8.5e6 + 10), "J2": (8e6, 8e6 + 10)}


def of_cores(cores: Sequence[float], jobs: Sequence[Job], name: str = "cpu", amount: float = 4) -> World:
    """Jobs, one task each, on a server with 8 GPUs and so much CPU; ``cores`` is the demand of each."""
    amounts: Mapping[str, Any] = {name: [amount]}
    cluster = cluster_of([8], **amounts)
    table = job_table(jobs, cluster.resources, {f"{name}_per_task": list(cores)})
    return build_world(table, cluster)


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_without_gpus_service_counts_cores(loop: Loop) -> None:
    # 4 cores, limit 8 core-s. J1 (4 cores, 6 s) reaches it at 2 s. J2 (4 cores, 1 s) and J3 (2, 5 s)
    # came at 1 s: J2 runs 2-3, J3 3-7 until it has 8 core-s too; J1 started first, runs 7-11, J3 ends at 12.
    world = of_cores([4, 4, 2], [Job(0, 0, 6), Job(1, 0, 1), Job(1, 0, 5)])
    result = replay(world, "las", loop=loop, limits_core_s=(8,))
    assert times_of(result) == {"J1": (0, 11), "J2": (2, 3), "J3": (3, 12)}
    # The limit of GPUs has no effect, and an hour of one core, the default, is out of reach.
    out_of_reach = replay(world, "las", loop=loop, limits_gpu_s=(8,))
    assert times_of(out_of_reach) == {"J1": (0, 6), "J2": (6, 7), "J3": (7, 12)}


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_one_job_with_a_gpu_makes_service_count_gpus(loop: Loop) -> None:
    # As above, but J3 holds 2 GPUs: J1 and J2 count as a thousandth of a GPU and are never moved down.
    world = of_cores([4, 4, 2], [Job(0, 0, 6), Job(1, 0, 1), Job(1, 1, 5)])
    result = replay(world, "las", loop=loop, limits_core_s=(8,), limits_gpu_s=(8,))
    assert times_of(result) == {"J1": (0, 6), "J2": (6, 7), "J3": (7, 12)}


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_a_share_of_the_largest_server_counts_as_that_share_of_a_core(loop: Loop) -> None:
    # J1 holds the whole server, 1: it reaches 2 core-s at 2 s. J2 runs 2-5, then J1 ends at 5 + 4.
    world = of_cores([1, 0.5], [Job(0, 0, 6), Job(1, 0, 3)], "cpu_norm", 1)
    result = replay(world, "las", loop=loop, limits_core_s=(2,))
    assert times_of(result) == {"J1": (0, 9), "J2": (2, 5)}


@pytest.mark.parametrize("demand", [of_cores, None])
def test_without_gpus_and_cpu_each_task_counts_as_a_core(demand: object) -> None:
    # 7 s of 1 task reach 6 core-s, with and without CPU on the servers; jobs that hold nothing never wait.
    jobs = [Job(0, 0, 7), Job(1, 0, 3)]
    world = of_cores([0, 0], jobs) if demand else world_of(jobs, [1])
    result = replay(world, "las", limits_core_s=(6,))
    assert times_of(result) == {"J1": (0, 7), "J2": (1, 4)}
    assert [event[:2] for event in events_of(result, "J1") if event[1] == "level"] == [(6, "level")]


@pytest.mark.parametrize("name", ["limits_gpu_s", "limits_core_s"])
@pytest.mark.parametrize("limits", [(), (5.0, 5.0), (7.0, 2.0), tuple(map(float, range(1, 17))), (1e10,)])
def test_limits_must_be_few_increase_and_be_countable(name: str, limits: tuple[float, ...]) -> None:
    # 1e10 GPU-s are 1e19 milli-GPU microseconds, more than 64 bits hold.
    with pytest.raises(InvalidScenarioError, match=name):
        create_policy("las", {name: limits})


def test_a_job_crosses_a_limit_at_the_first_microsecond_that_reaches_it() -> None:
    limits = np.array([10, 25])
    assert [level_of(service, limits) for service in (0, 9, 10, 24, 25, 1000)] == [0, 0, 1, 1, 2, 2]
    # With 3 GPUs from service 0, 10 is reached in ceil(10 / 3) = 4; from 12, 25 in ceil(13 / 3) = 5.
    assert [crossing_us(service, 3, limits) for service in (0, 12, 25)] == [4, 5, -1]


def test_promotion_comes_after_the_whole_wait() -> None:
    # 7 us x 1.5 = 10.5, so 11.
    assert [promotion_us(7, knob) for knob in (1.0, 1.5, 2.0)] == [7, 11, 14]
