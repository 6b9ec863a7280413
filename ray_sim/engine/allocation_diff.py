"""Changes between current placements and wanted ones."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.placements import VisiblePlacements
from ray_sim.kernels.core.arrays import Changes
from ray_sim.kernels.core.job_rows import Rows, find_differing
from ray_sim.model.units import BoolArray, IntArray


def towards(
    placements: VisiblePlacements, jobs: IntArray, target: Rows, again: BoolArray | None = None
) -> Changes | None:
    """Changes of the jobs that hold something else than their target; None if there are none.

    Jobs that keep what they hold pay no restart.

    Parameters
    ----------
    jobs : (n,) sorted, waiting or running
    target : rows of each, in (server, role) order; no rows suspend a job
    again : (n,) jobs that are placed anew, at the cost of a restart, even where nothing differs: their
        slow workers are replaced
    """
    differing = np.empty(len(jobs), dtype=np.bool_)
    now = placements.rows_of(jobs)
    find_differing(now, target, differing)
    if again is not None:
        differing |= again & (np.diff(now.ptr) > 0)
    if not differing.any():
        return None
    counts = np.diff(target.ptr)[differing]
    kept = np.repeat(differing, np.diff(target.ptr))
    n = len(counts)
    return Changes(
        job=jobs[differing],
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        server=target.server[kept],
        role=target.role[kept],
        tasks=target.tasks[kept],
        order=np.arange(n),
        size=np.array([n]),
    )
