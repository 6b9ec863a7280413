"""Steps of a run in the general loop, each one call from Python with all arrays of the run as one handle."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    F64,
    I64,
    NEVER,
    WAITING,
    Calendar,
    Changes,
    Ledger,
    Pool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.calendar import next_time
from ray_sim.kernels.core.feasibility import check_changes
from ray_sim.kernels.core.job_transitions import commit_placements, evict, finish_due, submit_due
from ray_sim.kernels.core.outages import lose_server
from ray_sim.kernels.core.progress import set_rates


class Books(NamedTuple):
    """Arrays of a run that most steps need."""

    arrays: WorldArrays
    ledger: Ledger
    pool: Pool
    calendar: Calendar
    used: I64
    """(R,) quanta in use."""
    counts: I64
    """(2,) jobs that wait, jobs that run."""
    affected: I64
    """(J,) work space: jobs that a step returns."""
    verdict: I64
    """(C,) why no job of a class ever fits, 0 where it does."""


@kernel
def next_job_event(books: Books, next_job: int) -> int:
    """Return the time of the next submission, from ``next_job`` on, or completion; NEVER if there is none."""
    submit = books.arrays.submit
    arrival = submit[next_job] if next_job < len(submit) else NEVER
    return min(arrival, next_time(books.calendar, books.ledger.finish))


@kernel
def complete_jobs(now: int, books: Books, record: Recorder) -> int:
    """Complete the jobs that finish now, which ``affected`` has in job order; return their number."""
    return finish_due(
        now,
        books.arrays,
        books.ledger,
        books.pool,
        books.calendar,
        books.used,
        record,
        books.counts,
        books.affected,
    )


@kernel
def submit_jobs(now: int, next_job: int, books: Books, record: Recorder) -> tuple[int, int]:
    """Submit the jobs from ``next_job`` on whose time is now.

    Returns the first job of a later time, and how many of those submitted wait; ``affected`` has these.
    """
    last = submit_due(now, next_job, books.arrays, books.verdict, books.ledger, books.counts, record)
    n = 0
    for job in range(next_job, last):
        if books.ledger.status[job] == WAITING:
            books.affected[n] = job
            n += 1
    return last, n


@kernel
def evict_job(now: int, books: Books, record: Recorder, job: int) -> None:
    """End a waiting or running job for good, see `evict`."""
    evict(
        now,
        books.arrays,
        books.ledger,
        books.pool,
        books.calendar,
        books.used,
        books.counts,
        record,
        job,
    )


@kernel
def remove_server(now: int, server: int, books: Books, record: Recorder) -> int:
    """Remove a server, see `lose_server`; ``affected`` has the jobs that lose it, sorted; return how many."""
    return lose_server(
        now,
        server,
        books.arrays,
        books.ledger,
        books.pool,
        books.calendar,
        books.used,
        books.counts,
        record,
        books.affected,
    )


@kernel
def check_placements(
    books: Books, changes: Changes, evicted: I64, elastic: bool, free: I64
) -> tuple[int, int, int]:
    """Return the first fault of the changes, see `check_changes`."""
    return check_changes(books.arrays, books.ledger, books.pool, changes, evicted, elastic, free)


@kernel
def place_jobs(
    now: int, books: Books, record: Recorder, changes: Changes, pause: I64, restart_us: int
) -> bool:
    """Apply changes, see `commit_placements`; return whether all changed jobs hold something then."""
    commit_placements(
        now,
        books.arrays,
        books.ledger,
        books.pool,
        books.calendar,
        books.used,
        record,
        changes,
        pause,
        restart_us,
        books.counts,
    )
    for i in range(changes.size[0]):
        if changes.ptr[i + 1] == changes.ptr[i]:
            return False
    return True


@kernel
def rate_jobs(now: int, books: Books, jobs: I64, rates: F64, pauses: I64) -> None:
    """Set the rates of running jobs, see `set_rate`."""
    set_rates(books.ledger, books.calendar, jobs, now, rates, pauses)
