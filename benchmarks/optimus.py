"""Rounds of Optimus for 4,000 jobs on 16,000 servers, and its fits of losses and speeds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.figures import Figures
from ray_sim.model.job import Exchange, LossProfile, TrainingProfile
from ray_sim.model.loss import last_epoch, loss
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation import Claims
from ray_sim.policies.optimus.interval import Choices, IntervalJobs, target_of, tasks_of
from ray_sim.policies.optimus.knowledge import fit_speeds, nothing_known
from ray_sim.policies.optimus.loss_fit import fitted_curves
from ray_sim.policies.shared.typed_servers import TypeResources
from ray_sim.policy_api import PlacementTable

SERVERS = 16_000
SERVERS_PER_JOB = 4
ROUND_BUDGET_S, REFIT_BUDGET_S = 0.5, 2.0
"""Budgets; the paper reports 5 s for a round, with 4,000 jobs of 100,000 tasks."""

_SERVER = (10_000, 64 * 1024)
_EPOCHS = 60
_CHOICES = Choices(
    allocation="optimus",
    normalise="share",
    quanta=np.array([1000, 1024]),
    gpu=0,
    placement="even",
    shrink=True,
    keep_places=True,
    by_demand=True,
)


@pytest.fixture
def servers(figures: Figures) -> int:
    """Number of servers."""
    figures.input("drawn jobs, 2 to 4 cores for a worker and a parameter server, 10 in a server")
    return 40 if figures.small else SERVERS


@pytest.mark.parametrize("round_", ["first", "next"])
def test_a_round(round_: str, servers: int, figures: Figures) -> None:
    """The first round has empty servers, the next one less remaining work."""
    n_jobs = servers // SERVERS_PER_JOB
    claims, asked = _claims(n_jobs), np.ones(n_jobs, dtype=np.int64)
    nothing, stays = PlacementTable.joined([]), np.zeros(n_jobs, dtype=np.bool_)
    jobs = IntervalJobs(claims, asked, nothing, tasks_of(nothing, n_jobs), stays)
    at, capacity = np.arange(servers), np.tile(_SERVER, (servers, 1)).astype(np.int64)
    types = TypeResources(np.zeros((n_jobs, 2, 0), np.int64), np.zeros((servers, 0), np.int64))
    held = target_of(jobs, at, capacity, _CHOICES, types).placements.in_order()
    if round_ == "next":
        left = Streams(1).generator("later").uniform(0.8, 1.0, n_jobs)
        jobs = IntervalJobs(
            claims._replace(steps=claims.steps * left), asked, held, tasks_of(held, n_jobs), stays
        )
    cpu_s = figures.median_s(lambda: target_of(jobs, at, capacity, _CHOICES, types), 5)
    figures.add(f"{SERVERS}.{round_}_round_cpu_s", cpu_s, "s", "smaller", ROUND_BUDGET_S)
    if round_ == "first":
        figures.add(f"{SERVERS}.tasks", float(held.count.sum()), "", "neither")


def test_all_fits(servers: int, figures: Figures) -> None:
    """Speeds from ten trials of each job, and loss curves from sixty losses each."""
    n_jobs = servers // SERVERS_PER_JOB
    profile, curves = _training(n_jobs), _losses(n_jobs)
    known, jobs = nothing_known(np.arange(n_jobs)), np.arange(n_jobs)
    most = profile.batch.astype(np.int64)

    def trial(of: IntArray, workers: IntArray, ps: IntArray) -> FloatArray:
        return profile.batch[of] / (5.0 / workers + 0.1 + 0.2 * workers / ps + 0.01 * ps)

    epochs = np.arange(1.0, _EPOCHS + 1)
    exact = loss(curves.loss_b0[:, None], curves.loss_b1[:, None], curves.loss_b2[:, None], epochs)
    noisy = (exact + Streams(0).generator("noise").normal(0, 0.01, exact.shape)).ravel()
    ptr = np.arange(n_jobs + 1) * _EPOCHS

    def refit() -> None:
        fit_speeds(known, jobs, profile.exchange, profile.batch, most, trial)
        fitted_curves(ptr, noisy)

    figures.add(f"{SERVERS}.refit_cpu_s", figures.median_s(refit, 5), "s", "smaller", REFIT_BUDGET_S)


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
