"""A run whose order rule put no job before another says so: either loop, any policy with a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.contract.job_tables import with_jobs
from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import Loop
from ray_sim.engine.world import World
from ray_sim.model.units import IntArray
from ray_sim.policy_api import PolicyContext, PriorityPolicy
from tests.chunk_worlds import TWO, ChunkJob, chunk_world
from tests.worlds import DOWN, UP, Change, Job, availability, cluster_of, job_table, replay, world_of

LOOPS: list[Loop] = ["auto", "general"]
NONE_RANKED = "the policy's order put no job before another"
ALL_EQUAL = [f"all 3 jobs rank equal: {NONE_RANKED}"]
SAME_TIMES = [Job(0, 1, 5), Job(1, 1, 5), Job(2, 1, 5)]


def warnings_of(world: World, policy: str | Policy, loop: Loop, **params: Any) -> list[str]:
    return list(replay(world, policy, loop=loop, **params).summary.policy_warnings or [])


class HighestPriority(PriorityPolicy):
    """The highest priority first."""

    sees = frozenset({"priority"})

    def keys(self, world: PolicyContext) -> IntArray:
        assert world.jobs.priority is not None
        return -world.jobs.priority


def prioritised(*priority: int) -> World:
    return build_world(job_table(SAME_TIMES, columns={"priority": priority}), cluster_of([1]))


@pytest.mark.parametrize("loop", LOOPS)
def test_las_says_that_no_job_reached_its_first_limit(loop: Loop) -> None:
    # The longest job has 2 GPUs x 5 s = 10 GPU-s: 10 is reached, a thousandth more is not.
    world = world_of([Job(0, 2, 5), Job(1, 1, 5)], [2])
    text = f"no job reached the first limit of attained service, 10.001 GPU-s: {NONE_RANKED}"
    assert warnings_of(world, "las", loop, limits_gpu_s=(10.001, 20)) == [text]
    assert warnings_of(world, "las", loop, limits_gpu_s=(9.999, 20)) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_a_job_that_runs_beside_rejected_ones_ranks_equal_to_none(loop: Loop) -> None:
    world = world_of([Job(0, 2, 5), Job(1, 3, 5)], [2])
    assert warnings_of(world, "sjf", loop) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_las_names_cores_where_it_counts_them(loop: Loop) -> None:
    world = world_of([Job(0, 0, 5), Job(1, 0, 5)], [2])
    text = f"no job reached the first limit of attained service, 3,600 core-s: {NONE_RANKED}"
    assert warnings_of(world, "las", loop) == [text]


@pytest.mark.parametrize("loop", LOOPS)
def test_equal_run_times_leave_sjf_and_srtf_nothing_to_order(loop: Loop) -> None:
    equal, other = world_of(SAME_TIMES, [1]), world_of([*SAME_TIMES[:2], Job(2, 1, 6)], [1])
    for policy in ("sjf", "srtf"):
        assert warnings_of(equal, policy, loop) == ALL_EQUAL
        assert warnings_of(other, policy, loop) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_equal_priorities_leave_a_policy_of_ones_own_nothing_to_order(loop: Loop) -> None:
    assert warnings_of(prioritised(7, 7, 7), HighestPriority(), loop) == ALL_EQUAL
    assert warnings_of(prioritised(7, 7, 8), HighestPriority(), loop) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_the_order_of_arrival_is_a_rule_also_of_jobs_that_arrive_together(loop: Loop) -> None:
    assert warnings_of(world_of([Job(0, 1, 5)] * 3, [1]), "fifo", loop) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_work_left_ranks_equal_jobs_once_one_of_them_has_stopped(loop: Loop) -> None:
    # J1 loses its server at 3 s with 2 s left and comes before J2, which waits with 5 s.
    changes: list[Change] = [(3, 0, DOWN), (4, 0, UP)]
    cluster = replace(cluster_of([1]), availability=availability(changes))
    assert warnings_of(build_world(job_table(SAME_TIMES), cluster), "srtf", loop) == []


def test_one_job_is_never_behind_another() -> None:
    for policy in ("las", "sjf", "srtf"):
        assert warnings_of(world_of([Job(0, 1, 5)], [1]), policy, "auto") == []


@pytest.mark.parametrize("policy", ["sjf", "srtf"])
def test_elastic_jobs_of_equal_run_times_are_told_too(policy: str) -> None:
    world = busy_elastic(6)
    equal = replace(world.table, work_us=np.full_like(world.table.work_us, 60_000_000))
    text = f"all 6 jobs rank equal: {NONE_RANKED}"
    assert text in warnings_of(with_jobs(world, equal), policy, "auto")
    assert text not in warnings_of(world, policy, "auto")


@pytest.mark.parametrize(("last", "expected"), [(5, ALL_EQUAL), (4, [])])
def test_shortest_chunk_first_among_chunks_of_one_length_says_so(last: int, expected: list[str]) -> None:
    jobs = [ChunkJob(at, 2, chunk_s) for at, chunk_s in ((0, 5), (1, 5), (2, last))]
    world = chunk_world(jobs, TWO, slot_s=1)
    assert warnings_of(world, "chunk_spt", "general") == expected
