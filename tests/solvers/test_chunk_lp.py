"""The linear programme of chunks: what it equals, what it is below, and when it says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from ray_sim.model.streams import Streams
from ray_sim.solvers.chunk_lp import MERGED_STEPS, MOST_VARIABLES, Chunks, mean_flow_bound
from tests.proofs import seeds

EXACT = 1e-9
"""Relative; floating point and the simplex method's last digits."""


class Job(NamedTuple):
    """Times in slots; a length for each kind of worker; ``elsewhere`` is a chunk's flow time in a cloud."""

    release: int
    ready: int
    chunks: int
    lengths: Sequence[int]
    elsewhere: float = np.inf


def chunks_of(jobs: Sequence[Job], slots: Sequence[int], slot: int = 1) -> Chunks:
    """The same, with slots of so many microseconds."""
    return Chunks(
        release=slot * np.array([job.release for job in jobs]),
        ready=slot * np.array([[job.ready] * len(slots) for job in jobs]).reshape(len(jobs), len(slots)),
        count=np.array([job.chunks for job in jobs]),
        length=slot * np.array([job.lengths for job in jobs]).reshape(len(jobs), len(slots)),
        slots=np.array(slots, dtype=np.int64),
        elsewhere=slot * np.array([job.elsewhere for job in jobs]),
        grid_us=slot,
    )


def bound(jobs: Sequence[Job], slots: Sequence[int] = (1,)) -> float:
    found, why = mean_flow_bound(chunks_of(jobs, slots))
    assert why is None
    assert found is not None
    return found


def written_out(jobs: Sequence[Job], slots: Sequence[int]) -> float:
    """LP (4) with a variable for each chunk, worker and slot, over twice the time that anything can take."""
    workers = [kind for kind, n in enumerate(slots) for _ in range(n)]
    end = max(job.ready for job in jobs) + 2 * sum(job.chunks * max(job.lengths) for job in jobs)
    owners = [job for job in jobs for _ in range(job.chunks)]
    cells = [
        (chunk, worker, slot)
        for chunk, job in enumerate(owners)
        for worker in range(len(workers))
        for slot in range(job.ready, end)
    ]
    rows = np.zeros((len(owners) + len(workers) * end, len(cells)))
    cost = np.zeros(len(cells))
    for column, (chunk, worker, slot) in enumerate(cells):
        job = owners[chunk]
        length = job.lengths[workers[worker]]
        cost[column] = ((slot + 0.5 - job.release) / length + 0.5) / job.chunks
        rows[chunk, column] = -1 / length
        rows[len(owners) + worker * end + slot, column] = 1
    # A chunk of its own worker in the cloud, in whole.
    cloud = [chunk for chunk, job in enumerate(owners) if np.isfinite(job.elsewhere)]
    rows = np.hstack([rows, -np.eye(len(rows))[:, cloud]])
    cost = np.concatenate([cost, [owners[chunk].elsewhere / owners[chunk].chunks for chunk in cloud]])
    most = np.concatenate([-np.ones(len(owners)), np.ones(len(workers) * end)])
    result = linprog(  # type: ignore[call-overload]  # its types do not know `threads`
        cost, A_ub=rows, b_ub=most, method="highs-ds", options={"threads": 1}
    )
    assert result.status == 0
    return float(result.fun) / len(jobs)


def small_jobs(seed: int, kinds: int, most: int = 3) -> list[Job]:
    draw = Streams(seed).generator("chunk-lp")
    jobs = []
    for _ in range(int(draw.integers(1, most + 1))):
        release = int(draw.integers(0, 5))
        fast = int(draw.integers(1, 4))
        jobs.append(
            Job(
                release,
                release + int(draw.integers(0, 3)),
                int(draw.integers(1, 4)),
                [fast * factor for factor in (1, 2)][:kinds],
                float(draw.choice([np.inf, np.inf, 6.0, 9.0])),
            )
        )
    return jobs


def test_one_chunk_on_one_worker_costs_its_upload_and_its_length() -> None:
    # Delta = 2, p = 3: mean instant 2 + 3 / 2, and 3 / 2.
    assert bound([Job(0, 2, 1, [3])]) == pytest.approx(5.0, rel=EXACT)


def test_chunks_of_one_worker_are_served_by_length_times_chunks() -> None:
    # D p = 1, 2 and 3 at 0: done at 1, 3 and 6.
    jobs = [Job(0, 0, 1, [3]), Job(0, 0, 1, [1]), Job(0, 0, 1, [2])]
    assert bound(jobs) == pytest.approx((1 + 3 + 6) / 3, rel=EXACT)
    # Two chunks of 4 s of one job: flow times 4 and 8, each over 2.
    assert bound([Job(0, 0, 2, [4])]) == pytest.approx((4 + 8) / 2, rel=EXACT)


def test_a_chunk_may_be_divided_among_workers() -> None:
    # One chunk of 4 on 4 workers: all of it at 0 to 1, mean instant 1 / 2, and half of 4.
    assert bound([Job(0, 0, 1, [4])], [4]) == pytest.approx(2.5, rel=EXACT)


def test_a_chunk_elsewhere_costs_its_flow_time() -> None:
    # Five chunks of 2 s on one worker would end at 2, 4, 6, 8, 10; elsewhere each takes 5: 2 + 4 + 3 x 5.
    assert bound([Job(0, 0, 5, [2], 5.0)]) == pytest.approx((2 + 4 + 15) / 5, rel=EXACT)
    # No worker at all.
    assert bound([Job(0, 0, 5, [], 5.0), Job(0, 0, 1, [], 7.0)], []) == pytest.approx(6.0, rel=EXACT)


def test_chunks_of_no_length_cost_their_upload() -> None:
    assert bound([Job(0, 3, 2, [0]), Job(0, 0, 1, [4])]) == pytest.approx((3 + 4) / 2, rel=EXACT)


@pytest.mark.filterwarnings("ignore:Unrecognized options")  # `threads` goes to HiGHS as it is
@pytest.mark.parametrize("seed", seeds(40))
def test_jobs_by_kinds_of_workers_are_as_good_as_every_chunk_on_every_worker(seed: int) -> None:
    draw = Streams(seed).generator("slots")
    slots = [int(n) for n in draw.integers(1, 3, int(draw.integers(1, 3)))]
    jobs = small_jobs(seed, len(slots))
    assert bound(jobs, slots) == pytest.approx(written_out(jobs, slots), rel=1e-7)


def least_f(jobs: Sequence[Job]) -> float:
    """The least F of all schedules of one worker, by trying every chunk in every slot."""
    owners = [job for job in jobs for _ in range(job.chunks)]
    cost_of_length = sum(job.lengths[0] / 2 / job.chunks for job in owners)

    @cache
    def best(slot: int, left: tuple[int, ...]) -> float:
        if not any(left):
            return 0.0
        there = [c for c, job in enumerate(owners) if left[c] and job.ready <= slot]
        costs = [best(slot + 1, left)] if len(there) < sum(map(bool, left)) else []
        for chunk in there:
            job = owners[chunk]
            gained = (slot + 0.5 - job.release) / job.lengths[0] / job.chunks
            rest = tuple(n - (c == chunk) for c, n in enumerate(left))
            costs.append(gained + best(slot + 1, rest))
        return min(costs)

    return best(0, tuple(job.lengths[0] for job in owners)) + cost_of_length


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60, quick=2))
def test_on_one_worker_it_is_the_least_of_all_schedules(seed: int) -> None:
    # Slots are dealt out whole there, as in any transport of whole units.
    jobs = [job._replace(elsewhere=np.inf) for job in small_jobs(seed, 1)]
    assert bound(jobs) == pytest.approx(least_f(jobs) / len(jobs), rel=EXACT)


@pytest.mark.parametrize("seed", seeds(20))
def test_merged_steps_bound_the_same_chunks_from_below(seed: int) -> None:
    jobs = small_jobs(seed, 2, most=5)
    whole = chunks_of(jobs, [2, 1], slot=10**6)
    exact, _ = mean_flow_bound(whole)
    merged, _ = mean_flow_bound(replace(whole, grid_us=1))
    assert exact is not None
    assert merged is not None
    # A slot is the coarser: all of it counts in its middle, whoever comes first within it.
    assert 0.85 * exact < merged <= exact * (1 + EXACT)


@pytest.mark.parametrize("seed", range(10))
def test_scaling_time_scales_the_bound(seed: int) -> None:
    jobs = small_jobs(seed, 2)
    one, _ = mean_flow_bound(chunks_of(jobs, [1, 2], slot=60))
    seven, _ = mean_flow_bound(chunks_of(jobs, [1, 2], slot=420))
    assert one is not None
    assert seven == pytest.approx(7 * one, rel=1e-7)


def test_too_many_variables_are_refused_with_their_numbers() -> None:
    n = MOST_VARIABLES // MERGED_STEPS
    long = 10**9  # so many slots that they are merged
    assert mean_flow_bound(chunks_of([Job(0, 0, 1, [long], 5.0)] * n, [1]))[1] is None
    found, why = mean_flow_bound(chunks_of([Job(0, 0, 1, [long], 5.0)] * (n + 1), [1]))
    assert found is None
    assert (
        why == f"too many variables: {n + 1} jobs, 1 kinds of workers and 300 steps of time, at most 60,000"
    )
