"""Advance of the chunk queues to an instant: completions, ends of uploads, choices of workers, progress."""

from __future__ import annotations

from ray_sim.kernels.chunked.queue_state import (
    CALENDAR,
    COMPLETE,
    DISPLACE,
    DONE,
    MARKED,
    PAUSE,
    PS_CHANGED,
    RUNNING,
    SERVE,
    UPLOADS,
    Queues,
    report,
)
from ray_sim.kernels.chunked.row_progress import follow_ps, halt, preempt
from ray_sim.kernels.chunked.worker_queues import (
    dequeue,
    end_upload,
    enqueue,
    gets_worker,
    leave_worker,
    mark_worker,
    serve,
)
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import NEVER


@kernel
def _finish_due(q: Queues, now: int) -> None:
    """Complete rows that finish now, in the order of the calendar, and mark their workers; O(log n) each."""
    while q.size[CALENDAR] > 0 and q.finish[q.calendar[0]] <= now:
        row = q.calendar[0]
        halt(q, row, now)
        leave_worker(q, row)
        q.phase[row] = DONE
        q.rows[q.worker[row]] -= 1
        report(q, COMPLETE, row)
        mark_worker(q, q.worker[row])


@kernel
def _upload_due(q: Queues, now: int) -> None:
    """Move rows whose upload has ended to their worker's queue, or to a worker on demand; O(log n) each."""
    while q.size[UPLOADS] > 0 and q.ready[q.uploads[0]] <= now:
        row = q.uploads[0]
        end_upload(q, row)
        if q.on_demand[q.worker[row]]:
            serve(q, row, now)
            report(q, SERVE, row)
        else:
            enqueue(q, row)
            mark_worker(q, q.worker[row])


@kernel
def _choose(q: Queues, worker: int, now: int) -> None:
    """Let a marked worker serve the first row of its queue if that row gets the worker; O(log n)."""
    q.mark[worker] = False
    if not gets_worker(q, worker, now):
        return
    served = q.served[worker]
    if served >= 0:
        if q.phase[served] != RUNNING:
            report(q, DISPLACE, served)
        elif q.anchor[served] < now:
            preempt(q, served, now)
        else:  # it began at this same instant: no progress, so no preemption to pay for
            halt(q, served, now)
            report(q, PAUSE, served)
            report(q, DISPLACE, served)
        leave_worker(q, served)
        enqueue(q, served)
    row = dequeue(q, worker)
    serve(q, row, now)
    report(q, SERVE, row)


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
    shall not lose it. O(log n) for each marked worker.
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
def next_time(q: Queues, now: int) -> int:
    """Return the time of the next event; now if a worker or job is still marked; NEVER if there is none."""
    if q.size[PS_CHANGED] > 0 or q.size[MARKED] > 0:
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

    Order: completions, ends of uploads, choices of workers, starts and stops of progress. Invariant after
    each repetition: a row runs exactly if it is served and its job holds a parameter server. The loop repeats
    for chunks of length 0, which complete at once; each repetition completes one, so it ends. A chunk whose
    upload ends now may overtake in the next call at the same instant (`_choose_all`). O(log n) per event.
    """
    settled = q.size[MARKED]
    while True:
        _finish_due(q, now)
        _upload_due(q, now)
        _choose_all(q, settled, now)
        settled = 0
        follow_ps(q, now)
        if q.size[CALENDAR] == 0 or q.finish[q.calendar[0]] > now:
            return next_time(q, now)
