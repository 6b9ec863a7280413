"""Steps of a row on its worker: end of upload, entry to the queue, getting and losing the worker.

A worker serves the uploaded row with the smallest (key, row). Steps that report nothing leave that to the
caller.

Source: Wang et al. (A_online), JSAC 2022, queues by average rate;
docs/models/a_online.md#order-on-a-worker.
"""

from __future__ import annotations

from ray_sim.kernels.chunked.queue_state import MARKED, NEWLY_SERVED, QUEUED, SERVED, UPLOADS, Queues
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.heap import precedes, push, remove


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
def end_upload(q: Queues, row: int) -> None:
    """Remove a row from the heap and the list of uploads; O(log n)."""
    q.size[UPLOADS] = remove(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
    unlink(q, q.in_upload, q.worker[row], row)


@outlined
def enqueue(q: Queues, row: int) -> None:
    """Add a row to the queue of its worker; O(log n)."""
    worker = q.worker[row]
    q.phase[row] = QUEUED
    q.version[worker] += 1
    q.waiting[worker] = push(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)


@outlined
def dequeue(q: Queues, worker: int) -> int:
    """Remove and return the first row of a worker's queue; O(log n)."""
    row = q.queue[q.base[worker]]
    q.version[worker] += 1
    q.waiting[worker] = remove(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)
    return row


@kernel
def serve(q: Queues, row: int, now: int) -> None:
    """Give a row its worker; O(1). `row_progress.follow_ps` decides whether it runs."""
    job, worker = q.job[row], q.worker[row]
    q.phase[row] = SERVED
    q.since[row] = now
    if not q.on_demand[worker]:
        q.served[worker] = row
    link(q, q.first_served, job, row)
    q.newly_served[q.size[NEWLY_SERVED]] = row
    q.size[NEWLY_SERVED] += 1


@kernel
def leave_worker(q: Queues, row: int) -> None:
    """Take the worker from a served row that does not run; O(1)."""
    if not q.on_demand[q.worker[row]]:
        q.served[q.worker[row]] = -1
    unlink(q, q.first_served, q.job[row], row)


@kernel
def gets_worker(q: Queues, worker: int, now: int) -> bool:
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
def mark_worker(q: Queues, worker: int) -> None:
    """Let a worker choose its row in this instant (`instants`); a second mark has no effect."""
    if not q.mark[worker]:
        q.mark[worker] = True
        q.marked[q.size[MARKED]] = worker
        q.size[MARKED] += 1


@kernel
def mark_due(q: Queues, now: int) -> None:
    """Mark the workers whose first queued row gets the worker now; O(W)."""
    for worker in range(len(q.served)):
        if gets_worker(q, worker, now):
            mark_worker(q, worker)
