"""Simulation of one worker from now on, without changing its queue.

A copy of a worker's queue is sorted when a query finds it stale, with suffix sums of work and of work /
(D p). A simulation then visits only the chunks that change before its end (touched chunks). Floats are summed
in a fixed order, untouched chunks from the last, then touched ones from the first, so the result does not
depend on how the queue was built.

Source: Wang et al. (A_online), JSAC 2022, quantities of the increment; docs/models/a_online.md#increment.
The simulation is ours. Kernels here do not write to `Queues`; their state is in `Plans`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.chunked.queue_state import RUNNING, Queues
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I8, I64, empty
from ray_sim.kernels.core.heap import precedes, push, remove

# Entries of `Plans.size`.
IN_UPLOAD, TOUCHED, FREE_ROW = range(3)


class ReadQueues(NamedTuple):
    """Arrays of `Queues` that queries read.

    A call copies the header of each array of a group: passing all of `Queues` would take several times as
    long as the query.
    """

    worker: I64
    key: I64
    inverse_rate: I64
    ready: I64
    since: I64
    left: I64
    anchor: I64
    phase: I8
    after: I64
    served: I64
    base: I64
    waiting: I64
    in_upload: I64
    version: I64
    queue: I64
    size: I64

    @classmethod
    def of(cls, q: Queues) -> ReadQueues:
        """Return the group of the same arrays."""
        return cls(*(getattr(q, name) for name in cls._fields))


class Plans(NamedTuple):
    """Sorted copies of the queues, and work space to simulate one worker.

    K places of queues, W workers, N rows: those of the queues, then chunks that are not dispatched.
    """

    row: I64
    key: I64
    """(K,) row at a place of a sorted queue, and its key, side by side for the binary search."""
    work_behind: I64
    weight_behind: F64
    """(K,) suffix sums of a sorted queue: work left, and work left / (D p), from a place to the end."""
    version: I64
    """(W,) `Queues.version` of the sorted copy, -1 if there is none."""
    row_key: I64
    row_inverse_rate: I64
    ready: I64
    """(N,) key, D p and end of upload of a row in the simulation."""
    work: I64
    """(N,) work of an expected row."""
    left: I64
    """(N,) work left of a touched row in the simulation."""
    position: I64
    """(N,) place in the heap that holds the row: `in_upload` or `touched`."""
    in_upload: I64
    """Heap of rows in upload, by end of upload."""
    touched: I64
    """Heap of waiting rows that are not at their place in the sorted queue, by key."""
    expected: I64
    """(W,) head of the list of rows that are assumed sent to a worker (`expect`), -1 for none."""
    after: I64
    """(N,) the next row in that list, -1 for none."""
    size: I64
    """(3,) rows in `in_upload`, rows in `touched`, first free row: see `IN_UPLOAD`, `TOUCHED`, `FREE_ROW`."""


class WorkerState(NamedTuple):
    """State of a worker at a future time."""

    head: int
    """Number of rows of the sorted queue that have been served."""
    served: int
    """The row that has the worker, -1 for none."""
    cost: float
    """Sum over trained work of (time since now) / (D p): the integral of the objective."""


def new_plans(rows: int, places: int, workers: int) -> Plans:
    """Return empty plans for these numbers of rows, places in queues, and workers."""
    return Plans(
        row=np.empty(places, np.int64),
        key=np.empty(places, np.int64),
        work_behind=np.empty(places, np.int64),
        weight_behind=np.empty(places, np.float64),
        version=empty(workers, -1),
        row_key=np.empty(rows, np.int64),
        row_inverse_rate=np.empty(rows, np.int64),
        ready=np.empty(rows, np.int64),
        work=np.empty(rows, np.int64),
        left=np.empty(rows, np.int64),
        position=np.empty(rows, np.int64),
        in_upload=np.empty(rows, np.int64),
        touched=np.empty(rows, np.int64),
        expected=empty(workers, -1),
        after=np.empty(rows, np.int64),
        size=np.zeros(3, np.int64),
    )


@kernel
def weight_of(work: int, inverse_rate: int) -> float:
    """Return work / (D p), the weight of a delay.

    It is 0 for chunks of length 0, whose only work repeats what preemptions cost.
    """
    return work / inverse_rate if inverse_rate > 0 else 0.0


@outlined
def sort_queue(q: ReadQueues, plans: Plans, worker: int) -> None:
    """Heapsort a copy of a worker's queue and form the suffix sums; O(n log n)."""
    base, n = q.base[worker], q.waiting[worker]
    for place in range(n):
        row = q.queue[base + place]
        plans.row[base + place], plans.position[row] = row, place
        plans.row_key[row], plans.row_inverse_rate[row] = q.key[row], q.inverse_rate[row]
    left = n
    while left > 0:
        row = plans.row[base]
        left = remove(plans.row, base, left, plans.position, plans.row_key, row)
        plans.touched[n - left - 1] = row
    work, weight = 0, 0.0
    for place in range(n - 1, -1, -1):
        row = plans.touched[place]
        plans.row[base + place] = row
        plans.key[base + place] = q.key[row]
        work += q.left[row]
        weight += weight_of(q.left[row], q.inverse_rate[row])
        plans.work_behind[base + place], plans.weight_behind[base + place] = work, weight
    plans.version[worker] = q.version[worker]


@kernel
def add_upload(plans: Plans, row: int, key: int, inverse_rate: int, ready: int, left: int) -> None:
    """Add a row in upload to the simulation; O(log n)."""
    plans.row_key[row], plans.row_inverse_rate[row] = key, inverse_rate
    plans.ready[row], plans.left[row] = ready, left
    plans.size[IN_UPLOAD] = push(plans.in_upload, 0, plans.size[IN_UPLOAD], plans.position, plans.ready, row)


@kernel
def add_touched(plans: Plans, row: int) -> None:
    """Add a row to the heap of touched rows; O(log n)."""
    plans.size[TOUCHED] = push(plans.touched, 0, plans.size[TOUCHED], plans.position, plans.row_key, row)


@kernel
def end_uploads(plans: Plans, now: int) -> None:
    """Move rows whose upload has ended to the heap of touched rows; O(log n) each."""
    while plans.size[IN_UPLOAD] > 0 and plans.ready[plans.in_upload[0]] <= now:
        row = plans.in_upload[0]
        plans.size[IN_UPLOAD] = remove(
            plans.in_upload, 0, plans.size[IN_UPLOAD], plans.position, plans.ready, row
        )
        add_touched(plans, row)


@kernel
def begin(q: ReadQueues, plans: Plans, worker: int) -> None:
    """Begin a simulation with the rows in upload to the worker, real and expected ones; O(n log n) for n."""
    plans.size[IN_UPLOAD] = plans.size[TOUCHED] = 0
    row = q.in_upload[worker]
    while row >= 0:
        add_upload(plans, row, q.key[row], q.inverse_rate[row], q.ready[row], q.left[row])
        row = q.after[row]
    row = plans.expected[worker]
    while row >= 0:
        key, inverse_rate = plans.row_key[row], plans.row_inverse_rate[row]
        add_upload(plans, row, key, inverse_rate, plans.ready[row], plans.work[row])
        row = plans.after[row]


@kernel
def simulate(q: ReadQueues, plans: Plans, worker: int, now: int, until: int, preempt: bool) -> WorkerState:
    """Simulate a worker up to ``until``, with the rows in `Plans.in_upload` and no other, and without stalls.

    Uploads that end at ``until`` have ended in the result; an idle worker is not yet given to one of them.

    Invariant of the loop: waiting rows are the sorted queue from ``head`` on and the heap of touched rows;
    the next one is the smaller of both heads. Each iteration ends an upload or a chunk, or reaches
    ``until``, so the cost is O((uploads + chunks ended) log n), independent of the rest of the queue.
    """
    base, n = q.base[worker], q.waiting[worker]
    head, served, cost, at = 0, q.served[worker], 0.0, now
    if served >= 0:
        plans.row_key[served], plans.row_inverse_rate[served] = q.key[served], q.inverse_rate[served]
        plans.left[served] = q.left[served]
        if q.phase[served] == RUNNING:
            plans.left[served] -= now - q.anchor[served]
    while at < until:
        end_uploads(plans, at)
        # The worker changes rows if it is idle, may be preempted, or got its row at this very instant.
        if served < 0 or preempt or (at == now and q.since[served] == now):
            best = plans.row[base + head] if head < n else -1
            if plans.size[TOUCHED] > 0 and (best < 0 or precedes(plans.row_key, plans.touched[0], best)):
                best = plans.touched[0]
            if best >= 0 and (served < 0 or precedes(plans.row_key, best, served)):
                if served >= 0:
                    add_touched(plans, served)
                served = best
                if head < n and best == plans.row[base + head]:
                    head += 1
                    plans.left[best] = q.left[best]
                else:
                    plans.size[TOUCHED] = remove(
                        plans.touched, 0, plans.size[TOUCHED], plans.position, plans.row_key, best
                    )
        following = min(until, plans.ready[plans.in_upload[0]]) if plans.size[IN_UPLOAD] > 0 else until
        if served >= 0:  # work done in [at, at + lasts] has the mean time at + lasts / 2
            lasts = min(plans.left[served], following - at)
            cost += (at - now + 0.5 * lasts) * weight_of(lasts, plans.row_inverse_rate[served])
            plans.left[served] -= lasts
            following = at + lasts
            if plans.left[served] == 0:
                served = -1
        at = following
    end_uploads(plans, until)
    return WorkerState(head, served, cost)


@kernel
def first_behind(q: ReadQueues, plans: Plans, worker: int, head: int, key: int) -> int:
    """Return the first place of a sorted queue, from ``head`` on, with a larger key; O(log n)."""
    base, low, high = q.base[worker], head, q.waiting[worker]
    while low < high:
        middle = (low + high) >> 1
        if plans.key[base + middle] > key:
            high = middle
        else:
            low = middle + 1
    return low
