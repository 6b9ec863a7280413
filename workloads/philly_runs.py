"""What run time a job of the Philly log has: the three rules of ``--run-time``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from workloads.checks import RowError
from workloads.column import MAX_COUNT
from workloads.philly_job import Attempt, LoggedJob
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
    """From the first attempt's start to the last one's end, as in the trace's own analysis."""
    start_s, end_s = _first_start(job), _last_end(job)
    yield _whole(job, start_s, end_s, end_s - start_s)


def _sum(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """All attempts together, without the gaps between them."""
    start_s, end_s = _first_start(job), _last_end(job)
    yield _whole(job, start_s, end_s, sum(map(_length_s, job.attempts)))


def _each(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """A row per attempt, submitted when the one before it ended."""
    free_s: int | None = job.submit_s
    for number, attempt in enumerate(job.attempts, start=1):
        try:
            yield _single(job, number, attempt, free_s)
        except RowError as error:
            yield error
        free_s = attempt.end_s


RULES: dict[RunTime, Rule] = {RunTime.SPAN: _span, RunTime.SUM: _sum, RunTime.ATTEMPTS: _each}


def _first_start(job: LoggedJob) -> int:
    start_s = job.attempts[0].start_s
    if start_s is None:
        raise RowError("missing_start")
    return start_s


def _last_end(job: LoggedJob) -> int:
    end_s = job.attempts[-1].end_s
    if end_s is None:
        raise RowError("missing_end")
    return end_s


def _length_s(attempt: Attempt) -> int:
    if attempt.start_s is None or attempt.end_s is None:
        raise RowError("incomplete_attempt")
    if attempt.end_s < attempt.start_s:
        raise RowError("negative_duration_s")
    return attempt.end_s - attempt.start_s


def _num_gpus(attempt: Attempt) -> int:
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


def _single(job: LoggedJob, number: int, attempt: Attempt, free_s: int | None) -> LoggedRun:
    """The job's status is that of its last attempt; of the others nothing is known but that they ended."""
    if attempt.start_s is None:
        raise RowError("missing_start")
    if attempt.end_s is None:
        raise RowError("missing_end")
    known = free_s is not None and free_s <= attempt.start_s
    return LoggedRun(
        job_id=f"{job.job_id}/{number}",
        submit_s=free_s if known and free_s is not None else attempt.start_s,
        start_s=attempt.start_s,
        end_s=attempt.end_s,
        duration_s=_length_s(attempt),
        num_gpus=_num_gpus(attempt),
        attempts=1,
        status=job.status if number == len(job.attempts) else None,
        group_id=job.job_id,
    )
