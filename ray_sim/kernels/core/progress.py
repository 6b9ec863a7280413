"""Apply decisions to the ledger (progress), the calendar (completions) and the pool (placements).

Progress of a job is linear from its anchor: work left now = `work_left` - `rate` x (now - anchor). The
anchor moves, and the finish time is computed, only when the rate changes or the job stops, so rounding does
not depend on how often a job is looked at. Invariant between decisions: the calendar holds the running jobs
with their `finish`, except jobs in chunks, whose sites keep calendars of chunks.
"""

from __future__ import annotations

import numpy as np

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
    WORKER,
    Calendar,
    Changes,
    Ledger,
    Pool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.heap import push, rekey, remove
from ray_sim.kernels.core.record import add_event, add_holding, add_used


@kernel
def elapsed(ledger: Ledger, job: int, now: int) -> int:
    """Return microseconds of progress since the anchor; 0 during a restart pause."""
    if ledger.status[job] != RUNNING or now <= ledger.anchor[job]:
        return 0
    return now - ledger.anchor[job]


@kernel
def work_left(ledger: Ledger, job: int, now: int) -> float:
    """Return the work left now; the anchor stays."""
    return max(0.0, ledger.work_left[job] - ledger.rate[job] * elapsed(ledger, job, now))


@kernel
def executed(ledger: Ledger, job: int, now: int) -> int:
    """Return the microseconds in which the job has made progress so far."""
    return ledger.ran[job] + elapsed(ledger, job, now)


@kernel
def work_left_of(ledger: Ledger, jobs: I64, now: int, left: F64) -> None:
    """Set ``left``, (n,), to the work left of each of ``jobs``."""
    for i in range(len(jobs)):
        left[i] = work_left(ledger, jobs[i], now)


@kernel
def executed_of(ledger: Ledger, jobs: I64, now: int, ran: I64) -> None:
    """Set ``ran``, (n,), to the microseconds of progress of each of ``jobs``."""
    for i in range(len(jobs)):
        ran[i] = executed(ledger, jobs[i], now)


@outlined
def _note_checkpoint(ledger: Ledger, job: int, done: int) -> None:
    """Book the last checkpoint within ``done`` microseconds of progress since the anchor, if there is one.

    Checkpoints are every `checkpoint_us` of progress; at 0 every moment is one.
    """
    every = ledger.checkpoint_us[0]
    since = ledger.ran[job] + done - ledger.saved_ran[job]
    saved = since if every == 0 else since - since % every
    if saved > 0:
        ledger.saved_ran[job] += saved
        before = ledger.rate[job] * (ledger.saved_ran[job] - ledger.ran[job])
        ledger.saved[job] = max(0.0, ledger.work_left[job] - before)


@outlined
def _save(ledger: Ledger, job: int, now: int) -> None:
    """Save a job as it is: a scheduler that suspends or moves a job loses no work."""
    ledger.saved[job] = work_left(ledger, job, now)
    ledger.saved_ran[job] = executed(ledger, job, now)


@kernel
def fall_back(ledger: Ledger, job: int) -> None:
    """Set a stopped job back to its last checkpoint and count the progress lost."""
    ledger.work_left[job] = ledger.saved[job]
    ledger.lost[job] += ledger.ran[job] - ledger.saved_ran[job]
    ledger.saved_ran[job] = ledger.ran[job]


@kernel
def _settle(ledger: Ledger, job: int, now: int) -> None:
    """Book the progress since the anchor and move the anchor to now, or leave it at the end of a pause."""
    done = elapsed(ledger, job, now)
    if len(ledger.saved) > 0:
        _note_checkpoint(ledger, job, done)
    ledger.work_left[job] = max(0.0, ledger.work_left[job] - ledger.rate[job] * done)
    ledger.ran[job] += done
    ledger.anchor[job] = max(ledger.anchor[job], now)


@kernel
def set_rate(ledger: Ledger, calendar: Calendar, job: int, now: int, rate: float, pause: int) -> None:
    """Set the rate of a running job, in work per microsecond, after a pause in microseconds; O(log n).

    Setting the same rate without a pause leaves the anchor, and so the finish time, unchanged.
    """
    if rate == ledger.rate[job] and pause == 0 and calendar.position[job] >= 0:
        return
    _settle(ledger, job, now)
    ledger.rate[job] = rate
    if pause > 0:
        ledger.anchor[job] = now + pause
    finish = NEVER
    if ledger.work_left[job] <= 0.0:
        finish = ledger.anchor[job]
    elif rate > 0.0:
        span = np.ceil(ledger.work_left[job] / rate)
        if span < NEVER - ledger.anchor[job]:
            finish = ledger.anchor[job] + int(span)
    if calendar.position[job] >= 0:
        rekey(calendar.heap, 0, calendar.size[0], calendar.position, ledger.finish, job, finish)
    else:
        ledger.finish[job] = finish
        calendar.size[0] = push(calendar.heap, 0, calendar.size[0], calendar.position, ledger.finish, job)


@kernel
def stop_progress(ledger: Ledger, calendar: Calendar, job: int, now: int) -> None:
    """Stop the progress of a running job and remove it from the calendar; O(log n)."""
    _settle(ledger, job, now)
    ledger.rate[job] = 0.0
    ledger.held[job] += now - ledger.held_since[job]
    ledger.last_stop[job] = now
    calendar.size[0] = remove(calendar.heap, 0, calendar.size[0], calendar.position, ledger.finish, job)
    ledger.finish[job] = NEVER


@kernel
def release(arrays: WorldArrays, pool: Pool, used: I64, job: int) -> None:
    """Release the placement of a job: its rows go to the spare list, its quanta to `free`; O(rows x R)."""
    add_used(used, arrays, pool, job, -1)
    row = pool.head[job]
    while row >= 0:
        for r in range(pool.free.shape[1]):
            pool.free[pool.row_server[row], r] += (
                pool.row_count[row] * arrays.demand[job, pool.row_role[row], r]
            )
        following = pool.row_next[row]
        pool.row_next[row] = pool.top[0]
        pool.top[0] = row
        row = following
    pool.head[job] = -1


@kernel
def hold(arrays: WorldArrays, pool: Pool, used: I64, changes: Changes, i: int) -> None:
    """Place the job of change i, which holds nothing, as the change says; O(rows x R).

    Rows are linked from the last to the first, so that the list runs in server order.
    """
    job = changes.job[i]
    for k in range(changes.ptr[i + 1] - 1, changes.ptr[i] - 1, -1):
        row = pool.top[0]
        if row >= 0:
            pool.top[0] = pool.row_next[row]
        else:
            row = pool.top[1]
            pool.top[1] = row + 1
        pool.row_server[row] = changes.server[k]
        pool.row_role[row] = changes.role[k]
        pool.row_count[row] = changes.tasks[k]
        pool.row_next[row] = pool.head[job]
        pool.head[job] = row
        for r in range(pool.free.shape[1]):
            pool.free[changes.server[k], r] -= changes.tasks[k] * arrays.demand[job, changes.role[k], r]
    add_used(used, arrays, pool, job, 1)


@kernel
def change_placements(arrays: WorldArrays, pool: Pool, used: I64, changes: Changes) -> None:
    """Replace placements: release those of all changed jobs first, so that jobs can swap servers."""
    for i in range(changes.size[0]):
        release(arrays, pool, used, changes.job[i])
    for i in range(changes.size[0]):
        hold(arrays, pool, used, changes, i)


@kernel
def rigid_rate(speed: F64, pool: Pool, job: int) -> float:
    """Return the rate of a gang: the speed of its slowest server with a worker (synchronous training)."""
    row = pool.head[job]
    slowest = speed[pool.row_server[row]]
    while row >= 0:
        if pool.row_count[row] > 0 and pool.row_role[row] == WORKER:
            slowest = min(slowest, speed[pool.row_server[row]])
        row = pool.row_next[row]
    return slowest


@kernel
def rigid_rates(speed: F64, pool: Pool, jobs: I64, rates: F64) -> None:
    """Set ``rates``, (n,), to the `rigid_rate` of each of ``jobs``."""
    for i in range(len(jobs)):
        rates[i] = rigid_rate(speed, pool, jobs[i])


@kernel
def set_rates(ledger: Ledger, calendar: Calendar, jobs: I64, now: int, rates: F64, pauses: I64) -> None:
    """Call `set_rate` for each of ``jobs``."""
    for i in range(len(jobs)):
        set_rate(ledger, calendar, jobs[i], now, rates[i], pauses[i])


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
            _save(ledger, job, now)
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

    The calendar yields jobs by (finish, job); O(log n) for each.
    """
    n = 0
    while calendar.size[0] > 0 and ledger.finish[calendar.heap[0]] == now:
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
    """Reject a waiting job, for good."""
    ledger.status[job] = REJECTED
    ledger.end[job] = now
    counts[0] -= 1
    add_event(record, now, REJECT, job, -1, -1, 0)


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
    """End a waiting or running job before completion, for good."""
    if ledger.status[job] == RUNNING:
        stop_progress(ledger, calendar, job, now)
        release(arrays, pool, used, job)
        counts[1] -= 1
    else:
        counts[0] -= 1
    ledger.status[job] = EVICTED
    ledger.end[job] = now
    add_event(record, now, EVICT, job, -1, -1, 0)
