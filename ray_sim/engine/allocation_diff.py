"""Changes from current placements to target placements.

Policies import `allocation_changes` from `ray_sim.policy_api`. A running job that is in the changes
restarts, so a job that holds its target must stay out of them.
"""

from __future__ import annotations

import numpy as np

from ray_sim.engine.placements import VisiblePlacements
from ray_sim.kernels.core.arrays import Changes
from ray_sim.kernels.core.job_rows import Rows, find_differing
from ray_sim.model.units import BoolArray, IntArray


def allocation_changes(
    placements: VisiblePlacements, jobs: IntArray, target: Rows, again: BoolArray | None = None
) -> Changes | None:
    """Changes of the jobs whose placements differ from their target; None if there are none.

    Parameters
    ----------
    jobs : (n,) sorted, waiting or running
    target : rows of each, in (server, role) order; no rows suspend a job
    again : (n,) mask of jobs that restart even if their placements equal the target, so that slow workers are
        replaced; without effect on jobs that hold nothing
    """
    differing = np.empty(len(jobs), dtype=np.bool_)
    now = placements.rows_of(jobs)
    find_differing(now, target, differing)
    if again is not None:
        differing |= again & (np.diff(now.ptr) > 0)
    if not differing.any():
        return None
    counts = np.diff(target.ptr)[differing]
    changed_rows = np.repeat(differing, np.diff(target.ptr))
    n_changed = len(counts)
    return Changes(
        job=jobs[differing],
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        server=target.server[changed_rows],
        role=target.role[changed_rows],
        tasks=target.tasks[changed_rows],
        order=np.arange(n_changed),
        size=np.array([n_changed]),
    )
