"""Event-driven queues of chunks on the worker slots of a site; they advance between decisions of a policy.

A dispatched chunk is a row; rows are numbered in the order of dispatch. A row is uploaded, waits in the
queue of its worker, is served, and makes progress while its job holds a parameter server. Invariant: a row
that waits for an event is in exactly one heap, uploads by their end, a worker's queue by (key, row), the
calendar of running rows by completion. An event costs O(log n) for n rows.

The model is that of Wang et al. (A_online, JSAC 2022); docs/symbols.md lists its symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I8, I64, NEVER, Bool, empty
from ray_sim.kernels.core.heap import precedes, push, rekey, remove

# Phases of a row, `Queues.phase`. A served chunk has the worker, a running one makes progress.
UPLOADING, QUEUED, SERVED, RUNNING, DONE = range(5)

# Kinds of event that a site reports of a chunk: the first column of `Queues.event`.
SERVE, RUN, PAUSE, PREEMPT, DISPLACE, COMPLETE, LOST = range(7)
"""SERVE: gets the worker. RUN, PAUSE: begins, stops making progress there. PREEMPT, DISPLACE: loses the
worker to another chunk, while it made progress, or not. COMPLETE: is done. LOST: its server went."""

# Entries of `Queues.size`.
ROWS, UPLOADS, CALENDAR, FRESH, MARKED, DIRTY, EVENTS = range(7)

EVENTS_PER_ROW = 6
"""Upper bound on the events of a row at one instant: it may lose the worker, get it back, run, be done."""

EVENT_COLUMNS = 5
"""Event, job, unit, worker, microseconds of training left."""


_DISPATCHED = ("job", "unit", "worker", "key", "inverse_rate", "ready", "left")
"""Columns of a row that its dispatch sets."""


class Queues(NamedTuple):
    """N rows, W workers, J jobs. Times in microseconds."""

    job: I64
    unit: I64
    worker: I64
    key: I64
    """(N,) smaller is served first; ties by row."""
    inverse_rate: I64
    """(N,) D p, weight of a chunk in increments: chunks of its job x time of a whole chunk on this worker."""
    ready: I64
    """(N,) when the upload ends."""
    left: I64
    """(N,) work left at the anchor, in time on this worker."""
    owed: I64
    """(N,) the first part of `left`: repeated work after preemptions, which trains nothing."""
    anchor: I64
    finish: I64
    """(N,) start of the progress of a running row, and its completion if nothing stops it."""
    overtakes: Bool
    """(N,) whether the row preempts a chunk with a larger key."""
    since: I64
    """(N,) time at which a served row got its worker; at that same instant any row before it takes it."""
    phase: I8
    position: I64
    """(N,) place in the heap that holds the row."""
    before: I64
    after: I64
    """(N,) neighbours in the linked list that holds the row (`coming` or `first`), -1 for none."""
    uploads: I64
    calendar: I64
    fresh: I64
    """(N,) rows served since `_heed_ps` last ran."""
    on_demand: Bool
    """(W,) whether the worker stands for a new one per chunk (cloud): no chunk waits there."""
    served: I64
    """(W,) the row that has the worker, -1 for none."""
    base: I64
    room: I64
    waiting: I64
    """(W,) the worker's slice of `queue`: its start, its length, the number of rows in it."""
    load: I64
    """(W,) sum of work left of its rows, as of the anchor of the running one."""
    rows: I64
    """(W,) number of rows not done."""
    coming: I64
    """(W,) head of the list of rows in upload to the worker, newest first, -1 for none."""
    version: I64
    """(W,) number of changes of the worker's slice of `queue`: a sorted copy with another number is stale."""
    mark: Bool
    marked: I64
    """(W,) flag, and list, of workers that choose which row they serve in this instant."""
    queue: I64
    first: I64
    """(J,) head of the list of served rows of a job, -1 for none."""
    holds_ps: Bool
    """(J,)."""
    dirty: I64
    """(J,) list of jobs with served rows that got or lost their parameter server."""
    is_dirty: Bool
    event: I64
    """(EVENTS_PER_ROW N, EVENT_COLUMNS)."""
    size: I64
    preemption_cost: int
    """Repeated work that a preemption adds to a row, in microseconds."""


def new_queues(rows: int, on_demand: Bool, n_jobs: int, preemption_cost: int) -> Queues:
    """Return empty queues with room for ``rows`` rows; `queue` itself has none yet."""
    n_workers = len(on_demand)
    numbers = {name: np.empty(rows, np.int64) for name in _DISPATCHED}
    return Queues(
        **numbers,
        owed=np.empty(rows, np.int64),
        anchor=np.empty(rows, np.int64),
        finish=np.empty(rows, np.int64),
        overtakes=np.empty(rows, np.bool_),
        since=np.empty(rows, np.int64),
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
        version=empty(n_workers),
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
    """Append an event of a row."""
    n = q.size[EVENTS]
    q.event[n, 0] = event
    q.event[n, 1] = q.job[row]
    q.event[n, 2] = q.unit[row]
    q.event[n, 3] = q.worker[row]
    q.event[n, 4] = q.left[row] - q.owed[row]
    q.size[EVENTS] = n + 1


@kernel
def _mark(q: Queues, worker: int) -> None:
    """Let a worker choose its row in this instant; a second mark has no effect."""
    if not q.mark[worker]:
        q.mark[worker] = True
        q.marked[q.size[MARKED]] = worker
        q.size[MARKED] += 1


@kernel
def link(q: Queues, first: I64, of: int, row: int) -> None:
    """Insert a row at the head of the linked list ``first[of]``; O(1)."""
    q.before[row], q.after[row] = -1, first[of]
    if first[of] >= 0:
        q.before[first[of]] = row
    first[of] = row


@kernel
def unlink(q: Queues, first: I64, of: int, row: int) -> None:
    """Remove a row from the linked list ``first[of]``; O(1)."""
    if q.before[row] >= 0:
        q.after[q.before[row]] = q.after[row]
    else:
        first[of] = q.after[row]
    if q.after[row] >= 0:
        q.before[q.after[row]] = q.before[row]


@outlined
def _end_upload(q: Queues, row: int) -> None:
    """Remove a row from the heap and the list of uploads; O(log n)."""
    q.size[UPLOADS] = remove(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
    unlink(q, q.coming, q.worker[row], row)


@outlined
def _enqueue(q: Queues, row: int) -> None:
    """Add a row to the queue of its worker; O(log n)."""
    worker = q.worker[row]
    q.phase[row] = QUEUED
    q.version[worker] += 1
    q.waiting[worker] = push(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)


@outlined
def _dequeue(q: Queues, worker: int) -> int:
    """Remove and return the first row of a worker's queue; O(log n)."""
    row = q.queue[q.base[worker]]
    q.version[worker] += 1
    q.waiting[worker] = remove(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)
    return row


@kernel
def _serve(q: Queues, row: int, now: int) -> None:
    """Give a row its worker; `_heed_ps` decides whether it runs."""
    job, worker = q.job[row], q.worker[row]
    q.phase[row] = SERVED
    q.since[row] = now
    if not q.on_demand[worker]:
        q.served[worker] = row
    link(q, q.first, job, row)
    q.fresh[q.size[FRESH]] = row
    q.size[FRESH] += 1


@kernel
def _leave(q: Queues, row: int) -> None:
    """Take the worker from a row."""
    if not q.on_demand[q.worker[row]]:
        q.served[q.worker[row]] = -1
    unlink(q, q.first, q.job[row], row)


@outlined
def _run(q: Queues, row: int, now: int) -> None:
    """Start the progress of a served row; O(log n)."""
    q.phase[row] = RUNNING
    q.anchor[row] = now
    q.finish[row] = now + q.left[row]
    q.size[CALENDAR] = push(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)


@outlined
def _halt(q: Queues, row: int, now: int) -> None:
    """Stop the progress of a running row and book the work done; O(log n)."""
    lasted = now - q.anchor[row]
    q.left[row] -= lasted
    q.owed[row] -= min(q.owed[row], lasted)
    q.load[q.worker[row]] -= lasted
    q.size[CALENDAR] = remove(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)
    q.phase[row] = SERVED


@kernel
def _finish_due(q: Queues, now: int) -> None:
    """Complete the rows whose time has come, in the order of the calendar, and mark their workers."""
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
    """Move rows whose upload has ended to their worker's queue; on demand they get a worker at once."""
    while q.size[UPLOADS] > 0 and q.ready[q.uploads[0]] <= now:
        row = q.uploads[0]
        _end_upload(q, row)
        if q.on_demand[q.worker[row]]:
            _serve(q, row, now)
            _report(q, SERVE, row)
        else:
            _enqueue(q, row)
            _mark(q, q.worker[row])


@kernel
def _gets_worker(q: Queues, worker: int, now: int) -> bool:
    """Whether the first row of a worker's queue gets the worker now.

    It does if the worker is idle, or if the row precedes the served one by (key, row) and either overtakes
    or the served one got the worker at this same instant: rows that arrive together compete for a free
    worker in one order, whatever the order of their events.
    """
    if q.waiting[worker] == 0:
        return False
    served, top = q.served[worker], q.queue[q.base[worker]]
    if served < 0:
        return True
    return bool((q.overtakes[top] or q.since[served] == now) and precedes(q.key, top, served))


@kernel
def _mark_due(q: Queues, now: int) -> None:
    """Mark the workers whose first queued row gets the worker now; O(W)."""
    for worker in range(len(q.served)):
        if _gets_worker(q, worker, now):
            _mark(q, worker)


@kernel
def _preempt(q: Queues, row: int, now: int) -> None:
    """Stop a running row that loses its worker; add the repeated work of a preemption."""
    _halt(q, row, now)
    q.left[row] += q.preemption_cost
    q.owed[row] += q.preemption_cost
    q.load[q.worker[row]] += q.preemption_cost
    _report(q, PREEMPT, row)


@kernel
def _choose(q: Queues, worker: int, now: int) -> None:
    """Let a marked worker serve the first row of its queue if that row gets the worker; O(log n)."""
    q.mark[worker] = False
    if not _gets_worker(q, worker, now):
        return
    served = q.served[worker]
    if served >= 0:
        if q.phase[served] != RUNNING:
            _report(q, DISPLACE, served)
        elif q.anchor[served] < now:
            _preempt(q, served, now)
        else:  # it began at this same instant: no progress, so no preemption to pay for
            _halt(q, served, now)
            _report(q, PAUSE, served)
            _report(q, DISPLACE, served)
        _leave(q, served)
        _enqueue(q, served)
    row = _dequeue(q, worker)
    _serve(q, row, now)
    _report(q, SERVE, row)


@kernel
def _keeps_claim(q: Queues, worker: int, now: int) -> bool:
    """Whether a worker has served its row, not done, since before now."""
    return bool(q.served[worker] >= 0 and q.since[q.served[worker]] < now)


@kernel
def _choose_all(q: Queues, settled: int, now: int) -> None:
    """Let marked workers choose the row they serve.

    The first ``settled`` of them were marked before this call of `advance`. On the others a row that has
    had the worker since before now keeps it for this call and the worker stays marked: the policy may
    change keys before the next call at the same instant, and a row that would get its worker back at once
    shall not lose it.
    """
    n, q.size[MARKED] = q.size[MARKED], 0
    for i in range(n):
        worker = q.marked[i]
        if i >= settled and _keeps_claim(q, worker, now):
            q.marked[q.size[MARKED]] = worker
            q.size[MARKED] += 1
        else:
            _choose(q, worker, now)


@kernel
def _heed_ps(q: Queues, now: int) -> None:
    """Restore the invariant that served rows run exactly while their job holds a parameter server.

    Only rows served since the last call (`fresh`) and rows of jobs whose parameter servers changed
    (`dirty`) can violate it.
    """
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
    """Remove a row in any phase but DONE, and mark its worker; O(log n)."""
    worker = q.worker[row]
    if q.phase[row] == UPLOADING:
        _end_upload(q, row)
    elif q.phase[row] == QUEUED:
        q.version[worker] += 1
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
    """Remove rows on workers that are ``gone``, (W,), as LOST, and rows of ``ended`` jobs, (J,).

    O(rows log n). Call `advance` at the same instant afterwards.
    """
    for row in range(q.size[ROWS]):
        if q.phase[row] != DONE and (gone[q.worker[row]] or ended[q.job[row]]):
            _drop(q, row, now)
            if gone[q.worker[row]]:
                _report(q, LOST, row)


@kernel
def _next_time(q: Queues, now: int) -> int:
    """Return the time of the next event; now if a worker or job is still marked; NEVER if there is none."""
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
    """Process all events of this instant into `Queues.event`; return the time of the next event.

    Order: completions, ends of uploads, choices of workers, starts and stops of progress. The loop repeats
    for chunks of length 0, which complete at once; each repetition completes one, so it ends. A chunk whose
    upload ends now may overtake in the next call at the same instant (`_choose_all`).
    """
    settled = q.size[MARKED]
    while True:
        _finish_due(q, now)
        _upload_due(q, now)
        _choose_all(q, settled, now)
        settled = 0
        _heed_ps(q, now)
        if q.size[CALENDAR] == 0 or q.finish[q.calendar[0]] > now:
            return _next_time(q, now)


@kernel
def _mark_if_there(q: Queues, row: int, now: int) -> None:
    """Mark the worker of a row without upload: it may overtake in this call.

    The policy that sent it knew which row has the worker, so no second call is needed.
    """
    if q.ready[row] <= now:
        _mark(q, q.worker[row])


@kernel
def add_rows(q: Queues, now: int, chunks: I64) -> int:
    """Add dispatched chunks, (n, 8) rows of `ray_sim.engine.sites.site.Commands`; there must be room.

    Returns the time of the next event, as do the functions below. O(n log n).
    """
    for i in range(len(chunks)):
        row = q.size[ROWS]
        q.size[ROWS] = row + 1
        q.worker[row], q.key[row] = chunks[i, 0], chunks[i, 1]
        q.job[row], q.unit[row] = chunks[i, 2], chunks[i, 3]
        q.ready[row], q.left[row] = chunks[i, 4], chunks[i, 5]
        q.overtakes[row], q.inverse_rate[row] = chunks[i, 6] != 0, chunks[i, 7]
        q.owed[row], q.anchor[row], q.since[row] = 0, 0, 0
        q.phase[row] = UPLOADING
        q.size[UPLOADS] = push(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
        link(q, q.coming, q.worker[row], row)
        _mark_if_there(q, row, now)
        q.load[q.worker[row]] += q.left[row]
        q.rows[q.worker[row]] += 1
    return _next_time(q, now)


@kernel
def _soil(q: Queues, job: int) -> None:
    """Note a job whose served rows may have to start or stop."""
    if not q.is_dirty[job]:
        q.is_dirty[job] = True
        q.dirty[q.size[DIRTY]] = job
        q.size[DIRTY] += 1


@kernel
def set_ps(q: Queues, now: int, placements: I64) -> int:
    """Set which jobs hold a parameter server from now on: (n, 2) rows job, 0 or 1; O(n)."""
    for i in range(len(placements)):
        job, holds = placements[i, 0], placements[i, 1] != 0
        if q.holds_ps[job] != holds:
            q.holds_ps[job] = holds
            if q.first[job] >= 0:
                _soil(q, job)
    return _next_time(q, now)


@kernel
def set_keys(q: Queues, now: int, jobs: I64, keys: I64) -> int:
    """Set the key of all chunks of each job; ``jobs`` is sorted. O(rows log n)."""
    for row in range(q.size[ROWS]):
        i = np.searchsorted(jobs, q.job[row])
        if q.phase[row] == DONE or i == len(jobs) or jobs[i] != q.job[row]:
            continue
        if q.phase[row] == QUEUED:
            worker = q.worker[row]
            q.version[worker] += 1
            rekey(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row, keys[i])
        else:
            q.key[row] = keys[i]
    _mark_due(q, now)
    return _next_time(q, now)


@kernel
def resume(q: Queues, now: int, phases: I64, anchors: I64, owed: I64, since: I64) -> int:
    """Restore the phases of rows from a snapshot.

    Before: set the parameter servers, and add the rows as of a time before any upload ends, so that all of
    them are in the phase UPLOADING.
    """
    for row in range(len(phases)):
        q.owed[row] = owed[row]
        if phases[row] == UPLOADING:
            _mark_if_there(q, row, now)
            continue
        _end_upload(q, row)
        if phases[row] == QUEUED:
            _enqueue(q, row)
            continue
        _serve(q, row, since[row])
        if phases[row] == RUNNING:
            _run(q, row, anchors[row])
        if q.holds_ps[q.job[row]] != (phases[row] == RUNNING):
            _soil(q, q.job[row])
    q.size[FRESH] = 0
    _mark_due(q, now)
    return _next_time(q, now)


@kernel
def loads_at(q: Queues, now: int, loads: I64) -> None:
    """Set ``loads``, (W,): work left now of all chunks dispatched to each worker, in its own time; O(W)."""
    for worker in range(len(loads)):
        loads[worker] = q.load[worker]
        row = q.served[worker]
        if row >= 0 and q.phase[row] == RUNNING:
            loads[worker] -= now - q.anchor[row]
