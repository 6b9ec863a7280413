"""Figures of elastic jobs."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.figures.base import GangFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticFigures(GangFigures):
    """Tasks, traffic, skew of parameter servers, interference, and errors of the policy's estimates."""

    cross_server_gb: float
    """Traffic between servers, 10^9 bytes."""
    mean_tasks: float | None = None
    """Workers and parameter servers of all jobs that train, averaged from the first submission to the last
    completion; null where no job completes."""
    computing_share: float | None = None
    """Share of the time of these tasks that the samples take at speed 1; null where none trains."""
    ps_imbalance: float | None = None
    """Parameters on a job's fullest parameter server over the average, averaged over the time in which jobs
    trained with parameter servers; null where none did."""
    interference_share: float | None = None
    """Share of the time of training that interference cost; null in a world without it."""
    speed_error: float | None = None
    """Mean relative error |estimate - true| / true of the policy's speed estimates, over all estimates of the
    run; null where there are none."""
    convergence_error: float | None = None
    """Mean error |estimate - true| of the policy's estimates of the work left, as a share of the job's whole
    work; null as `speed_error`."""
