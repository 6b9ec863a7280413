"""Verdicts on job classes, against trying every server, and every pair of servers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER, WorldArrays
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.core.world_arrays import (
    BREAKS_PLACEMENT,
    EXCEEDS_CAPACITY,
    FITS,
    find_single_server_classes,
    judge_capacity,
    judge_placement,
    judge_smallest,
)
from ray_sim.model.units import BoolArray
from tests.kernels.by_hand import SEEDS, all_there, ints, world_arrays
from tests.proofs import instances


def random_arrays(rng: np.random.Generator, roles: int) -> WorldArrays:
    """Up to five jobs and four servers in up to two partitions; some jobs have none."""
    n_jobs, n_servers = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    return world_arrays(
        rng.integers(0, 9, (n_servers, 2)),
        rng.integers(0, 5, (n_jobs, roles, 2)),
        np.stack([rng.integers(1, 7, n_jobs), *rng.integers(0, 3, (roles - 1, n_jobs))], axis=1),
        server_part=[0, 1, *rng.integers(0, 2, n_servers - 2)],
        job_part=rng.integers(-1, 2, n_jobs).tolist(),
    )


def judged(kernel: Any, arrays: WorldArrays) -> list[int]:
    """Verdict per job."""
    verdict = np.full(len(arrays.class_job), -9)
    kernel(arrays, verdict)
    return [int(verdict[c]) for c in arrays.job_class]


def servers_for(arrays: WorldArrays, job: int) -> BoolArray:
    """(S,) which servers are in the job's partition."""
    theirs: BoolArray = arrays.server_part == arrays.job_part[job]
    return theirs


def holds(amounts: I64, demand: I64) -> BoolArray:
    """Which of these servers hold the demand."""
    return np.asarray((demand <= amounts).all(axis=1))


def test_a_gang_of_five_fits_over_servers_of_four_and_two_but_not_on_one() -> None:
    # Workers of 1 GPU; 4 + 2 hold 6 in all, 4 on one. Job 3 has no partition.
    arrays = world_arrays(
        [[4], [2]], [[[1]], [[1]], [[1]], [[1]]], [[5], [7], [4], [1]], job_part=[0, 0, 0, -1]
    )
    assert judged(judge_capacity, arrays) == [FITS, EXCEEDS_CAPACITY, FITS, EXCEEDS_CAPACITY]
    find_single_server_classes(arrays, ints([0]))
    assert arrays.class_single[arrays.job_class].tolist() == [False, False, True, False]


def test_a_worker_and_a_parameter_server_need_one_server_for_both_or_two() -> None:
    # Worker 3 GPU, parameter server 2: both on 5 GPU, one each on 3 and 2, but not both on 4 alone.
    def verdict(*gpus: int, ps: int = 1) -> int:
        return judged(judge_smallest, world_arrays([[gpu] for gpu in gpus], [[[3], [2]]], [[1, ps]])).pop()

    assert verdict(5) == verdict(3, 2) == verdict(4, 4) == FITS
    assert verdict(4) == verdict(4, 1) == verdict(2, 2) == EXCEEDS_CAPACITY
    assert verdict(4, ps=0) == FITS


@settings(max_examples=instances(300, 50))
@given(seed=SEEDS)
def test_capacity_verdicts_are_those_of_trying_every_server(seed: int) -> None:
    arrays = random_arrays(np.random.default_rng(seed), 1)
    verdicts = judged(judge_capacity, arrays)
    find_single_server_classes(arrays, ints([0, 0]))
    for job, verdict in enumerate(verdicts):
        demand, wanted = arrays.demand[job, WORKER], int(arrays.gang[job, WORKER])
        here = arrays.capacity[servers_for(arrays, job)]
        room = sum(int(holds(here, n * demand).sum()) for n in range(1, wanted + 1))
        assert verdict == (FITS if room >= wanted else EXCEEDS_CAPACITY)
        assert arrays.class_single[arrays.job_class[job]] == holds(here, wanted * demand).any()


@settings(max_examples=instances(300, 50))
@given(seed=SEEDS)
def test_smallest_verdicts_are_those_of_trying_every_pair_of_servers(seed: int) -> None:
    arrays = random_arrays(np.random.default_rng(seed), 2)
    for job, verdict in enumerate(judged(judge_smallest, arrays)):
        here = arrays.capacity[servers_for(arrays, job)]
        worker = arrays.demand[job, WORKER]
        ps = arrays.demand[job, PARAMETER_SERVER] * (arrays.gang[job, PARAMETER_SERVER] > 0)
        apart = np.logical_and.outer(holds(here, worker), holds(here, ps))
        np.fill_diagonal(apart, holds(here, worker + ps))  # of one server both are asked
        fits = apart.any()
        assert verdict == (FITS if fits else EXCEEDS_CAPACITY)


@settings(max_examples=instances(300, 8))
@given(seed=SEEDS)
def test_no_rule_breaks_a_gang_of_one_role_that_an_empty_partition_holds(seed: int) -> None:
    arrays = random_arrays(np.random.default_rng(seed), 1)
    find_single_server_classes(arrays, ints([0, 0]))
    before = np.empty(len(arrays.class_job), np.int64)
    judge_capacity(arrays, before)
    for rule in range(len(RULE_NAMES)):
        verdict = before.copy()
        judge_placement(rule, arrays, all_there(arrays), verdict, new_scratch(arrays))
        assert verdict.tolist() == before.tolist()


def test_a_gang_whose_workers_fit_without_their_parameter_server_breaks_placement() -> None:
    # 4 workers and 0 or 1 parameter server of 1 GPU each, on 4 GPUs; 5 workers exceed them.
    arrays = world_arrays([[4]], [[[1], [1]]] * 3, [[4, 0], [4, 1], [5, 0]])
    verdict = np.empty(3, np.int64)
    judge_capacity(arrays, verdict)
    assert verdict[arrays.job_class].tolist() == [FITS, FITS, EXCEEDS_CAPACITY]
    judge_placement(RULE_NAMES.index("first_fit"), arrays, all_there(arrays), verdict, new_scratch(arrays))
    assert verdict[arrays.job_class].tolist() == [FITS, BREAKS_PLACEMENT, EXCEEDS_CAPACITY]
