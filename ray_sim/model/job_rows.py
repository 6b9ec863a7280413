"""Placements of jobs as arrays of rows, for progress rules."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.core.job_rows import Rows, copy_rows, count_rows, count_tasks
from ray_sim.model.progress_rule import PlacementRows
from ray_sim.model.units import IntArray


def rows_of(placements: PlacementRows, jobs: IntArray) -> Rows:
    """Placements of jobs as rows, in the order of ``jobs``."""
    held, ptr = placements.held, np.empty(len(jobs) + 1, dtype=np.int64)
    count_rows(held, jobs, ptr)
    server, role, tasks = np.empty((3, int(ptr[-1])), dtype=np.int64)
    rows = Rows(ptr, server, role, tasks)
    copy_rows(held, jobs, rows)
    return rows


def tasks_of(rows: Rows, role: int) -> IntArray:
    """(N,) tasks of one role of each job."""
    tasks = np.empty(len(rows.ptr) - 1, dtype=np.int64)
    count_tasks(rows, role, tasks)
    return tasks
