"""Queues of jobs of one GPU, replayed by the engine and by their recursions."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from ray_sim.contract.rigid_worlds import cluster
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.model.job import JobTable
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, FloatArray, IntArray, seconds_to_us
from ray_sim.policies.registry import create_policy

BATCHES = 40


def replay(
    gap_us: IntArray, service_us: IntArray, gpus: int, policy: str = "fifo", **params: object
) -> RunResult:
    """Run jobs of one GPU each, with gaps between arrivals of which the first is not used."""
    n = len(service_us)
    submit = np.cumsum(gap_us) - gap_us[0]
    table = JobTable(
        job_id=pl.int_range(n, eager=True).cast(pl.String),
        submit_us=submit,
        work_us=service_us,
        tasks=np.ones(n, dtype=np.int64),
        demand=np.full((n, 1), 1000, dtype=np.int64),
        resources=("gpu",),
        num_gpus=np.ones(n),
        vc=np.full(n, -1, dtype=np.int64),
        trace_order=np.arange(n, dtype=np.int64),
    )
    return run_world(build_world(table, cluster([gpus], ["pool"])), create_policy(policy, params))


def exponential_us(purpose: str, mean_s: float, n: int) -> IntArray:
    """Exponential times of the given mean, the same for the same purpose."""
    return seconds_to_us(Streams(0).generator(purpose).exponential(mean_s, n))


def geometric_us(purpose: str, chance: float, n: int) -> IntArray:
    """Whole seconds until the first success of trials that succeed with a chance, 1 or more."""
    return Streams(0).generator(purpose).geometric(chance, n).astype(np.int64) * US_PER_S


def steady_mean(sample: FloatArray) -> tuple[float, float]:
    """Mean after a warm-up of a tenth, and its standard error by batch means.

    Waiting times in a row are alike; means of long batches are nearly independent.
    """
    steady = sample[len(sample) // 10 :]
    means = steady[: len(steady) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1)) / math.sqrt(BATCHES)


def assert_theory_holds(sample: FloatArray, theory: float) -> None:
    """The mean is within four standard errors of the theory, and these are below 4 % of it.

    With fixed seeds this is not a gamble; one fresh seed in 4,000 would fail.
    """
    mean, error = steady_mean(sample)
    assert error < 0.04 * theory, "too few jobs to tell"
    assert abs(mean - theory) < 4 * error, f"mean {mean:.5g}, theory {theory:.5g}, error {error:.2g}"


def erlang_c(servers: int, load: float) -> float:
    """Chance that a job of an M/M/c queue has to wait; ``load`` is arrival rate x mean service < c."""
    terms = [load**k / math.factorial(k) for k in range(servers + 1)]
    all_busy = terms[servers] * servers / (servers - load)
    return all_busy / (sum(terms[:servers]) + all_busy)
