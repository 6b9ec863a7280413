"""B4 is a bound at any prices, and at least B1 and B3 at those that it takes."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.kernels.planning.priced_times import PricedPieces, priced_flows
from ray_sim.model.streams import Streams
from ray_sim.solvers.jct_bound import JctBounds
from ray_sim.solvers.jct_programme import PoolJobs, programme_bound
from tests.proofs import instances
from tests.solvers.exact_optimum import ROUNDED, gang_bounds, least_total_flow, small_instances

CELLS = 400


def b4_of(bounds: JctBounds) -> float:
    assert bounds.no_b4 is None
    assert bounds.b4 is not None
    return bounds.b4


def test_two_jobs_on_half_of_the_gpus_are_as_fast_as_alone() -> None:
    found = gang_bounds([0, 0], [6, 6], [1, 1], 2, CELLS)
    assert b4_of(found) == pytest.approx(6, rel=1e-6)
    assert found.binding.name == "B1"  # of equal bounds the first


def test_the_example_of_two_wide_jobs_and_a_long_one() -> None:
    # B3 lets the long job, 6 s of one GPU, run on all four at a time; B4 knows that it takes 6 s.
    found = gang_bounds([0, 0, 0], [2, 2, 6], [4, 4, 1], 4, cells=6000)
    assert found.b3 == pytest.approx(4.25, rel=ROUNDED)
    assert 4.25 < b4_of(found) <= (2 + 4 + 10) / 3
    assert found.binding.name == "B4"


def test_no_small_instance_has_a_better_schedule() -> None:
    above = 0
    tried = instances(3000, 30)
    for release, run, gpus, total in small_instances(tried):
        found = gang_bounds(release, run, gpus, total, CELLS)
        assert b4_of(found) <= least_total_flow(release, run, gpus, total) / len(run), (release, run, gpus)
        assert b4_of(found) >= max(found.b1, found.b3) * (1 - ROUNDED), (release, run, gpus)
        above += b4_of(found) > max(found.b1, found.b3) * 1.001
    assert above > tried / 10


def test_any_prices_give_a_bound() -> None:
    for seed in range(instances(3000, 30)):
        draw = Streams(seed).generator("any-prices")
        total, n, pieces = int(draw.integers(1, 5)), int(draw.integers(1, 5)), int(draw.integers(1, 6))
        release = sorted(draw.integers(0, 6, n).tolist())
        run, gpus = draw.integers(1, 5, n), draw.integers(1, total + 1, n)
        edge = np.concatenate([[0.0], np.cumsum(draw.uniform(0.5, 4, pieces))])
        edge[-1] = max(edge[-1], 6.0)
        left, right = draw.uniform(0, 2, (2, pieces, 1))
        flow = np.empty(n)
        busy, begins = run.astype(np.float64), np.array(release, dtype=np.float64)
        size = (run * gpus / total)[:, None]
        priced_flows(begins, busy, size, PricedPieces(edge, left, right), np.empty((3, pieces)), flow)
        paid = float((np.diff(edge) * (left + right)[:, 0] / 2).sum())
        optimum = least_total_flow(release, run.tolist(), gpus.tolist(), total)
        assert flow.sum() + busy.sum() / 2 - paid <= optimum * (1 + ROUNDED), seed


def test_two_scarce_resources_count_together() -> None:
    # Two jobs on all GPUs, two on all cores, one of each kind at a time; a fifth takes both.
    n = 5
    busy = np.full(n, 4.0)
    size = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0], [4.0, 4.0]])
    found, why = programme_bound(PoolJobs(np.zeros(n, dtype=np.int64), busy, busy, size), 4000)
    assert why is None
    # Each pair ends at 4 and 8 and the last at 12.
    assert 4 < found.mean <= (4 + 8 + 4 + 8 + 12) / 5
    alone = [
        programme_bound(PoolJobs(np.zeros(n, dtype=np.int64), busy, busy, size[:, [r]]), 4000)[0].mean
        for r in range(2)
    ]
    assert found.mean > max(alone) * 1.05


def test_a_sample_sets_prices_for_many_jobs() -> None:
    draw = Streams(0).generator("many")
    n = 400
    release, run = np.sort(draw.integers(0, 300_000, n)), draw.exponential(3000, n) + 1
    found = gang_bounds(release.tolist(), run.tolist(), draw.integers(1, 5, n).tolist(), 10, cells=2000)
    every = gang_bounds(release.tolist(), run.tolist(), [1] * n, 1e6, cells=2000)
    assert b4_of(found) >= found.b3 * 0.99
    assert b4_of(every) == pytest.approx(every.b1, rel=1e-9)


def test_jobs_of_no_length_and_unlimited_capacity() -> None:
    assert b4_of(gang_bounds([3, 5], [0, 0], [1, 1], 1, CELLS)) == 0.0
    assert b4_of(gang_bounds([0, 0], [6, 2], [1, 1], np.inf, CELLS)) == pytest.approx(4, rel=ROUNDED)
