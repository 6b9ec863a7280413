"""Least backlog under any policy: all servers as one fluid pool that is never idle while work is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray

_ROUNDING = 1e-12
"""Share of the work by which floating-point sums may be wrong."""


@dataclass(frozen=True, slots=True)
class PoolRate:
    """Work rate of a pool over time; it changes when servers go and come back."""

    since: IntArray
    """(N,) instants, non-decreasing, the first 0; N >= 1."""
    rate: FloatArray
    """(N,) rate from each instant on, >= 0; the last one has no end."""

    def by(self, at: IntArray) -> FloatArray:
        """Most work that can be done from 0 to each instant; shape of ``at``."""
        place = np.maximum(np.searchsorted(self.since, at, side="right") - 1, 0)
        done: FloatArray = self._done()[place] + self.rate[place] * (at - self.since[place])
        return done

    def time_for(self, work: float, begin: int) -> float:
        """Least time from ``begin`` on to do the work; infinite if it is never done."""
        if work <= 0:
            return 0.0
        done, target = self._done(), float(self.by(np.array([begin]))[0]) + work
        ends = np.append(done[1:], np.inf if self.rate[-1] > 0 else 0.0)
        place = np.flatnonzero(ends >= target * (1 - _ROUNDING))
        if not len(place):
            return float("inf")
        at = place[0]
        return float(self.since[at] - begin + (target - done[at]) / self.rate[at])

    def _done(self) -> FloatArray:
        """(N,) most work until each change."""
        return np.concatenate([[0.0], np.cumsum(self.rate[:-1] * np.diff(self.since))])


def fluid_backlog(submit: IntArray, work: FloatArray, pool: PoolRate) -> FloatArray:
    """Least unfinished work just after each submission, under any policy.

    Lindley's recursion, ``B_k = max(0, B_(k-1) - (R(t_k) - R(t_(k-1)))) + work_k``, where R(t) is the most
    work that the pool can do until t. Work decreases at most at the rate of the whole pool and is never
    negative, so any schedule that rejects no job has at least this backlog; gangs, fragmentation and restarts
    only add to it.

    Parameters
    ----------
    submit : (J,) instants >= 0, non-decreasing
    work : (J,) resource x time of each job, >= 0

    Returns
    -------
    shape (J,), in the unit of the work, >= 0
    """
    after = np.cumsum(work) - pool.by(submit)
    backlog: FloatArray = after - np.minimum.accumulate(after - work)
    return backlog


def backlog_at(submit: IntArray, backlog: FloatArray, pool: PoolRate, at: IntArray) -> FloatArray:
    """Fluid backlog at other instants, given the backlog just after each submission; shape of ``at``."""
    last = np.searchsorted(submit, at, side="right") - 1
    left: FloatArray = np.maximum(backlog[last] - (pool.by(at) - pool.by(submit[last])), 0.0)
    return np.where(last < 0, 0.0, left)
