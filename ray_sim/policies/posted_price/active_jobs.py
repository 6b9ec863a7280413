"""Announced jobs that have not ended, with the points of their supports that agree with the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.handle import handle
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.posted_price.failure_kernels import JobRows, PointRows, narrow, settle_new
from ray_sim.policies.posted_price.plan import Plan

_ROWS = 64
"""Rows for which memory is taken at first."""

_Rows = TypeVar("_Rows", JobRows, PointRows)


class ActiveJobs:
    """Posteriors of active jobs, in order of birth.

    Jobs are independent and what is seen of each hangs on its own point only, so the posterior of all is the
    product of theirs. Jobs without load stay as rows with ``low`` equal to ``high`` until `make_room`. A job
    has one point more than its plan: it remains alone once the job has outlasted its report.

    Parameters
    ----------
    longest : D_m, for which a job is taken to run that has outlasted its report
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        jobs = JobRows(*np.zeros((len(JobRows._fields), _ROWS), dtype=np.int64))
        arrival, duration, signal, start = np.zeros((4, _ROWS), dtype=np.int64)
        self._set(jobs, PointRows(arrival, duration, signal, start, np.zeros(_ROWS)))
        self.count = 0
        """Number of rows in use of ``jobs``."""
        self._points = 0

    def loaded(self) -> IntArray:
        """(k,) rows of the jobs that may have load."""
        return np.flatnonzero(self._alive())

    def loads(self) -> int:
        """Nodes of all jobs that may have load."""
        return int(self.jobs.concurrency[: self.count][self._alive()].sum())

    def end(self) -> int:
        """First round from which on no job can run, 0 without jobs."""
        start, duration = self.points.start[: self._points], self.points.duration[: self._points]
        return int((start + duration)[start < NEVER_ROUND].max(initial=0))

    def full(self, points: int) -> bool:
        """Whether there is no memory for one more job with this number of points."""
        return self.count == len(self.jobs.job) or self._points + points >= len(self.points.arrival)

    def make_room(self, points: int) -> IntArray:
        """Drop jobs without load and take memory for one more job; returns the rows kept, in order.

        Memory at least doubles if more than half would be in use, so that the cost per job is O(points).
        """
        kept = self.loaded()
        jobs, self.count = self.jobs, len(kept)
        sizes = (jobs.last - jobs.first)[kept]
        ends = np.cumsum(sizes)
        self._points = int(sizes.sum())
        moved = np.repeat(jobs.first[kept] - (ends - sizes), sizes) + np.arange(self._points)
        self._set(
            _taken(jobs, kept, _room(len(jobs.job), self.count + 1)),
            _taken(self.points, moved, _room(len(self.points.arrival), self._points + points + 1)),
        )
        shift = ends - sizes - jobs.first[kept]
        for column in (self.jobs.first, self.jobs.last, self.jobs.low, self.jobs.high):
            column[: self.count] += shift
        return kept

    def append(self, job: int, concurrency: int, plan: Plan) -> int:
        """Append a job, of which nothing is known but its plan; returns its row.

        Raises
        ------
        ValueError : the job is not born after all others
        """
        if self.count > 0 and job <= self.jobs.job[self.count - 1]:
            raise ValueError(f"job {job}: must be added in order of birth")
        row, first, last = self.count, self._points, self._points + len(plan.arrival)
        for column, value in zip(
            self.jobs, (job, concurrency, first, last + 1, first, last, 0, 0, 0), strict=True
        ):
            column[row] = value
        for name, points in self.points._asdict().items():
            points[first:last] = getattr(plan, name)
        self.points.start[last] = NEVER_ROUND
        self.count, self._points = row + 1, last + 1
        settle_new(self.jobs_handle, self.points_handle, row)
        return row

    def observe(
        self, round_: int, arrived: IntArray, signals: IntArray, completed: IntArray, removed: IntArray
    ) -> IntArray:
        """Rule out points by the observations of a round; return the rows of jobs whose points changed."""
        gone, _ = self._rows(np.concatenate([completed, removed]))
        gone = np.unique(gone[self._alive()[gone]])
        self.jobs.low[gone] = self.jobs.high[gone]
        self.jobs.next_observation[gone] = NEVER_ROUND
        rows, known = self._rows(arrived)
        changed = np.empty(self.count + len(gone), dtype=np.int64)
        changed[: len(gone)] = gone
        jobs, points = self.jobs_handle, self.points_handle
        n = narrow(
            jobs, points, self.count, round_, self._longest, rows, signals[known], changed[len(gone) :]
        )
        return changed[: len(gone) + n]

    def overrun(self, rows: IntArray) -> int:
        """First round from which on none of these jobs runs that have outlasted their reports, else 0."""
        last = self.jobs.high[rows] - 1
        last = last[(self.jobs.low[rows] == last) & (last == self.jobs.last[rows] - 1)]
        return int((self.points.start + self.points.duration)[last].max(initial=0))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a snapshot."""
        rows = {f"job_{name}": column[: self.count].copy() for name, column in self.jobs._asdict().items()}
        points = {
            f"point_{name}": column[: self._points].copy() for name, column in self.points._asdict().items()
        }
        return rows | points

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a snapshot."""
        self.count, self._points = len(state["job_job"]), len(state["point_start"])
        jobs = JobRows(*(state[f"job_{name}"] for name in JobRows._fields))
        points = PointRows(*(state[f"point_{name}"] for name in PointRows._fields))
        self._set(
            _taken(jobs, np.arange(self.count), _room(_ROWS, self.count)),
            _taken(points, np.arange(self._points), _room(_ROWS, self._points)),
        )

    def _set(self, jobs: JobRows, points: PointRows) -> None:
        self.jobs, self.points = jobs, points
        self.jobs_handle, self.points_handle = handle(jobs), handle(points)

    def _alive(self) -> BoolArray:
        alive: BoolArray = self.jobs.low[: self.count] < self.jobs.high[: self.count]
        return alive

    def _rows(self, jobs: IntArray) -> tuple[IntArray, BoolArray]:
        """Rows of those of these jobs that have one, and which these are."""
        if self.count == 0:
            return np.empty(0, dtype=np.int64), np.zeros(len(jobs), dtype=np.bool_)
        rows = np.searchsorted(self.jobs.job[: self.count], jobs)
        known = self.jobs.job[np.minimum(rows, self.count - 1)] == jobs
        return rows[known], known


def _room(rows: int, needed: int) -> int:
    """Rows of memory for the rows needed, at most half of it in use if it grows."""
    return rows if 2 * needed <= rows else 2 * max(rows, needed)


def _taken(columns: _Rows, rows: IntArray, room: int) -> _Rows:
    """These rows of all columns, with memory for more."""
    taken: list[Any] = [np.zeros(room, column.dtype) for column in columns]
    for column, old in zip(taken, columns, strict=True):
        column[: len(rows)] = old[rows]
    return type(columns)(*taken)
