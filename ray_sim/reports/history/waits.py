"""Waiting times of all jobs, reconstructed from placements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import CHUNK, START
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.holdings import History, whole_us


@dataclass(frozen=True, slots=True)
class Waits:
    """Intervals [begin, end) in which a job waits, (n,) each, in order of (job, begin).

    A job waits from its submission to its end while it holds nothing; a chunked job while none of its chunks
    makes progress. Every start ends a wait, also one after which the job holds nothing in the same instant.
    The intervals of a job add up to its ``queue_s``.
    """

    job: IntArray
    begin_us: IntArray
    end_us: IntArray
    order: IntArray
    """Index of the event that ends the wait by a start; the number of events if none does."""

    def of(self, job: int) -> slice:
        """The rows of a job."""
        return slice(*np.searchsorted(self.job, [job, job + 1]).tolist())


def find_waits(history: History, jobs: pl.DataFrame, *, chunked: bool) -> Waits:
    """Waiting intervals of all jobs.

    Parameters
    ----------
    jobs : jobs.parquet, in the order of the job indices
    chunked : whether jobs wait while no chunk makes progress, rather than while they hold nothing
    """
    stays = history.holdings
    busy = (stays.role == CHUNK) == chunked
    starts = np.flatnonzero((history.kind == START) & ((history.role == CHUNK) == chunked))
    submit = whole_us(jobs["submit_s"])
    end = submit + whole_us(jobs["queue_s"].fill_null(0.0)) + whole_us(jobs["run_s"].fill_null(0.0))
    everyone = np.arange(len(submit))
    never = np.full(len(submit), len(history.time_us))
    # A stay of no length at the submission, each start and the end closes the gap before it.
    job = np.concatenate([everyone, history.job[starts], stays.job[busy], everyone])
    begin = np.concatenate([submit, history.time_us[starts], stays.begin_us[busy], end])
    until = np.concatenate([submit, history.time_us[starts], stays.end_us[busy], end])
    first = np.concatenate([never, starts, stays.first[busy], never])
    order = np.lexsort((first, begin, job))
    job, begin, until, first = job[order], begin[order], until[order], first[order]
    reached = _running_most(until, job)
    gap = (np.diff(job) == 0) & (begin[1:] > reached[:-1])
    return Waits(job[1:][gap], reached[:-1][gap], begin[1:][gap], first[1:][gap])


def _running_most(values: IntArray, job: IntArray) -> IntArray:
    """Largest value of each job so far; rows are in order of the job."""
    span = int(values.max(initial=0)) + 1
    most: IntArray = np.maximum.accumulate(values + job * span) - job * span
    return most


def ahead_over_time(waits: Waits, row: int, rivals: BoolArray) -> tuple[IntArray, IntArray]:
    """Number of jobs that wait at the same time as a row of `waits` and start at an earlier instant.

    Parameters
    ----------
    rivals : (n,) rows of `waits` that count, e.g. those of the same partition

    Returns
    -------
    times in the wait, the first its begin, and the number from each time on
    """
    ahead = rows_ahead(waits, row, rivals)
    begin = int(waits.begin_us[row])
    times = np.concatenate([[begin], waits.begin_us[ahead], waits.end_us[ahead]])
    steps = np.repeat([0, 1, -1], [1, len(ahead), len(ahead)])
    order = np.argsort(times, kind="stable")
    times, counts = np.maximum(times[order], begin), np.cumsum(steps[order])
    last = np.append(np.diff(times) != 0, True)
    inside = last & (times < waits.end_us[row])
    return times[inside], counts[inside]


def rows_ahead(waits: Waits, row: int, rivals: BoolArray) -> IntArray:
    """Rows of `waits`, in order of their starts, that overlap a row and end by a start at an earlier instant.

    The order of events within an instant is that of the jobs, and says nothing about who was first.
    """
    overlaps = (waits.end_us > waits.begin_us[row]) & (waits.end_us < waits.end_us[row])
    ahead = np.flatnonzero(
        rivals & overlaps & (waits.order < waits.order[row]) & (waits.job != waits.job[row])
    )
    return ahead[np.argsort(waits.order[ahead], kind="stable")]
