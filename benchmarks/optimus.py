"""Benchmark of Optimus: allocation rounds for thousands of jobs on up to 16,000 servers, and model fits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from benchmarks.measurement import Findings, Measurement, Step
from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.simulation import Simulation
from ray_sim.model.job import Exchange, JobTable, LossProfile, TrainingProfile
from ray_sim.model.loss import last_epoch, loss
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation_kernels import Claims
from ray_sim.policies.optimus.interval import Choices, IntervalJobs, target_of, tasks_of
from ray_sim.policies.optimus.knowledge import fit_speeds, nothing_known
from ray_sim.policies.optimus.loss_fit import fitted_curves
from ray_sim.policies.optimus.policy import Optimus
from ray_sim.policy_api import ElasticContext, ElasticView, PlacementTable

_T = TypeVar("_T")

SERVERS = (1000, 4000, 16_000)
SERVERS_PER_JOB = 4
ROUND_BUDGET_S, REFIT_BUDGET_S = 0.5, 2.0
"""Budgets on the largest cluster; the paper reports 5 s there, with 4,000 jobs of 100,000 tasks."""

_SERVER = (10_000, 64 * 1024)
_EPOCHS = 60
_CHOICES = Choices(
    allocation="optimus",
    normalise="share",
    quanta=np.array([1000, 1024]),
    placement="even",
    shrink=True,
    keep_places=True,
    by_demand=True,
)


def run(step: Step = lambda what: None, servers: tuple[int, ...] = SERVERS, repetitions: int = 5) -> Findings:
    """Measure CPU seconds of one core, medians after a first execution that compiles."""
    rows: list[Measurement] = []
    for n_servers in servers:
        n_jobs = n_servers // SERVERS_PER_JOB
        budget = n_servers == max(servers)
        step(f"rounds of {n_jobs:,} jobs on {n_servers:,} servers")
        rows += _rounds(str(n_servers), n_jobs, n_servers, repetitions, ROUND_BUDGET_S if budget else None)
    step(f"fits for {n_jobs:,} jobs")
    rows += _fits(str(n_servers), n_jobs, repetitions, REFIT_BUDGET_S)
    step(f"whole decisions in a run of {n_jobs:,} jobs")
    _decisions("compiled", 1, SERVERS_PER_JOB)  # compiles
    rows += _decisions(str(n_servers), n_jobs, n_servers)
    return Findings(
        "drawn jobs, 2 to 4 cores for a worker and a parameter server, 10 in a server", tuple(rows)
    )


def _rounds(
    case: str, n_jobs: int, n_servers: int, repetitions: int, budget: float | None
) -> list[Measurement]:
    """Measure the first round, with empty servers, and the next one, with less remaining work."""
    claims = _claims(n_jobs)
    nothing = PlacementTable.joined([])
    asked = np.ones(n_jobs, dtype=np.int64)
    first = IntervalJobs(claims, asked, nothing, tasks_of(nothing, n_jobs), np.zeros(n_jobs, dtype=np.bool_))
    servers, capacity = np.arange(n_servers), np.tile(_SERVER, (n_servers, 1)).astype(np.int64)
    first_s, target = _median(lambda: target_of(first, servers, capacity, _CHOICES), repetitions)
    held = target.placements.in_order()
    later = claims._replace(steps=claims.steps * Streams(1).generator("later").uniform(0.8, 1.0, n_jobs))
    following = IntervalJobs(later, asked, held, tasks_of(held, n_jobs), first.stays)
    next_s, _ = _median(lambda: target_of(following, servers, capacity, _CHOICES), repetitions)
    return [
        Measurement(case, "tasks", float(held.count.sum()), "", "neither"),
        Measurement(case, "first_round_cpu_s", first_s, "s", "smaller", budget),
        Measurement(case, "next_round_cpu_s", next_s, "s", "smaller", budget),
    ]


def _fits(case: str, n_jobs: int, repetitions: int, budget: float) -> list[Measurement]:
    """Measure the fits of all jobs: speeds from ten trials each, and loss curves from sixty losses each."""
    profile, curves = _training(n_jobs), _losses(n_jobs)
    known, jobs = nothing_known(np.arange(n_jobs)), np.arange(n_jobs)
    most = profile.batch.astype(np.int64)

    def trial(of: IntArray, workers: IntArray, ps: IntArray) -> FloatArray:
        return profile.batch[of] / (5.0 / workers + 0.1 + 0.2 * workers / ps + 0.01 * ps)

    speeds_s, _ = _median(
        lambda: fit_speeds(known, jobs, profile.exchange, profile.batch, most, trial), repetitions
    )
    epochs = np.arange(1.0, _EPOCHS + 1)
    exact = loss(curves.loss_b0[:, None], curves.loss_b1[:, None], curves.loss_b2[:, None], epochs)
    noisy = (exact + Streams(0).generator("noise").normal(0, 0.01, exact.shape)).ravel()
    ptr = np.arange(n_jobs + 1) * _EPOCHS
    curves_s, _ = _median(lambda: fitted_curves(ptr, noisy), repetitions)
    return [
        Measurement(case, "speed_fits_cpu_s", speeds_s, "s", "smaller"),
        Measurement(case, "loss_fits_cpu_s", curves_s, "s", "smaller"),
        Measurement(case, "refit_cpu_s", speeds_s + curves_s, "s", "smaller", budget),
    ]


def _decisions(case: str, n_jobs: int, n_servers: int) -> list[Measurement]:
    """Measure whole decisions at the first two slots of a run: observations, fits, allocation, changes."""
    table = job_table([(0.0, 1, 600.0, "a")] * n_jobs)
    table = _elastic(table, n_jobs)
    servers = cluster([1] * n_servers, ["a"] * n_servers)
    capacity = np.tile(_SERVER, (n_servers, 1)).astype(np.int64)
    servers = replace(servers, resources=("cpu", "memory_gib"), capacity=capacity)
    world = build_world(table, servers, params={"truth": "placement", "slot_s": 600.0})
    policy = Optimus()
    simulation = Simulation(world, policy)
    assert isinstance(simulation.world, ElasticContext)
    policy.start(simulation.world, simulation.streams)
    rows = []
    for name in ("first", "next"):
        view = simulation.advance()
        assert isinstance(view, ElasticView), "jobs of thousands of seconds are there after one slot"
        began = time.process_time()
        decision = policy.decide(view)
        seconds = time.process_time() - began
        rows.append(Measurement(case, f"{name}_decision_cpu_s", seconds, "s", "smaller"))
        simulation.apply(decision)
    return rows


def _median(work: Callable[[], _T], repetitions: int) -> tuple[float, _T]:
    """Median CPU seconds of a function, and its result."""
    seconds = []
    for _ in range(repetitions + 1):
        began = time.process_time()
        outcome = work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds[1:]), outcome


def _claims(n_jobs: int) -> Claims:
    draw, profile = Streams(0).generator("claims"), _training(n_jobs)
    times = np.zeros((n_jobs, 7))
    times[:, 0], times[:, 2] = draw.uniform(1, 20, n_jobs), draw.uniform(0.1, 0.5, n_jobs)
    times[:, 1], times[:, 3], times[:, 4] = 0.1, draw.uniform(0.001, 0.02, n_jobs), 0.01
    return Claims(
        steps=draw.uniform(100, 10_000, n_jobs),
        time=times,
        demand=np.stack([profile.worker_demand, profile.ps_demand], axis=1),
        cost=np.zeros((n_jobs, 2)),
        most_workers=profile.batch.astype(np.int64),
        with_ps=np.ones(n_jobs, dtype=np.bool_),
        priority=np.ones(n_jobs),
    )


def _elastic(table: JobTable, n_jobs: int) -> JobTable:
    return replace(
        table,
        resources=("cpu", "memory_gib"),
        demand=np.tile([1000, 1024], (n_jobs, 1)).astype(np.int64),
        training=_training(n_jobs),
        loss=_losses(n_jobs),
    )


def _training(n: int) -> TrainingProfile:
    draw, curves = Streams(0).generator("training"), _losses(n)
    epochs = last_epoch(curves.loss_b0, curves.loss_b1, curves.loss_threshold, curves.loss_patience)
    cores = 1000 * draw.integers(1, 3, (2, n))
    memory = 1024 * draw.integers(4, 9, (2, n))
    return TrainingProfile(
        exchange=draw.choice([Exchange.SYNC, Exchange.ASYNC], n).astype(np.int64),
        epochs=epochs,
        samples=np.full(n, 100_000.0),
        batch=np.full(n, 128.0),
        sample_s=draw.uniform(0.001, 0.02, n),
        gradient_mb=draw.uniform(5, 150, n),
        bandwidth_mbps=np.full(n, 1000.0),
        internal_bandwidth_mbps=np.full(n, 10_000.0),
        step_s=np.full(n, 0.02),
        step_s_per_worker=np.full(n, 0.001),
        step_s_per_ps=np.full(n, 0.001),
        workers_per_ps=np.ones(n),
        num_workers=np.full(n, 4),
        num_ps=np.full(n, 2),
        worker_demand=np.stack([cores[0], memory[0]], axis=1),
        ps_demand=np.stack([cores[1], memory[1]], axis=1),
        model=np.full(n, -1),
        model_names=(),
    )


def _losses(n: int) -> LossProfile:
    draw = Streams(0).generator("losses")
    return LossProfile(
        loss_b0=draw.uniform(0.02, 0.4, n),
        loss_b1=draw.uniform(0.8, 1.2, n),
        loss_b2=draw.uniform(0, 0.3, n),
        loss_noise=np.full(n, 0.01),
        loss_threshold=draw.uniform(0.005, 0.05, n),
        loss_patience=np.full(n, 10.0),
        loss_drop=np.zeros(n),
        loss_drop_epoch=np.zeros(n),
    )
