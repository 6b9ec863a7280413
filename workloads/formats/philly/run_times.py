"""Run time of a job of the Philly log, by the three rules of ``--run-time``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from workloads.checks import RowError
from workloads.column import MAX_COUNT
from workloads.formats.philly.job import NO_END, NO_START, Attempt, LoggedJob
from workloads.trace_format import RunTime


class LoggedRun(NamedTuple):
    """A row of the workload. Times are seconds since 1970 in UTC."""

    job_id: str
    submit_s: int
    start_s: int
    end_s: int
    duration_s: int
    num_gpus: int
    attempts: int
    status: str | None
    group_id: str | None = None


Rule = Callable[[LoggedJob], Iterator[LoggedRun | RowError]]


def _span(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """One row: from the first attempt's start to the last attempt's end, as in the trace's own analysis."""
    start_s, end_s = _first_start(job), _last_end(job)
    yield _whole(job, start_s, end_s, end_s - start_s)


def _sum(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """One row: the sum of all attempts, without the gaps between them."""
    start_s, end_s = _first_start(job), _last_end(job)
    yield _whole(job, start_s, end_s, sum(map(_length_s, job.attempts)))


def _each(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """One row per attempt: the first is submitted with the job, each other when the previous one ended."""
    free_s: int | str = job.submit_s
    for number, attempt in enumerate(job.attempts, start=1):
        try:
            yield _single(job, number, attempt, free_s)
        except RowError as error:
            yield error
        free_s = attempt.end_s


RULES: dict[RunTime, Rule] = {RunTime.SPAN: _span, RunTime.SUM: _sum, RunTime.ATTEMPTS: _each}


def _first_start(job: LoggedJob) -> int:
    return _known(job.attempts[0].start_s)


def _last_end(job: LoggedJob) -> int:
    return _known(job.attempts[-1].end_s)


def _known(time_s: int | str) -> int:
    if isinstance(time_s, str):
        raise RowError(time_s)
    return time_s


def _length_s(attempt: Attempt) -> int:
    if attempt.start_s == NO_START or attempt.end_s == NO_END:
        raise RowError("incomplete_attempt")
    length_s = _known(attempt.end_s) - _known(attempt.start_s)
    if length_s < 0:
        raise RowError("negative_duration_s")
    return length_s


def _num_gpus(attempt: Attempt) -> int:
    if attempt.num_gpus is None:
        raise RowError("invalid_detail")
    if attempt.num_gpus == 0:
        raise RowError("missing_num_gpus")
    if attempt.num_gpus > MAX_COUNT:
        raise RowError("absurd_num_gpus")
    return attempt.num_gpus


def _whole(job: LoggedJob, start_s: int, end_s: int, duration_s: int) -> LoggedRun:
    if end_s < start_s:
        raise RowError("negative_duration_s")
    return LoggedRun(
        job_id=job.job_id,
        submit_s=job.submit_s,
        start_s=start_s,
        end_s=end_s,
        duration_s=duration_s,
        num_gpus=_num_gpus(job.attempts[0]),
        attempts=len(job.attempts),
        status=job.status,
    )


def _single(job: LoggedJob, number: int, attempt: Attempt, free_s: int | str) -> LoggedRun:
    """Row of one attempt. Only the last attempt has the job's status; that of the others is unknown.

    Parameters
    ----------
    free_s : when the job was free to start the attempt; the attempt counts as submitted at its start where
        that is unknown, or an end after it
    """
    start_s, end_s = _known(attempt.start_s), _known(attempt.end_s)
    free = isinstance(free_s, int) and (number == 1 or free_s <= start_s)
    return LoggedRun(
        job_id=f"{job.job_id}/{number}",
        submit_s=_known(free_s) if free else start_s,
        start_s=start_s,
        end_s=end_s,
        duration_s=_length_s(attempt),
        num_gpus=_num_gpus(attempt),
        attempts=1,
        status=job.status if number == len(job.attempts) else None,
        group_id=job.job_id,
    )
