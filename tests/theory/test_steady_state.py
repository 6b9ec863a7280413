"""Queues in the long run: the engine's means against the formulas of queueing theory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, IntArray, seconds_to_us
from tests.small_workloads import stored
from tests.theory.queues import (
    assert_theory_holds,
    erlang_c,
    exponential_us,
    geometric_us,
    replay,
    steady_mean,
)
from tests.worlds import Job

pytestmark = pytest.mark.slow

JOBS = 500_000


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_the_wait_of_a_single_server_queue(load: float) -> None:
    # M/M/1 with mean service 1: W = load / (1 - load).
    gap, service = exponential_us(f"gap {load}", 1 / load, JOBS), exponential_us(f"service {load}", 1.0, JOBS)
    jobs = replay(gap, service, 1).jobs
    assert_theory_holds(jobs["queue_s"].to_numpy(), load / (1 - load))


@pytest.mark.parametrize(("gpus", "use"), [(2, 0.7), (4, 0.8), (16, 0.85)])
def test_the_wait_of_a_queue_with_several_servers(gpus: int, use: float) -> None:
    # M/M/c with mean service 1: a job waits with chance C(c, load), and then 1 / (c - load) on average.
    load = gpus * use
    gap, service = exponential_us(f"gap {gpus}", 1 / load, JOBS), exponential_us(f"service {gpus}", 1.0, JOBS)
    wait = replay(gap, service, gpus).jobs["queue_s"].to_numpy()
    assert_theory_holds((wait > 0).astype(np.float64), erlang_c(gpus, load))
    assert_theory_holds(wait, erlang_c(gpus, load) / (gpus - load))


def test_the_wait_where_service_times_vary_little() -> None:
    # M/D/1 with service 1: half the wait of M/M/1, load / (2 (1 - load)) (Pollaczek and Khinchine).
    jobs = replay(exponential_us("gap M/D/1", 1 / 0.8, JOBS), np.full(JOBS, US_PER_S), 1).jobs
    assert_theory_holds(jobs["queue_s"].to_numpy(), 0.8 / (2 * (1 - 0.8)))


def _time_in_slotted_queue(arrival: float, departure: float) -> float:
    """Mean slots in a Geo/Geo/1 queue: (1 - p) / (q - p) where jobs come at the start of a slot."""
    return (1 - arrival) / (departure - arrival)


@pytest.mark.parametrize(("arrival", "departure"), [(0.2, 0.5), (0.35, 0.45), (0.7, 0.9)])
def test_the_time_in_a_slotted_queue(arrival: float, departure: float) -> None:
    # In a slot of 1 s a job comes with chance p, and the one in service leaves with chance q.
    gap, service = geometric_us("gap", arrival, JOBS), geometric_us("service", departure, JOBS)
    jobs = replay(gap, service, 1).jobs
    assert_theory_holds(jobs["jct_s"].to_numpy(), _time_in_slotted_queue(arrival, departure))


@pytest.mark.long
def test_a_slotted_queue_tends_to_the_continuous_one_as_slots_shrink() -> None:
    # Exponential times rounded up to slots are geometric: p = 1 - exp(-0.7 slot), q = 1 - exp(-slot).
    # The same draws on finer and finer slots come closer and closer to M/M/1, 1 / (1 - 0.7).
    gap, service = exponential_us("gap", 1 / 0.7, JOBS), exponential_us("service", 1.0, JOBS)
    continuous = replay(gap, service, 1).jobs["jct_s"].to_numpy()
    assert_theory_holds(continuous, 1 / (1 - 0.7))
    distances = []
    for slots_per_s in (1, 4, 16, 64):
        slot = US_PER_S // slots_per_s
        slotted = replay(-(-gap // slot) * slot, -(-service // slot) * slot, 1).jobs["jct_s"].to_numpy()
        p, q = 1 - np.exp(-0.7 / slots_per_s), 1 - np.exp(-1 / slots_per_s)
        assert_theory_holds(slotted, _time_in_slotted_queue(p, q) / slots_per_s)
        distances.append(abs(steady_mean(slotted)[0] - steady_mean(continuous)[0]))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.01 / (1 - 0.7)


def _time_under_srpt(load: float) -> float:
    """Mean time in an M/M/1 queue with mean service 1 under SRPT (Schrage and Miller 1966).

    A job of size x waits lambda m(x) / 2 (1 - rho(x))^2, with m the second moment of sizes cut at x and
    rho the load of jobs up to x, and is then served for the integral of 1 / (1 - rho) up to x.
    """
    x = np.linspace(0.0, 50.0, 200_001)
    density = np.exp(-x)
    slowdown = 1 / (1 - load * (1 - density * (1 + x)))
    wait = load * (1 - density * (1 + x)) * slowdown**2
    served = np.concatenate([[0.0], np.cumsum((slowdown[1:] + slowdown[:-1]) / 2 * np.diff(x))])
    return float(np.trapezoid((wait + served) * density, x))


def test_shortest_remaining_time_first_beats_first_come_by_as_much_as_theory_says() -> None:
    # M/M/1 at load 0.8: first come, first served takes 1 / (1 - 0.8) = 5.
    gap, service = exponential_us("gap srpt", 1 / 0.8, JOBS), exponential_us("service srpt", 1.0, JOBS)
    fifo, srtf = replay(gap, service, 1), replay(gap, service, 1, "srtf")
    assert_theory_holds(srtf.jobs["jct_s"].to_numpy(), _time_under_srpt(0.8))
    assert _time_under_srpt(0.8) < 0.6 * 5
    assert fifo.summary.jct_s.mean is not None
    assert srtf.summary.jct_s.mean is not None
    assert srtf.summary.jct_s.mean < 0.6 * fifo.summary.jct_s.mean
    # On one GPU it is optimal, and the certificate knows: rounding down by 1e-9 is all that is left.
    assert srtf.summary.certificate is not None
    assert srtf.summary.certificate.gap == pytest.approx(0.0, abs=2e-9)


P_SHORT, SHORT_S, LONG_S = 0.8, 1.0, 10.0


def _times_of_two_sizes(rate: float) -> tuple[float, float]:
    """Mean times of short and long jobs in M/G/1 under the Gittins index.

    A short job waits for the short ones before it, and for a long one only in its last SHORT_S / P_SHORT.
    """
    last, short_load = SHORT_S / P_SHORT, rate * SHORT_S
    mean, square = (
        P_SHORT * SHORT_S + (1 - P_SHORT) * LONG_S,
        P_SHORT * SHORT_S**2 + (1 - P_SHORT) * LONG_S**2,
    )
    short = rate * (SHORT_S**2 + (1 - P_SHORT) * last**2) / (2 * (1 - short_load)) + SHORT_S
    wait = rate * square / (2 * (1 - rate * mean) * (1 - short_load))
    return short, wait + (LONG_S - last) / (1 - short_load) + last


def _two_sizes(jobs: int, rate: float, seed: int) -> tuple[IntArray, IntArray]:
    """Gaps and service times."""
    is_short = Streams(seed).generator("two sizes").random(jobs) < P_SHORT
    gap = seconds_to_us(Streams(seed).generator("two gaps").exponential(1 / rate, jobs))
    return gap, seconds_to_us(np.where(is_short, SHORT_S, LONG_S))


def _under_gittins(gap: IntArray, service: IntArray, tmp_path: Path) -> pl.DataFrame:
    history = stored(tmp_path / "h.parquet", [Job(0, 1, SHORT_S)] * 4 + [Job(0, 1, LONG_S)])
    limits = (SHORT_S, LONG_S - SHORT_S / P_SHORT)
    return replay(gap, service, 1, "gittins", history=str(history), limits_gpu_s=limits).jobs


def test_the_times_of_two_sizes_under_gittins(tmp_path: Path) -> None:
    # Half load, where 6,000 jobs tell: short jobs take 1.14, long ones 15.7.
    rate = 0.5 / 2.8
    jobs = _under_gittins(*_two_sizes(6_000, rate, 0), tmp_path)
    for size, theory in zip((SHORT_S, LONG_S), _times_of_two_sizes(rate), strict=True):
        assert_theory_holds(jobs.filter(pl.col("duration_s") == size)["jct_s"].to_numpy(), theory)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_two_sizes_under_gittins_in_heavy_traffic(seed: int, tmp_path: Path) -> None:
    # Arrivals at 0.25: 1.21875 and 24.47222, mean 5.86944; first come, first served 0.25 x 20.8 / 0.6 + 2.8.
    assert _times_of_two_sizes(0.25) == pytest.approx((1.21875, 24.47222), abs=5e-6)
    gap, service = _two_sizes(300_000, 0.25, seed)
    jobs = _under_gittins(gap, service, tmp_path)
    means = {size: jobs.filter(pl.col("duration_s") == size)["jct_s"].mean() for size in (SHORT_S, LONG_S)}
    assert means == pytest.approx({SHORT_S: 1.21875, LONG_S: 24.47222}, rel=0.03)
    assert jobs["jct_s"].mean() == pytest.approx(5.86944, rel=0.03)
    assert replay(gap, service, 1).jobs["jct_s"].mean() == pytest.approx(11.46667, rel=0.03)
