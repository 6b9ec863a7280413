"""Jobs that share: DRF is processor sharing, and LAS with more and more queues tends to its own limit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.run import run_world
from ray_sim.model.job import Exchange
from ray_sim.model.units import US_PER_S
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.proofs import instances
from tests.theory.queues import assert_theory_holds, exponential_us, replay, steady_mean
from tests.training import profile

JOBS = 200_000
LOAD = 0.7
GPUS = 60
"""Whole shares for one to six jobs."""


def shared_processor(arrivals: list[float], works: list[float]) -> list[float]:
    """When each job ends if the n jobs that are there each progress at the rate 1 / n."""
    left, ends, now = dict[int, float](), [0.0] * len(arrivals), 0.0
    coming = list(enumerate(arrivals))
    while coming or left:
        ending = now + min(left.values()) * len(left) if left else np.inf
        time = min(ending, coming[0][1] if coming else np.inf)
        left = {job: work - (time - now) / len(left) for job, work in left.items()}
        now = time
        for job in [job for job, work in left.items() if work < 1e-9]:
            ends[job] = now
            del left[job]
        while coming and coming[0][1] == now:
            job, _ = coming.pop(0)
            left[job] = works[job]
    return ends


@settings(max_examples=instances(25), deadline=None)
@given(
    arrivals=st.lists(st.integers(0, 60).map(float), min_size=1, max_size=6).map(sorted),
    works=st.lists(st.integers(1, 40).map(float), min_size=6, max_size=6),
)
def test_drf_is_processor_sharing_where_shares_are_whole(arrivals: list[float], works: list[float]) -> None:
    # Jobs without transfers train as fast as they have workers; 60 GPUs are 60 / n for each of n <= 6 jobs.
    # Every end is known to a microsecond, which each sharing may move by another.
    jobs = [
        profile(
            exchange=Exchange.ALL_REDUCE,
            gradient_mb=0,
            num_ps=0,
            batch=60,
            sample_s=1,
            samples=60 * work,
            epochs=1,
        )
        for work in works[: len(arrivals)]
    ]
    world = elastic_world(arrivals, jobs, [float(GPUS)])
    result = run_world(world, create_policy("drf", {"when": "event"}))
    expected = shared_processor(arrivals, works)
    np.testing.assert_allclose(result.jobs["jct_s"], np.subtract(expected, arrivals), atol=1e-4)


def truncated(limit: float) -> tuple[float, float]:
    """Mean and second moment of min(S, limit), S exponential with mean 1."""
    beyond = np.exp(-limit) if limit < np.inf else 0.0
    return 1 - beyond, 2 * (1 - beyond * (1 + min(limit, 1e3)))


def time_between(lower: float, upper: float, size: float) -> float:
    """Mean time of a job of this size whose last queue has these limits, at the arrival rate `LOAD`.

    All that earlier jobs have to do up to ``upper`` goes ahead of it, and so does what later ones have to do
    up to ``lower``: T = (lambda E[min(S, upper)^2] / 2 (1 - rho_upper) + size) / (1 - rho_lower). With limits
    that are one it is the time under least attained service without queues (Kleinrock 1976).
    """
    below, (mean, square) = LOAD * truncated(lower)[0], truncated(upper)
    return float((LOAD * square / (2 * (1 - LOAD * mean)) + size) / (1 - below))


@pytest.mark.slow
@pytest.mark.parametrize("queue_order", ["first_start", "running_first"])
def test_las_on_one_gpu_takes_as_long_as_queues_of_queues_do(queue_order: str) -> None:
    gap, service = exponential_us("gap las", 1 / LOAD, JOBS), exponential_us("service las", 1.0, JOBS)
    limits = [0.0, 0.5, 1.5, np.inf]
    result = replay(gap, service, 1, "las", limits_gpu_s=tuple(limits[1:-1]), queue_order=queue_order)
    sizes, times = service / US_PER_S, result.jobs["jct_s"].to_numpy()
    for lower, upper in pairwise(limits):
        here = (sizes > lower) & (sizes <= upper)
        assert_theory_holds(times[here], time_between(lower, upper, float(sizes[here].mean())))
    # Who knows nothing of sizes cannot change the mean time of exponential ones: 1 / (1 - load).
    assert_theory_holds(times, 1 / (1 - LOAD))


@pytest.mark.slow
def test_las_tends_to_least_attained_service_as_its_queues_become_finer() -> None:
    # The mean over jobs of size x <= 0.1 of the time without queues, limits x and x. In one queue up to 1
    # they wait for longer ones: 0.7 x 0.53 / 2 (1 - 0.44) + 0.05 = 0.38 instead of 0.05.
    few = JOBS // 4
    gap, service = exponential_us("gap las", 1 / LOAD, few), exponential_us("service las", 1.0, few)
    x = np.linspace(0.0, 0.1, 201)[1:]
    density = np.exp(-x) / np.exp(-x).sum()
    limit = float(sum(d * time_between(at, at, at) for at, d in zip(x, density, strict=True)))
    distances = []
    for queues in (1, 3, 15):
        limits = tuple((np.arange(1, queues + 1) / queues).tolist())
        times = replay(gap, service, 1, "las", limits_gpu_s=limits).jobs["jct_s"].to_numpy()
        distances.append(abs(steady_mean(times[service <= 0.1 * US_PER_S])[0] / limit - 1))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.05
