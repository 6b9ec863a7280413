"""Jobs that train with workers and parameter servers, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.job import Exchange, TrainingProfile

Placement = Sequence[tuple[int, int]]
"""Workers and parameter servers on each server, from server 0 on."""

ONE = np.array([0])
"""The only job."""


def profile(**columns: float) -> TrainingProfile:
    """One job: 100 samples of 0.1 s a step, 50 MB at 100 Mbps (4 s one way) or 1000 Mbps (0.4 s)."""
    given: dict[str, float] = {
        "exchange": Exchange.SYNC,
        "epochs": 2,
        "samples": 1000,
        "batch": 100,
        "sample_s": 0.1,
        "gradient_mb": 50,
        "bandwidth_mbps": 100,
        "internal_bandwidth_mbps": 1000,
        "step_s": 0,
        "step_s_per_worker": 0,
        "step_s_per_ps": 0,
        "workers_per_ps": 1,
        "num_workers": 1,
        "num_ps": 1,
        "model": -1,
        **columns,
    }
    whole = {"exchange", "num_workers", "num_ps", "model"}
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.array([value], np.int64 if name in whole else np.float64) for name, value in given.items()
    }
    demand = np.array([[1000]])
    return TrainingProfile(**arrays, worker_demand=demand, ps_demand=demand, model_names=())


def together(*jobs: TrainingProfile) -> TrainingProfile:
    """Several jobs of `profile`."""
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.concatenate([getattr(job, name) for job in jobs])
        for name in TrainingProfile.__slots__
        if name != "model_names"
    }
    return TrainingProfile(**arrays, model_names=())


def rows(*placements: Placement) -> Rows:
    """Placements of one job after the other."""
    found = [
        [(server, role, n) for server, here in enumerate(placement) for role, n in enumerate(here) if n]
        for placement in placements
    ]
    flat = np.array([row for of_job in found for row in of_job], dtype=np.int64).reshape(-1, 3)
    assert (WORKER, PARAMETER_SERVER) == (0, 1)
    ptr = np.concatenate([[0], np.cumsum([len(of_job) for of_job in found])]).astype(np.int64)
    return Rows(ptr, *(np.ascontiguousarray(flat[:, column]) for column in range(3)))
