"""Failure oracles: the probability that a job born now will be cancelled or evicted.

The mechanism evicts the most recently born active job while the load of running and due jobs exceeds the
capacity C. Hence whether a job fails depends on jobs born before it only: a job of c nodes, born in b, that
runs in [t', t' + d) fails if and only if in some round tau of [b, t' + d) the load of active earlier jobs,
before the evictions of tau, exceeds C - c [t' <= tau].

Evictions of the earlier jobs need not be simulated. Let S be the sum of the loads of all earlier jobs active
in b, as if none were evicted, and e the first round from b on with S(e) > C. No earlier job is evicted before
e, so the load is S up to e; in e the new job is evicted or cancelled itself, unless it has ended. So it fails
if and only if S(tau) > C - c [t' <= tau] for some tau of [b, t' + d). Loads of independent jobs add, and an
observation of one job changes its own load and no other.

Source: Babaioff, Lempel, Lucier, Menache, Slivkins, Wong, Truthful Online Scheduling of Cloud Workloads under
Uncertainty (WWW 2022), section 3 (framework, lemma); the oracles are ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.failure_kernels import JobRows, PointRows, narrow, settle
from ray_sim.policies.posted_price.planner import PlannedJob
from ray_sim.policy_api import State, all_within, within

MOST_ESTIMATES = 250_000_000
"""Most failure estimates of one job: 2 GB."""

_ROWS = 64
"""Rows for which memory is taken at first."""

_Rows = TypeVar("_Rows", JobRows, PointRows)


class FailureOracle(ABC):
    """Failure estimates of new jobs, from the plans of earlier jobs and the observations of them.

    Rounds are absolute. In each round the mechanism asks for `failures` of each job born in it and adds the
    job, one after the other, and then passes the observations of the round to `observe`. Jobs are independent
    and what is seen of each hangs on its own point only, so the posterior of all is the product of theirs.

    Parameters
    ----------
    capacity : nodes, C >= 1
    longest : rounds, D_m >= 1, upper bound of durations; a job is taken to run so long that has outlasted its
        report
    """

    def __init__(self, capacity: int, longest: int) -> None:
        self._capacity, self._longest = capacity, longest
        self._round = self._count = self._points_used = 0
        jobs = JobRows(*np.zeros((len(JobRows._fields), _ROWS), dtype=np.int64))
        arrival, duration, signal, start = np.zeros((4, _ROWS), dtype=np.int64)
        self._set_rows(jobs, PointRows(arrival, duration, signal, start, np.zeros(_ROWS)))

    def certain(self, concurrency: int) -> bool:
        """Whether `failures` of a job of so many nodes is 0 for every start and duration."""
        nodes = self._jobs.concurrency[: self._count][self._loaded()]
        return int(nodes.sum()) + concurrency <= self._capacity

    def failures(
        self, birth: int, concurrency: int, last_start: int, longest: int | None = None
    ) -> FloatArray:
        """(last_start - birth + 1, longest + 1) failure estimates E[t' - birth, d] of a new job.

        It is born after all others. E is the probability that the job is cancelled or evicted, in [0, 1] and
        non-decreasing in d, for a start in t' and a run of d rounds; column 0 is unused.

        Parameters
        ----------
        birth : round, not before the births of others, after the last round observed
        longest : rounds, in 1 .. D_m, longest duration that is asked for; D_m by default

        Raises
        ------
        ValueError : the birth is earlier than allowed
        InvalidScenarioError : there are more than `MOST_ESTIMATES`
        """
        self._go_to(birth)
        shape = (last_start - birth + 1, 1 + (self._longest if longest is None else longest))
        if shape[0] * shape[1] > MOST_ESTIMATES:
            raise InvalidScenarioError(
                f"posted_price: a job with {shape[0]:,} rounds in which it may start and a duration of up to "
                f"{shape[1] - 1:,} rounds has more than {MOST_ESTIMATES:,} failure estimates: choose longer "
                "rounds (-w slot_s), or cut durations by -w clip_statements=true with most_duration_s"
            )
        failures = np.zeros(shape)
        if not self.certain(concurrency):
            self._estimate(birth, concurrency, failures)
        return failures

    def add(self, job: int, report: PlannedJob, start: IntArray) -> IntArray:
        """Add a job with its plan, (n,) starts; returns its row, none for a plan that never starts.

        Raises
        ------
        ValueError : the job is not born after all others
        """
        n = len(start)
        if (start == NEVER_ROUND).all():
            return np.empty(0, dtype=np.int64)
        if self._count and job <= self._jobs.job[self._count - 1]:
            raise ValueError(f"job {job}: must be added in order of birth")
        if self._count == len(self._jobs.job) or self._points_used + n >= len(self._points.start):
            self._make_room(n)
        row, first, last = self._count, self._points_used, self._points_used + n
        values = (job, report.concurrency, first, last + 1, first, last, 0, 0, 0)
        for column, value in zip(self._jobs, values, strict=True):
            column[row] = value
        plan = (report.arrival, report.duration, report.signal, start, report.probability)
        for points, of_plan in zip(self._points, plan, strict=True):
            points[first:last] = of_plan
        self._points.start[last] = NEVER_ROUND
        self._count, self._points_used = row + 1, last + 1
        settle(self._jobs_handle, self._points_handle, row)
        return np.array([row])

    def observe(
        self, round_: int, arrived: IntArray, signals: IntArray, completed: IntArray, removed: IntArray
    ) -> IntArray:
        """Take the observations of a round, after its last step; returns the rows that changed.

        A job that has not arrived until the round arrives later; one that has started and has not ended ends
        later, and if its plan knows no later end, after D_m rounds. Rounds without observations may be left
        out. Jobs that are not known are ignored.

        Parameters
        ----------
        round_ : after the last round observed, and not before the last birth
        arrived, signals : (k,) jobs that arrived in the round, and their signals
        completed : jobs that finished at the round, or that faults have ended before it
        removed : jobs evicted, cancelled or not launched in the round; may have arrived in it too

        Raises
        ------
        ValueError : the round is earlier than allowed
        """
        self._go_to(round_ + 1)
        gone, _ = self._rows(np.concatenate([completed, removed]))
        gone = np.unique(gone[self._loaded()[gone]])
        self._jobs.low[gone] = self._jobs.high[gone]
        self._jobs.next_observation[gone] = NEVER_ROUND
        rows, known = self._rows(arrived)
        jobs, points, changed = self._jobs_handle, self._points_handle, np.empty(self._count, dtype=np.int64)
        n = narrow(jobs, points, self._count, round_, self._longest, rows, signals[known], changed)
        return np.concatenate([gone, changed[:n]])

    def state(self) -> State:
        """Arrays of a snapshot; an oracle of equal parameters gives the same later answers from it."""
        columns = {**self._jobs._asdict(), **{f"point_{k}": v for k, v in self._points._asdict().items()}}
        counts = np.array([self._round, self._count, self._points_used])
        return {"counts": counts, **{name: column.copy() for name, column in columns.items()}}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot of an oracle of equal parameters."""
        self._check(state)
        self._round, self._count, self._points_used = state["counts"].tolist()
        points = PointRows(*(state[f"point_{name}"].copy() for name in PointRows._fields))
        self._set_rows(JobRows(*(state[name].copy() for name in JobRows._fields)), points)

    def _check(self, state: Mapping[str, np.ndarray]) -> None:
        """Refuse columns of several lengths, and points of a job that are not between its first and last."""
        rows, used = len(state["job"]), len(state["point_start"])
        within(state, "counts", 0, np.array([NEVER_ROUND, rows, used]))
        within(state, "arrived", 0, 1)
        within(state, "last", 0, state["counts"][2])
        for low, high in pairwise(("last", "high", "low", "first")):
            within(state, high, 0, state[low])
        for names, length in ((JobRows._fields, rows), ([f"point_{k}" for k in PointRows._fields], used)):
            all_within({name: state[name] for name in names})
            for name in names:
                within({name: np.array(state[name].shape)}, name, length, length)
        within(state, "point_duration", 0, self._longest)

    def _go_to(self, round_: int) -> None:
        """Forget the rounds before this one."""
        if round_ < self._round:
            raise ValueError(f"round {round_}: must not be before round {self._round}")
        self._round = round_

    def _make_room(self, points: int) -> IntArray:
        """Drop jobs without load and take memory for one more job; returns the rows kept, in order.

        Memory at least doubles if more than half would be in use, so that the cost per job is O(points).
        """
        kept, jobs = np.flatnonzero(self._loaded()), self._jobs
        sizes = (jobs.last - jobs.first)[kept]
        ends = np.cumsum(sizes)
        self._count, self._points_used = len(kept), int(sizes.sum())
        shift = ends - sizes - jobs.first[kept]
        moved = np.arange(self._points_used) - np.repeat(shift, sizes)
        self._set_rows(
            _moved(jobs, kept, self._count + 1), _moved(self._points, moved, self._points_used + points + 1)
        )
        for column in (self._jobs.first, self._jobs.last, self._jobs.low, self._jobs.high):
            column[: self._count] += shift
        return kept

    def _set_rows(self, jobs: JobRows, points: PointRows) -> None:
        self._jobs, self._points = jobs, points
        self._jobs_handle, self._points_handle = handle(jobs), handle(points)

    def _loaded(self) -> BoolArray:
        """(count,) whether each job may have load; a job without one stays as a row until `_make_room`."""
        loaded: BoolArray = self._jobs.low[: self._count] < self._jobs.high[: self._count]
        return loaded

    def _rows(self, jobs: IntArray) -> tuple[IntArray, BoolArray]:
        """Rows of those of these jobs that have one, and which these are."""
        if self._count == 0:
            return np.empty(0, dtype=np.int64), np.zeros(len(jobs), dtype=np.bool_)
        rows = np.searchsorted(self._jobs.job[: self._count], jobs)
        known = self._jobs.job[np.minimum(rows, self._count - 1)] == jobs
        return rows[known], known

    @abstractmethod
    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        """Write the estimates into zeros of the form that `failures` returns."""


def _moved(columns: _Rows, rows: IntArray, needed: int) -> _Rows:
    """These rows of all columns, with memory for the rows needed, at most half of it in use if it grows."""
    room = len(columns[0])
    room = room if 2 * needed <= room else 2 * max(room, needed)
    moved: list[Any] = [np.zeros(room, column.dtype) for column in columns]
    for column, old in zip(moved, columns, strict=True):
        column[: len(rows)] = old[rows]
    return type(columns)(*moved)
