"""Placements of jobs as arrays of rows, for progress rules."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.core.job_rows import Rows, copy_rows, count_rows, count_tasks
from ray_sim.model.progress_rule import PlacementRows
from ray_sim.model.units import IntArray


def rows_of(placements: PlacementRows, jobs: IntArray) -> Rows:
    """Placements of jobs as rows, in the order of ``jobs``."""
    pool = placements.pool
    ptr = np.empty(len(jobs) + 1, dtype=np.int64)
    count_rows(pool, jobs, ptr)
    rows = Rows(ptr, *(np.empty(int(ptr[-1]), dtype=np.int64) for _ in range(3)))
    copy_rows(pool, jobs, rows)
    return rows


def tasks_of(rows: Rows, role: int) -> IntArray:
    """(N,) tasks of one role of each job."""
    tasks = np.empty(len(rows.ptr) - 1, dtype=np.int64)
    count_tasks(rows, role, tasks)
    return tasks
