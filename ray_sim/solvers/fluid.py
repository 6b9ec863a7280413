"""The backlog that no policy can avoid: servers as one fluid pool that is never idle while work is left."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray, IntArray


def fluid_backlog(submit: IntArray, work: FloatArray, rate: float) -> FloatArray:
    """Least work that is unfinished just after each submission, whatever the policy.

    Lindley's recursion, ``B_k = max(0, B_(k-1) - rate * (t_k - t_(k-1))) + work_k``. Work falls at most at
    the rate of the whole pool, and is never below zero, so that of any schedule which refuses no job is at
    least this; one with gangs, fragments and restarts has more.

    Parameters
    ----------
    submit : (J,) instants, non-decreasing
    work : (J,) resource x time that each job takes, >= 0
    rate : > 0, what the pool does in one unit of time

    Returns
    -------
    shape (J,), in the unit of the work, >= 0
    """
    after = np.cumsum(work) - rate * submit
    backlog: FloatArray = after - np.minimum.accumulate(after - work)
    return backlog


def backlog_at(submit: IntArray, backlog: FloatArray, rate: float, at: IntArray) -> FloatArray:
    """The fluid backlog at other instants, given that just after each submission; shape of ``at``."""
    last = np.searchsorted(submit, at, side="right") - 1
    since = at - submit[last]
    left: FloatArray = np.maximum(backlog[last] - rate * since, 0.0)
    return np.where(last < 0, 0.0, left)
