"""Transitions of jobs from one state to another: submitted, rejected, started, stopped, completed, evicted.

Each updates the ledger, the calendar of completions and the placements together, and records its events.
Both loops call them: the compiled one, and `ray_sim.engine.simulation`, which passes the arrays of the run as
one handle. Invariant between calls: `Books.counts` are the numbers of waiting and of running jobs.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVICT,
    EVICTED,
    F64,
    FINISH,
    I64,
    MOVE,
    NEVER,
    REJECT,
    REJECTED,
    RUNNING,
    START,
    STOP,
    SUBMIT,
    WAITING,
    Books,
    Changes,
    Recorder,
)
from ray_sim.kernels.core.heap import is_due, next_time
from ray_sim.kernels.core.placement_rows import change_placements, release
from ray_sim.kernels.core.progress import keep_progress, save, set_rate, stop_progress
from ray_sim.kernels.core.record import add_event, add_holding


@kernel
def next_job_event(books: Books, next_job: int) -> int:
    """Return the time of the next submission, from ``next_job`` on, or completion; NEVER if there is none."""
    submit = books.arrays.submit
    arrival = submit[next_job] if next_job < len(submit) else NEVER
    return min(arrival, next_time(books.calendar, books.ledger.finish))


@kernel
def submit_due(now: int, first: int, books: Books, record: Recorder) -> tuple[int, int]:
    """Submit the jobs from ``first`` on whose time is now.

    A job of a class whose `Books.verdict` is not 0 can never fit and is rejected: after all submissions of
    the instant, those beyond the capacity (1) before those beyond the placement rule (2). Returns the first
    job of a later time, and how many of those submitted wait; `Books.affected` has these in order.
    """
    arrays, last = books.arrays, first
    while last < len(arrays.submit) and arrays.submit[last] == now:
        books.ledger.status[last] = WAITING
        books.counts[0] += 1
        add_event(record, now, SUBMIT, last, -1, -1, 0)
        last += 1
    for why in (1, 2):
        for job in range(first, last):
            if books.verdict[arrays.job_class[job]] == why:
                reject(now, books, record, job)
    n = 0
    for job in range(first, last):
        if books.ledger.status[job] == WAITING:
            books.affected[n] = job
            n += 1
    return last, n


@kernel
def reject(now: int, books: Books, record: Recorder, job: int) -> None:
    """Reject a waiting job for good; O(1)."""
    books.ledger.status[job] = REJECTED
    books.ledger.end[job] = now
    books.counts[0] -= 1
    add_event(record, now, REJECT, job, -1, -1, 0)


@kernel
def commit_placements(
    now: int, books: Books, record: Recorder, changes: Changes, pause: I64, restart_us: int
) -> bool:
    """Apply changes: release all, place all, then update the ledger and record events in job order.

    Returns whether all changed jobs hold something then. The caller sets their rates afterwards. O(rows x R +
    n log n) for n changes.

    Parameters
    ----------
    pause : (n,) set to the restart pause of each change, 0 for a job that starts for the first time
    """
    ledger, counts, all_hold = books.ledger, books.counts, True
    change_placements(books.arrays, books.pool, books.used, changes)
    for k in range(changes.size[0]):
        i = changes.order[k]
        job = changes.job[i]
        running = ledger.status[job] == RUNNING
        pause[i] = 0
        if running and len(ledger.saved) > 0:
            save(ledger, job, now)
        if changes.ptr[i + 1] == changes.ptr[i]:
            all_hold = False
            if running:
                stop_progress(ledger, books.calendar, job, now)
                ledger.status[job] = WAITING
                ledger.preemptions[job] += 1
                counts[0] += 1
                counts[1] -= 1
                add_event(record, now, STOP, job, -1, -1, 0)
            continue
        if ledger.first_start[job] == NEVER:
            ledger.first_start[job] = now
        else:
            pause[i] = restart_us
            ledger.restarts[job] += 1
        if not running:
            ledger.status[job] = RUNNING
            ledger.held_since[job] = now
            ledger.anchor[job] = now
            counts[0] -= 1
            counts[1] += 1
        add_holding(record, now, MOVE if running else START, job, books.pool)
    return all_hold


@kernel
def rate_jobs(now: int, books: Books, jobs: I64, rates: F64, pauses: I64) -> None:
    """Call `set_rate` for each of the running ``jobs``; rates and pauses are (n,)."""
    for i in range(len(jobs)):
        set_rate(books.ledger, books.calendar, jobs[i], now, rates[i], pauses[i])


@kernel
def finish_due(now: int, books: Books, record: Recorder) -> int:
    """Complete every job that finishes now; `Books.affected` has them in job order; return their number.

    The calendar yields jobs by (finish, job), so they come in job order; O(rows x R + log n) for each.
    """
    ledger, calendar, n = books.ledger, books.calendar, 0
    while is_due(calendar, ledger.finish, now):
        job = calendar.heap[0]
        stop_progress(ledger, calendar, job, now)
        ledger.work_left[job] = 0.0
        ledger.status[job] = COMPLETED
        ledger.end[job] = now
        ledger.finish[job] = now
        release(books.arrays, books.pool, books.used, job)
        books.counts[1] -= 1
        add_event(record, now, FINISH, job, -1, -1, 0)
        books.affected[n] = job
        n += 1
    return n


@outlined
def stop_jobs(now: int, books: Books, record: Recorder, jobs: I64, keep: I64, work: F64, lost: I64) -> None:
    """Take all that running ``jobs`` hold, not by the policy's decision; they wait again.

    Parameters
    ----------
    keep : (n,) what each keeps of its progress, see `keep_progress`
    work : (J,) all work of each job
    lost : (n,) set to the microseconds of progress that each loses
    """
    ledger = books.ledger
    for i in range(len(jobs)):
        job = jobs[i]
        stop_progress(ledger, books.calendar, job, now)
        lost[i] = keep_progress(ledger, job, keep[i], work[job])
        release(books.arrays, books.pool, books.used, job)
        ledger.status[job] = WAITING
        books.counts[0] += 1
        books.counts[1] -= 1
        add_event(record, now, STOP, job, -1, -1, 0)


@kernel
def evict(now: int, books: Books, record: Recorder, job: int) -> None:
    """End a waiting or running job before completion, for good; O(rows x R + log n)."""
    ledger = books.ledger
    if ledger.status[job] == RUNNING:
        stop_progress(ledger, books.calendar, job, now)
        release(books.arrays, books.pool, books.used, job)
        books.counts[1] -= 1
    else:
        books.counts[0] -= 1
    ledger.status[job] = EVICTED
    ledger.end[job] = now
    add_event(record, now, EVICT, job, -1, -1, 0)
