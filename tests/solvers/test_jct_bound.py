"""No schedule beats the bounds, and where theory says so they are the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.solvers.jct_bound import jct_bounds
from tests.proofs import instances
from tests.solvers.exact_optimum import ROUNDED, gang_bounds, least_total_flow, small_instances


def test_the_example_of_two_jobs_on_one_gpu() -> None:
    # (release, run) = (0, 3), (1, 1). B1 = (3 + 1) / 2. SRPT serves job 2 in 1-2 and ends job 1 at 4:
    # flows 4 and 1. B3: job 1 is busy in 0-1 and 2-4, on average at (0.5 + 2 * 3) / 3 = 13/6, job 2 at
    # 1.5; with half the run and less the release 13/6 + 1.5 = 11/3 and 1.5 + 0.5 - 1 = 1.
    found = gang_bounds([0, 1], [3, 1], [1, 1], 1)
    assert found.b1 == pytest.approx(2.0, rel=ROUNDED)
    assert found.b2 == pytest.approx((4 + 1) / 2, rel=ROUNDED)
    assert found.b3 == pytest.approx((11 / 3 + 1) / 2, rel=ROUNDED)
    assert found.bound == found.b2
    assert least_total_flow([0, 1], [3, 1], [1, 1], 1) == 4 + 1


def test_the_example_of_two_wide_jobs_and_a_long_one() -> None:
    # Four GPUs; runs 2, 2, 6 on 4, 4, 1 GPUs take areas 8, 8, 6, hence 2, 2, 1.5 on the squashed machine.
    # SRPT ends at 1.5, 3.5, 5.5. Mean busy times 0.75, 2.5, 4.5, plus half the runs 3, 1, 1.
    found = gang_bounds([0, 0, 0], [2, 2, 6], [4, 4, 1], 4)
    assert found.b1 == pytest.approx((2 + 2 + 6) / 3, rel=ROUNDED)
    assert found.b2 == pytest.approx((1.5 + 3.5 + 5.5) / 3, rel=ROUNDED)
    assert found.b3 == pytest.approx((3.75 + 3.5 + 5.5) / 3, rel=ROUNDED)
    assert found.bound == found.b3
    # Best: the wide ones end at 2 and 4, the long one at 10.
    assert least_total_flow([0, 0, 0], [2, 2, 6], [4, 4, 1], 4) == 2 + 4 + 10


def test_no_small_instance_has_a_better_schedule_than_the_bound() -> None:
    tight, tried = 0, instances(10_000)
    for release, run, gpus, total in small_instances(tried):
        optimum = least_total_flow(release, run, gpus, total) / len(run)
        bound = gang_bounds(release, run, gpus, total).bound
        assert bound <= optimum, (release, run, gpus, total)
        tight += bound > optimum * (1 - ROUNDED)
    assert tight > 0.3 * tried  # a bound that never bites would pass as well


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=5))
def test_on_one_gpu_the_second_bound_is_the_optimum(jobs: list[tuple[int, int]]) -> None:
    # Schrage 1968: shortest remaining time first is optimal there; unit jobs are a special case.
    release, run = zip(*sorted(jobs), strict=True)
    ones = [1] * len(run)
    optimum = least_total_flow(release, run, ones, 1) / len(run)
    assert gang_bounds(release, run, ones, 1).b2 == pytest.approx(optimum, rel=ROUNDED)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_jobs_of_unit_length_on_one_gpu_have_no_gap(arrivals: list[int]) -> None:
    release = sorted(arrivals)
    ones = [1] * len(release)
    optimum = least_total_flow(release, ones, ones, 1) / len(release)
    assert gang_bounds(release, ones, ones, 1).bound == pytest.approx(optimum, rel=ROUNDED)


def test_one_job_has_no_gap() -> None:
    assert gang_bounds([7], [5], [3], 4).bound == pytest.approx(5.0, rel=ROUNDED)


def test_alike_jobs_that_all_fit_at_once_have_no_gap() -> None:
    assert gang_bounds([0] * 4, [5] * 4, [2] * 4, 8).bound == pytest.approx(5.0, rel=ROUNDED)


JOBS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 8)), min_size=1, max_size=30
)


@given(JOBS, st.integers(8, 64), st.integers(1, 64))
def test_another_server_never_raises_a_bound(
    jobs: list[tuple[int, int, int]], total: int, added: int
) -> None:
    release, run, gpus = zip(*sorted(jobs), strict=True)
    small, large = gang_bounds(release, run, gpus, total), gang_bounds(release, run, gpus, total + added)
    assert large.b1 == small.b1
    assert large.b2 <= small.b2 * (1 + 1e-12)
    assert large.b3 <= small.b3 * (1 + 1e-12)
    assert large.bound <= small.bound * (1 + 1e-12)


@given(JOBS, st.sampled_from([2, 3, 10, 1000]))
def test_the_bound_scales_with_time(jobs: list[tuple[int, int, int]], factor: int) -> None:
    release, run, gpus = zip(*sorted(jobs), strict=True)
    plain = gang_bounds(release, run, gpus, 8)
    slow = gang_bounds([factor * r for r in release], [factor * d for d in run], gpus, 8)
    assert slow.bound == pytest.approx(factor * plain.bound, rel=ROUNDED)


def test_jobs_of_no_length_wait_for_nobody() -> None:
    # B2: the long job, 4, and nothing for the other: (4 + 0) / 2.
    found = gang_bounds([0, 1], [4, 0], [1, 1], 1)
    assert found.b1 == pytest.approx(2.0, rel=ROUNDED)
    assert found.b2 == pytest.approx(2.0, rel=ROUNDED)
    assert found.b3 == pytest.approx(2.0, rel=ROUNDED)
    none = gang_bounds([3, 5], [0, 0], [1, 1], 1)
    assert (none.b1, none.b2, none.b3, none.other, none.bound) == (0.0,) * 5


def test_a_job_that_needs_none_of_the_resource_still_runs_its_time() -> None:
    # Runs 6 and 2, only the second on the GPU. B3: 6 for the first, M + d/2 = 1 + 1 for the second.
    found = gang_bounds([0, 0], [6, 2], [0, 1], 1)
    assert found.b2 == pytest.approx((0 + 2) / 2, rel=ROUNDED)
    assert found.b3 == pytest.approx((6 + 2) / 2, rel=ROUNDED)


def test_unlimited_capacity_leaves_the_shortest_runs() -> None:
    found = gang_bounds([0, 0], [6, 2], [1, 1], np.inf)
    assert (found.b2, found.bound) == (0.0, found.b1)


def test_each_partition_counts_by_its_jobs_and_takes_its_scarcest_resource() -> None:
    # Partition 0: three jobs of run 2 with (1 GPU, 1 core) at 1 GPU and 4 cores. GPUs bind: 2, 4, 6.
    # Partition 1: one job of run 8 alone. Bound (3 * 4 + 1 * 8) / 4.
    found = jct_bounds(
        np.array([0, 0, 0, 0]),
        np.array([2.0, 8.0, 2.0, 2.0]),
        np.array([[2.0, 2.0], [8.0, 8.0], [2.0, 2.0], [2.0, 2.0]]),
        np.array([[1.0, 4.0], [2.0, 2.0]]),
        np.array([0, 1, 0, 0]),
    )
    assert found is not None
    assert found.b1 == pytest.approx((3 * 2 + 8) / 4, rel=ROUNDED)
    assert found.b2 == pytest.approx((3 * 4 + 8 / 2) / 4, rel=ROUNDED)
    assert found.bound == pytest.approx((3 * 4 + 8) / 4, rel=ROUNDED)


def test_no_job_has_no_bound() -> None:
    none = np.empty(0)
    assert (
        jct_bounds(none.astype(np.int64), none, none[:, None], np.ones((1, 1)), none.astype(np.int64)) is None
    )


def test_the_clock_is_exact_where_floating_point_is_not() -> None:
    # A busy period a year long of jobs that leave the machine as the next one comes: every flow is one
    # job's third of a second, whatever rounding a year's microseconds suffer.
    n = 100_000
    release = np.arange(n, dtype=np.int64) * 333_333_333
    found = gang_bounds(release.tolist(), [333_333_333.0] * n, [1] * n, 1)
    assert found.b2 == pytest.approx(333_333_333.0, rel=ROUNDED)
    thirds = gang_bounds(release.tolist(), [333_333_333.0] * n, [1] * n, 3)
    assert thirds.b2 == pytest.approx(111_111_111.0, rel=ROUNDED)


@pytest.mark.parametrize(
    ("release", "total", "message"),
    [([1, 0], 1.0, "must not decrease"), ([0, 0], 0.0, "has none"), ([0, 2**62], 1.0, "span")],
)
def test_impossible_arguments_are_refused(release: list[int], total: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gang_bounds(release, [1, 1], [1, 1], total)
