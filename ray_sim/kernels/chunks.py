"""Queues of chunks on the worker slots of a site, which go on by themselves between decisions.

A dispatched chunk is a row; a row's number is its place in the order of dispatch. It is uploaded first,
then waits in its worker's queue, and once the worker serves it, it makes progress while its job holds a
parameter server. Each row that waits for something is in one heap: uploads by when they end, a
worker's queue by (key, row), the calendar of running rows by when they are done. So an event costs
O(log n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import I8, I64, NEVER, Bool, empty
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.heap import precedes, push, rekey, remove

# Phases of a row, `Queues.phase`. A served chunk has the worker, a running one makes progress.
UPLOADING, QUEUED, SERVED, RUNNING, DONE = range(5)

# What a site reports of a chunk, the first column of `Queues.event`.
SERVE, RUN, PAUSE, PREEMPT, DISPLACE, COMPLETE, LOST = range(7)
"""It gets the worker; it begins or ceases to make progress there; it loses the worker to another, in
the midst of progress or not; it is done and leaves the worker; it is lost with its worker's server."""

# Entries of `Queues.size`.
ROWS, UPLOADS, CALENDAR, FRESH, MARKED, DIRTY, EVENTS = range(7)

EVENTS_PER_ROW = 6
"""No row has more events at one instant: it may lose the worker, get it back, run and be done."""

EVENT_COLUMNS = 5
"""Event, job, unit, worker, microseconds of training left."""


class Queues(NamedTuple):
    """N rows, W workers, J jobs. Times in microseconds."""

    job: I64
    unit: I64
    worker: I64
    key: I64
    """(N,) smaller is served first; ties by row."""
    ready: I64
    """(N,) when the upload ends."""
    left: I64
    """(N,) work left at the anchor, in time on this worker."""
    owed: I64
    """(N,) the part of it, its first, that makes up for preemptions and trains nothing."""
    anchor: I64
    finish: I64
    """(N,) since when, and until when, a running row makes progress."""
    overtakes: Bool
    """(N,) whether it takes the worker from a chunk with a larger key."""
    phase: I8
    position: I64
    """(N,) place in the one heap that holds the row."""
    before: I64
    after: I64
    """(N,) neighbours in the one list that holds the row, -1 for none: see `coming` and `first`."""
    uploads: I64
    calendar: I64
    fresh: I64
    """(N,) rows served since the parameter servers were last looked at."""
    on_demand: Bool
    """(W,) stands for a new worker for each chunk: no chunk ever waits there."""
    served: I64
    """(W,) the row that has the worker, -1 for none."""
    base: I64
    room: I64
    waiting: I64
    """(W,) the worker's slice of `queue`: where it begins, its length, the rows in it."""
    load: I64
    """(W,) work left of all its rows, at the anchor of the running one."""
    rows: I64
    """(W,) rows not done."""
    coming: I64
    """(W,) the newest of the rows that are being uploaded to the worker, -1 for none."""
    in_order: Bool
    """(W,) whether the worker's slice of `queue` is sorted, which is a heap too."""
    mark: Bool
    marked: I64
    """(W,) workers on which something has changed in this instant."""
    queue: I64
    first: I64
    """(J,) first served row of a job, -1 for none."""
    holds_ps: Bool
    """(J,)."""
    dirty: I64
    """(J,) jobs that got or lost their parameter server and have served rows."""
    is_dirty: Bool
    event: I64
    """(EVENTS_PER_ROW N, EVENT_COLUMNS)."""
    size: I64
    preemption_cost: int
    """Work that a row owes more each time it loses the worker in the midst of progress."""


def new_queues(rows: int, on_demand: Bool, n_jobs: int, preemption_cost: int) -> Queues:
    """No chunk; room for so many rows, and none yet in any queue."""
    n_workers = len(on_demand)
    numbers = {name: np.empty(rows, np.int64) for name in ("job", "unit", "worker", "key", "ready", "left")}
    return Queues(
        **numbers,
        owed=np.empty(rows, np.int64),
        anchor=np.empty(rows, np.int64),
        finish=np.empty(rows, np.int64),
        overtakes=np.empty(rows, np.bool_),
        phase=np.empty(rows, np.int8),
        position=np.empty(rows, np.int64),
        before=np.empty(rows, np.int64),
        after=np.empty(rows, np.int64),
        uploads=np.empty(rows, np.int64),
        calendar=np.empty(rows, np.int64),
        fresh=np.empty(rows, np.int64),
        on_demand=on_demand,
        served=empty(n_workers, -1),
        base=empty(n_workers),
        room=empty(n_workers),
        waiting=empty(n_workers),
        load=empty(n_workers),
        rows=empty(n_workers),
        coming=empty(n_workers, -1),
        in_order=np.ones(n_workers, np.bool_),
        mark=np.zeros(n_workers, np.bool_),
        marked=np.empty(n_workers, np.int64),
        queue=np.empty(0, np.int64),
        first=empty(n_jobs, -1),
        holds_ps=np.zeros(n_jobs, np.bool_),
        dirty=np.empty(n_jobs, np.int64),
        is_dirty=np.zeros(n_jobs, np.bool_),
        event=np.empty((EVENTS_PER_ROW * rows, EVENT_COLUMNS), np.int64),
        size=empty(7),
        preemption_cost=preemption_cost,
    )


@kernel
def _report(q: Queues, event: int, row: int) -> None:
    n = q.size[EVENTS]
    q.event[n, 0] = event
    q.event[n, 1] = q.job[row]
    q.event[n, 2] = q.unit[row]
    q.event[n, 3] = q.worker[row]
    q.event[n, 4] = q.left[row] - q.owed[row]
    q.size[EVENTS] = n + 1


@kernel
def _mark(q: Queues, worker: int) -> None:
    if not q.mark[worker]:
        q.mark[worker] = True
        q.marked[q.size[MARKED]] = worker
        q.size[MARKED] += 1


@kernel
def link(q: Queues, first: I64, of: int, row: int) -> None:
    """Put a row at the head of the list that begins at ``first[of]``."""
    q.before[row], q.after[row] = -1, first[of]
    if first[of] >= 0:
        q.before[first[of]] = row
    first[of] = row


@kernel
def unlink(q: Queues, first: I64, of: int, row: int) -> None:
    """Take a row out of the list that begins at ``first[of]``."""
    if q.before[row] >= 0:
        q.after[q.before[row]] = q.after[row]
    else:
        first[of] = q.after[row]
    if q.after[row] >= 0:
        q.before[q.after[row]] = q.before[row]


@outlined
def _end_upload(q: Queues, row: int) -> None:
    q.size[UPLOADS] = remove(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
    unlink(q, q.coming, q.worker[row], row)


@outlined
def _enqueue(q: Queues, row: int) -> None:
    worker = q.worker[row]
    q.phase[row] = QUEUED
    q.in_order[worker] = False
    q.waiting[worker] = push(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)


@outlined
def _dequeue(q: Queues, worker: int) -> int:
    """Take the first row out of a worker's queue."""
    row = q.queue[q.base[worker]]
    q.in_order[worker] = False
    q.waiting[worker] = remove(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)
    return row


@kernel
def _serve(q: Queues, row: int) -> None:
    """Give the row its worker."""
    job, worker = q.job[row], q.worker[row]
    q.phase[row] = SERVED
    if not q.on_demand[worker]:
        q.served[worker] = row
    link(q, q.first, job, row)
    q.fresh[q.size[FRESH]] = row
    q.size[FRESH] += 1


@kernel
def _leave(q: Queues, row: int) -> None:
    """Take the worker from the row."""
    if not q.on_demand[q.worker[row]]:
        q.served[q.worker[row]] = -1
    unlink(q, q.first, q.job[row], row)


@outlined
def _run(q: Queues, row: int, now: int) -> None:
    """From now on a served row makes progress."""
    q.phase[row] = RUNNING
    q.anchor[row] = now
    q.finish[row] = now + q.left[row]
    q.size[CALENDAR] = push(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)


@outlined
def _halt(q: Queues, row: int, now: int) -> None:
    """A running row makes no progress from now on; what it has made stays."""
    lasted = now - q.anchor[row]
    q.left[row] -= lasted
    q.owed[row] -= min(q.owed[row], lasted)
    q.load[q.worker[row]] -= lasted
    q.size[CALENDAR] = remove(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)
    q.phase[row] = SERVED


@kernel
def _finish_due(q: Queues, now: int) -> None:
    while q.size[CALENDAR] > 0 and q.finish[q.calendar[0]] <= now:
        row = q.calendar[0]
        _halt(q, row, now)
        _leave(q, row)
        q.phase[row] = DONE
        q.rows[q.worker[row]] -= 1
        _report(q, COMPLETE, row)
        _mark(q, q.worker[row])


@kernel
def _upload_due(q: Queues, now: int) -> None:
    """Chunks whose upload ends join their worker's queue, or get a worker of their own."""
    while q.size[UPLOADS] > 0 and q.ready[q.uploads[0]] <= now:
        row = q.uploads[0]
        _end_upload(q, row)
        if q.on_demand[q.worker[row]]:
            _serve(q, row)
            _report(q, SERVE, row)
        else:
            _enqueue(q, row)
            _mark(q, q.worker[row])


@kernel
def _gets_worker(q: Queues, worker: int) -> bool:
    """Whether the first row of a worker's queue is to be served now: it is idle or that row overtakes."""
    if q.waiting[worker] == 0:
        return False
    served, top = q.served[worker], q.queue[q.base[worker]]
    return bool(served < 0 or (q.overtakes[top] and precedes(q.key, top, served)))


@kernel
def _mark_due(q: Queues) -> None:
    """Mark the workers that are to serve another row now."""
    for worker in range(len(q.served)):
        if _gets_worker(q, worker):
            _mark(q, worker)


@kernel
def _preempt(q: Queues, row: int, now: int) -> None:
    """A running row has lost its worker to another, which costs it some work more."""
    _halt(q, row, now)
    q.left[row] += q.preemption_cost
    q.owed[row] += q.preemption_cost
    q.load[q.worker[row]] += q.preemption_cost
    _report(q, PREEMPT, row)


@kernel
def _choose(q: Queues, worker: int, now: int) -> None:
    """Let a worker serve the first row of its queue, if it is idle or that row overtakes the served."""
    if not _gets_worker(q, worker):
        return
    served = q.served[worker]
    if served >= 0:
        if q.phase[served] != RUNNING:
            _report(q, DISPLACE, served)
        elif q.anchor[served] < now:
            _preempt(q, served, now)
        else:  # it began at this very instant, before more was dispatched
            _halt(q, served, now)
            _report(q, PAUSE, served)
            _report(q, DISPLACE, served)
        _leave(q, served)
        _enqueue(q, served)
    row = _dequeue(q, worker)
    _serve(q, row)
    _report(q, SERVE, row)


@kernel
def _heed_ps(q: Queues, now: int) -> None:
    """Served rows run exactly while their job holds a parameter server."""
    for i in range(q.size[FRESH]):
        row = q.fresh[i]
        if q.holds_ps[q.job[row]]:
            _run(q, row, now)
            _report(q, RUN, row)
    q.size[FRESH] = 0
    for i in range(q.size[DIRTY]):
        job = q.dirty[i]
        q.is_dirty[job] = False
        row = q.first[job]
        while row >= 0:
            if q.holds_ps[job] and q.phase[row] == SERVED:
                _run(q, row, now)
                _report(q, RUN, row)
            elif not q.holds_ps[job] and q.phase[row] == RUNNING:
                _halt(q, row, now)
                _report(q, PAUSE, row)
            row = q.after[row]
    q.size[DIRTY] = 0


@kernel
def _drop(q: Queues, row: int, now: int) -> None:
    """Take a row off its worker, wherever it stands; others may be served there in this instant."""
    worker = q.worker[row]
    if q.phase[row] == UPLOADING:
        _end_upload(q, row)
    elif q.phase[row] == QUEUED:
        q.in_order[worker] = False
        q.waiting[worker] = remove(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)
    else:
        if q.phase[row] == RUNNING:
            _halt(q, row, now)
            _report(q, PAUSE, row)
        _leave(q, row)
        _report(q, DISPLACE, row)
    q.load[worker] -= q.left[row]
    q.rows[worker] -= 1
    q.phase[row] = DONE
    _mark(q, worker)


@kernel
def drop_rows(q: Queues, now: int, gone: Bool, ended: Bool) -> None:
    """Drop the chunks on workers that are ``gone``, (W,), which are lost, and those of ``ended`` jobs, (J,).

    O(rows); `advance` must follow at once.
    """
    for row in range(q.size[ROWS]):
        if q.phase[row] != DONE and (gone[q.worker[row]] or ended[q.job[row]]):
            _drop(q, row, now)
            if gone[q.worker[row]]:
                _report(q, LOST, row)


@kernel
def _next_time(q: Queues, now: int) -> int:
    """When something happens next; NEVER if nothing does."""
    if q.size[DIRTY] > 0 or q.size[MARKED] > 0:
        return now
    following = NEVER
    if q.size[CALENDAR] > 0:
        following = q.finish[q.calendar[0]]
    if q.size[UPLOADS] > 0:
        following = min(following, q.ready[q.uploads[0]])
    return following


@kernel
def advance(q: Queues, now: int) -> int:
    """Let happen all that happens now: `Queues.event` tells what. Returns when something happens next.

    Chunks that are done, uploads that end, then who has which worker, then who makes progress; again
    for chunks of no length.
    """
    while True:
        _finish_due(q, now)
        _upload_due(q, now)
        for i in range(q.size[MARKED]):
            q.mark[q.marked[i]] = False
            _choose(q, q.marked[i], now)
        q.size[MARKED] = 0
        _heed_ps(q, now)
        if q.size[CALENDAR] == 0 or q.finish[q.calendar[0]] > now:
            return _next_time(q, now)


@kernel
def add_rows(q: Queues, now: int, chunks: I64) -> int:
    """Dispatch chunks, (n, 7) as in `ray_sim.engine.site.Commands`; there must be room for them.

    Returns when something happens next, as do all that follow.
    """
    for i in range(len(chunks)):
        row = q.size[ROWS]
        q.size[ROWS] = row + 1
        q.worker[row], q.key[row] = chunks[i, 0], chunks[i, 1]
        q.job[row], q.unit[row] = chunks[i, 2], chunks[i, 3]
        q.ready[row], q.left[row] = chunks[i, 4], chunks[i, 5]
        q.overtakes[row] = chunks[i, 6] != 0
        q.owed[row], q.anchor[row] = 0, 0
        q.phase[row] = UPLOADING
        q.size[UPLOADS] = push(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
        link(q, q.coming, q.worker[row], row)
        q.load[q.worker[row]] += q.left[row]
        q.rows[q.worker[row]] += 1
    return _next_time(q, now)


@kernel
def _soil(q: Queues, job: int) -> None:
    if not q.is_dirty[job]:
        q.is_dirty[job] = True
        q.dirty[q.size[DIRTY]] = job
        q.size[DIRTY] += 1


@kernel
def set_ps(q: Queues, now: int, holdings: I64) -> int:
    """Note who holds a parameter server from now on: (n, 2) rows job, 0 or 1."""
    for i in range(len(holdings)):
        job, holds = holdings[i, 0], holdings[i, 1] != 0
        if q.holds_ps[job] != holds:
            q.holds_ps[job] = holds
            if q.first[job] >= 0:
                _soil(q, job)
    return _next_time(q, now)


@kernel
def set_keys(q: Queues, now: int, jobs: I64, keys: I64) -> int:
    """Give all chunks here of some jobs, sorted, another key each; O(rows)."""
    for row in range(q.size[ROWS]):
        i = np.searchsorted(jobs, q.job[row])
        if q.phase[row] == DONE or i == len(jobs) or jobs[i] != q.job[row]:
            continue
        if q.phase[row] == QUEUED:
            worker = q.worker[row]
            q.in_order[worker] = False
            rekey(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row, keys[i])
        else:
            q.key[row] = keys[i]
    _mark_due(q)
    return _next_time(q, now)


@kernel
def resume(q: Queues, now: int, phases: I64, anchors: I64, owed: I64) -> int:
    """Bring rows that were just added, and are all being uploaded, to where they were in an earlier life.

    Who holds a parameter server must be set before.
    """
    for row in range(len(phases)):
        q.owed[row] = owed[row]
        if phases[row] == UPLOADING:
            continue
        _end_upload(q, row)
        if phases[row] == QUEUED:
            _enqueue(q, row)
            continue
        _serve(q, row)
        if phases[row] == RUNNING:
            _run(q, row, anchors[row])
        if q.holds_ps[q.job[row]] != (phases[row] == RUNNING):
            _soil(q, q.job[row])
    q.size[FRESH] = 0
    _mark_due(q)
    return _next_time(q, now)


@kernel
def loads_at(q: Queues, now: int, loads: I64) -> None:
    """(W,) work left on every worker now, in its own time, of all chunks dispatched to it."""
    for worker in range(len(loads)):
        loads[worker] = q.load[worker]
        row = q.served[worker]
        if row >= 0 and q.phase[row] == RUNNING:
            loads[worker] -= now - q.anchor[row]
