"""Transitions of jobs from one state to another: submitted, rejected, started, stopped, completed, evicted.

Each updates the ledger, the calendar of completions and the placements together, and records its events.
Invariant between calls: ``counts`` are the numbers of waiting and of running jobs.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVICT,
    EVICTED,
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
    Calendar,
    Changes,
    Ledger,
    Pool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.calendar import is_due
from ray_sim.kernels.core.placement_rows import change_placements, release
from ray_sim.kernels.core.progress import save, stop_progress
from ray_sim.kernels.core.record import add_event, add_holding


@kernel
def submit_due(
    now: int,
    first: int,
    arrays: WorldArrays,
    verdict: I64,
    ledger: Ledger,
    counts: I64,
    record: Recorder,
) -> int:
    """Submit the jobs from ``first`` on whose time is now; return the first job of a later time.

    A job of a class whose ``verdict`` is not 0 can never fit and is rejected: after all submissions of the
    instant, those beyond the capacity (1) before those beyond the placement rule (2).
    """
    last = first
    while last < len(arrays.submit) and arrays.submit[last] == now:
        ledger.status[last] = WAITING
        counts[0] += 1
        add_event(record, now, SUBMIT, last, -1, -1, 0)
        last += 1
    for why in (1, 2):
        for job in range(first, last):
            if verdict[arrays.job_class[job]] == why:
                reject(now, ledger, counts, record, job)
    return last


@kernel
def reject(now: int, ledger: Ledger, counts: I64, record: Recorder, job: int) -> None:
    """Reject a waiting job for good; O(1)."""
    ledger.status[job] = REJECTED
    ledger.end[job] = now
    counts[0] -= 1
    add_event(record, now, REJECT, job, -1, -1, 0)


@kernel
def commit_placements(
    now: int,
    arrays: WorldArrays,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    record: Recorder,
    changes: Changes,
    pause: I64,
    restart_us: int,
    counts: I64,
) -> None:
    """Apply changes: release all, place all, then update the ledger and record events in job order.

    The caller sets the rates of the changed jobs afterwards. O(rows x R + n log n) for n changes.

    Parameters
    ----------
    pause : (n,) set to the restart pause of each change, 0 for a job that starts for the first time
    counts : (2,) jobs waiting, running; updated
    """
    change_placements(arrays, pool, used, changes)
    for k in range(changes.size[0]):
        i = changes.order[k]
        job = changes.job[i]
        running = ledger.status[job] == RUNNING
        pause[i] = 0
        if running and len(ledger.saved) > 0:
            save(ledger, job, now)
        if changes.ptr[i + 1] == changes.ptr[i]:
            if running:
                stop_progress(ledger, calendar, job, now)
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
        add_holding(record, now, MOVE if running else START, job, pool)


@kernel
def finish_due(
    now: int,
    arrays: WorldArrays,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    record: Recorder,
    counts: I64,
    finished: I64,
) -> int:
    """Complete every job that finishes now, in job order; write them to ``finished``, return their number.

    The calendar yields jobs by (finish, job), so they come in job order; O(rows x R + log n) for each.
    """
    n = 0
    while is_due(calendar, ledger.finish, now):
        job = calendar.heap[0]
        stop_progress(ledger, calendar, job, now)
        ledger.work_left[job] = 0.0
        ledger.status[job] = COMPLETED
        ledger.end[job] = now
        ledger.finish[job] = now
        release(arrays, pool, used, job)
        counts[1] -= 1
        add_event(record, now, FINISH, job, -1, -1, 0)
        finished[n] = job
        n += 1
    return n


@kernel
def evict(
    now: int,
    arrays: WorldArrays,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    counts: I64,
    record: Recorder,
    job: int,
) -> None:
    """End a waiting or running job before completion, for good; O(rows x R + log n)."""
    if ledger.status[job] == RUNNING:
        stop_progress(ledger, calendar, job, now)
        release(arrays, pool, used, job)
        counts[1] -= 1
    else:
        counts[0] -= 1
    ledger.status[job] = EVICTED
    ledger.end[job] = now
    add_event(record, now, EVICT, job, -1, -1, 0)
