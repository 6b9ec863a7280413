"""The ledger, the calendar and the holdings: how they change when a decision is applied.

A finish time is computed once per rate change, from the anchor; nothing else moves an anchor.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.arrays import (
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
    Shop,
)
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.heap import push, rekey, remove
from ray_sim.kernels.record import add_event, add_holding, add_used


@kernel
def elapsed(ledger: Ledger, job: int, now: int) -> int:
    """Microseconds of progress since the anchor; 0 during a restart pause."""
    if ledger.status[job] != RUNNING or now <= ledger.anchor[job]:
        return 0
    return now - ledger.anchor[job]


@kernel
def work_left(ledger: Ledger, job: int, now: int) -> float:
    """Work a job has left now, without moving its anchor."""
    return max(0.0, ledger.work_left[job] - ledger.rate[job] * elapsed(ledger, job, now))


@kernel
def executed(ledger: Ledger, job: int, now: int) -> int:
    """Microseconds in which the job has made progress so far."""
    return ledger.ran[job] + elapsed(ledger, job, now)


@kernel
def work_left_of(ledger: Ledger, jobs: I64, now: int, left: F64) -> None:
    """`work_left` of each of ``jobs`` into ``left``."""
    for i in range(len(jobs)):
        left[i] = work_left(ledger, jobs[i], now)


@kernel
def executed_of(ledger: Ledger, jobs: I64, now: int, ran: I64) -> None:
    """`executed` of each of ``jobs`` into ``ran``."""
    for i in range(len(jobs)):
        ran[i] = executed(ledger, jobs[i], now)


@outlined
def _note_checkpoint(ledger: Ledger, job: int, done: int) -> None:
    """Note the last checkpoint of so much progress since the anchor, if there was one."""
    every = ledger.checkpoint_us[0]
    since = ledger.ran[job] + done - ledger.saved_ran[job]
    saved = since if every == 0 else since - since % every
    if saved > 0:
        ledger.saved_ran[job] += saved
        before = ledger.rate[job] * (ledger.saved_ran[job] - ledger.ran[job])
        ledger.saved[job] = max(0.0, ledger.work_left[job] - before)


@outlined
def _save(ledger: Ledger, job: int, now: int) -> None:
    """A job that its scheduler suspends or moves is saved as it is."""
    ledger.saved[job] = work_left(ledger, job, now)
    ledger.saved_ran[job] = executed(ledger, job, now)


@kernel
def fall_back(ledger: Ledger, job: int) -> None:
    """A stopped job goes back to its last checkpoint."""
    ledger.work_left[job] = ledger.saved[job]
    ledger.lost[job] += ledger.ran[job] - ledger.saved_ran[job]
    ledger.saved_ran[job] = ledger.ran[job]


@kernel
def _settle(ledger: Ledger, job: int, now: int) -> None:
    """Book the progress since the anchor. A pause that has not ended keeps its end."""
    done = elapsed(ledger, job, now)
    if len(ledger.saved) > 0:
        _note_checkpoint(ledger, job, done)
    ledger.work_left[job] = max(0.0, ledger.work_left[job] - ledger.rate[job] * done)
    ledger.ran[job] += done
    ledger.anchor[job] = max(ledger.anchor[job], now)


@kernel
def set_rate(ledger: Ledger, calendar: Calendar, job: int, now: int, rate: float, pause: int) -> None:
    """From now on a running job progresses at ``rate`` (work per microsecond), after ``pause``.

    A change to the same rate without a pause changes nothing.
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
    """A running job loses its holdings; its progress stays."""
    _settle(ledger, job, now)
    ledger.rate[job] = 0.0
    ledger.held[job] += now - ledger.held_since[job]
    ledger.last_stop[job] = now
    calendar.size[0] = remove(calendar.heap, 0, calendar.size[0], calendar.position, ledger.finish, job)
    ledger.finish[job] = NEVER


@kernel
def release(shop: Shop, pool: Pool, used: I64, job: int) -> None:
    """Give back everything a job holds."""
    add_used(used, shop, pool, job, -1)
    row = pool.head[job]
    while row >= 0:
        for r in range(pool.free.shape[1]):
            pool.free[pool.row_server[row], r] += (
                pool.row_count[row] * shop.demand[job, pool.row_role[row], r]
            )
        following = pool.row_next[row]
        pool.row_next[row] = pool.top[0]
        pool.top[0] = row
        row = following
    pool.head[job] = -1


@kernel
def hold(shop: Shop, pool: Pool, used: I64, changes: Changes, i: int) -> None:
    """Give job of change i the rows of the change; it holds nothing before."""
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
            pool.free[changes.server[k], r] -= changes.tasks[k] * shop.demand[job, changes.role[k], r]
    add_used(used, shop, pool, job, 1)


@kernel
def change_holdings(shop: Shop, pool: Pool, used: I64, changes: Changes) -> None:
    """Release all that the changed jobs hold, then hold all that they are to hold."""
    for i in range(changes.size[0]):
        release(shop, pool, used, changes.job[i])
    for i in range(changes.size[0]):
        hold(shop, pool, used, changes, i)


@kernel
def rigid_rate(speed: F64, pool: Pool, job: int) -> float:
    """Progress of a placed gang: the speed of its slowest server (synchronous training)."""
    row = pool.head[job]
    slowest = speed[pool.row_server[row]]
    while row >= 0:
        if pool.row_count[row] > 0 and pool.row_role[row] == WORKER:
            slowest = min(slowest, speed[pool.row_server[row]])
        row = pool.row_next[row]
    return slowest


@kernel
def rigid_rates(speed: F64, pool: Pool, jobs: I64, rates: F64) -> None:
    """`rigid_rate` of each of ``jobs`` into ``rates``."""
    for i in range(len(jobs)):
        rates[i] = rigid_rate(speed, pool, jobs[i])


@kernel
def set_rates(ledger: Ledger, calendar: Calendar, jobs: I64, now: int, rates: F64, pauses: I64) -> None:
    """`set_rate` of each of ``jobs``."""
    for i in range(len(jobs)):
        set_rate(ledger, calendar, jobs[i], now, rates[i], pauses[i])


@kernel
def commit_holdings(
    now: int,
    shop: Shop,
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
    """Carry out changes: release all, then hold all, and record each in job order.

    ``pause[i]`` becomes the restart pause that change i costs: none for a job that never ran.
    ``counts`` (waiting, running) is kept up. Rates are the truth's business and follow.
    """
    change_holdings(shop, pool, used, changes)
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
    shop: Shop,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    record: Recorder,
    counts: I64,
    finished: I64,
) -> int:
    """Complete every job whose work is done now, in job order, into ``finished``; returns how many."""
    n = 0
    while calendar.size[0] > 0 and ledger.finish[calendar.heap[0]] == now:
        job = calendar.heap[0]
        stop_progress(ledger, calendar, job, now)
        ledger.work_left[job] = 0.0
        ledger.status[job] = COMPLETED
        ledger.end[job] = now
        ledger.finish[job] = now
        release(shop, pool, used, job)
        counts[1] -= 1
        add_event(record, now, FINISH, job, -1, -1, 0)
        finished[n] = job
        n += 1
    return n


@kernel
def submit_due(
    now: int,
    first: int,
    shop: Shop,
    verdict: I64,
    ledger: Ledger,
    counts: I64,
    record: Recorder,
) -> int:
    """Let every job from ``first`` on that is submitted now wait; returns the next one to come.

    Jobs whose class ``verdict`` is not 0 can never fit: they are rejected once all are in, those
    beyond the capacity before those beyond the placement rule.
    """
    last = first
    while last < len(shop.submit) and shop.submit[last] == now:
        ledger.status[last] = WAITING
        counts[0] += 1
        add_event(record, now, SUBMIT, last, -1, -1, 0)
        last += 1
    for why in (1, 2):
        for job in range(first, last):
            if verdict[shop.job_class[job]] == why:
                reject(now, ledger, counts, record, job)
    return last


@kernel
def reject(now: int, ledger: Ledger, counts: I64, record: Recorder, job: int) -> None:
    """Turn a waiting job away for ever."""
    ledger.status[job] = REJECTED
    ledger.end[job] = now
    counts[0] -= 1
    add_event(record, now, REJECT, job, -1, -1, 0)


@kernel
def evict(
    now: int,
    shop: Shop,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    counts: I64,
    record: Recorder,
    job: int,
) -> None:
    """End a waiting or running job for ever, short of completion."""
    if ledger.status[job] == RUNNING:
        stop_progress(ledger, calendar, job, now)
        release(shop, pool, used, job)
        counts[1] -= 1
    else:
        counts[0] -= 1
    ledger.status[job] = EVICTED
    ledger.end[job] = now
    add_event(record, now, EVICT, job, -1, -1, 0)
