"""Increment of the objective by one more chunk on a worker: Q of Wang et al. (A_online), JSAC 2022.

Increments are multiplied by D, the chunks of the job, and rounded to whole microseconds:

    D Q = upload + waiting for faster chunks + own processing + D p x sum of phat' / (D' p') of slower ones

``phat'`` is the work left of another chunk when the new one's upload ends, as far as it has been uploaded
by then, if the worker proceeds without the new chunk. Faster chunks are those before it in the queue, with
a key that is not larger. ``D p`` is the inverse of a chunk's average rate, the weight of a delay. The key
equals D p where queues are ordered by rate; for a job close to its deadline it is another number, so both
are kept apart everywhere.

Method: a copy of a worker's queue is sorted when a query finds it stale, with suffix sums of work and of
work / (D p). The worker is then simulated up to the end of the upload, which touches few chunks. Floats are
summed in a fixed order, untouched chunks from the last, then touched ones from the first, so the result
does not depend on how the queue was built.

Kernels here do not write to `Queues`; their state is in `Plans`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.chunked.chunks import DONE, ROWS, RUNNING, Queues
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I8, I64, NEVER, empty
from ray_sim.kernels.core.heap import precedes, push, rekey, remove


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
    coming: I64
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
    """(N,) place in the heap that holds the row: `coming` or `touched`."""
    coming: I64
    """Heap of rows in upload, by end of upload."""
    touched: I64
    """Heap of waiting rows that are not at their place in the sorted queue, by key."""
    expected: I64
    """(W,) head of the list of rows that are assumed sent to a worker (`expect`), -1 for none."""
    after: I64
    """(N,) the next row in that list, -1 for none."""
    size: I64
    """(3,) rows in `coming`, rows in `touched`, first free row."""


class Newcomer(NamedTuple):
    """A chunk that may be sent to a worker."""

    length: int
    """Microseconds on that worker."""
    key: int
    """Its order in the queue there: smaller is served first."""
    inverse_rate: int
    """D p."""
    ready: int
    """Time at which its upload ends."""
    before: int
    """Number of equal chunks sent there before it."""


class Plan(NamedTuple):
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
        coming=np.empty(rows, np.int64),
        touched=np.empty(rows, np.int64),
        expected=empty(workers, -1),
        after=np.empty(rows, np.int64),
        size=np.zeros(3, np.int64),
    )


@kernel
def _weight(work: int, inverse_rate: int) -> float:
    """Return work / (D p); 0 for chunks of length 0, whose only work repeats what preemptions cost."""
    return work / inverse_rate if inverse_rate > 0 else 0.0


@outlined
def _sort(q: ReadQueues, plans: Plans, worker: int) -> None:
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
        weight += _weight(q.left[row], q.inverse_rate[row])
        plans.work_behind[base + place], plans.weight_behind[base + place] = work, weight
    plans.version[worker] = q.version[worker]


@kernel
def _await(plans: Plans, row: int, key: int, inverse_rate: int, ready: int, left: int) -> None:
    """Add a row in upload to the simulation."""
    plans.row_key[row], plans.row_inverse_rate[row] = key, inverse_rate
    plans.ready[row], plans.left[row] = ready, left
    plans.size[0] = push(plans.coming, 0, plans.size[0], plans.position, plans.ready, row)


@kernel
def _wait(plans: Plans, row: int) -> None:
    """Add a row to the heap of touched rows."""
    plans.size[1] = push(plans.touched, 0, plans.size[1], plans.position, plans.row_key, row)


@kernel
def _admit(plans: Plans, now: int) -> None:
    """Move rows whose upload has ended to the heap of touched rows."""
    while plans.size[0] > 0 and plans.ready[plans.coming[0]] <= now:
        row = plans.coming[0]
        plans.size[0] = remove(plans.coming, 0, plans.size[0], plans.position, plans.ready, row)
        _wait(plans, row)


@outlined
def _go_on(q: ReadQueues, plans: Plans, worker: int, now: int, until: int, preempt: bool) -> Plan:
    """Simulate a worker up to ``until``, with the rows in `Plans.coming` and no other, and without stalls.

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
        _admit(plans, at)
        # The worker changes rows if it is idle, may be preempted, or got its row at this very instant.
        if served < 0 or preempt or (at == now and q.since[served] == now):
            best = plans.row[base + head] if head < n else -1
            if plans.size[1] > 0 and (best < 0 or precedes(plans.row_key, plans.touched[0], best)):
                best = plans.touched[0]
            if best >= 0 and (served < 0 or precedes(plans.row_key, best, served)):
                if served >= 0:
                    _wait(plans, served)
                served = best
                if head < n and best == plans.row[base + head]:
                    head += 1
                    plans.left[best] = q.left[best]
                else:
                    plans.size[1] = remove(
                        plans.touched, 0, plans.size[1], plans.position, plans.row_key, best
                    )
        following = min(until, plans.ready[plans.coming[0]]) if plans.size[0] > 0 else until
        if served >= 0:  # work done in [at, at + lasts] has the mean time at + lasts / 2
            lasts = min(plans.left[served], following - at)
            cost += (at - now + 0.5 * lasts) * _weight(lasts, plans.row_inverse_rate[served])
            plans.left[served] -= lasts
            following = at + lasts
            if plans.left[served] == 0:
                served = -1
        at = following
    _admit(plans, until)
    return Plan(head, served, cost)


@kernel
def _list_coming(q: ReadQueues, plans: Plans, worker: int) -> None:
    """Begin a simulation: rows in upload to the worker, real and expected ones."""
    plans.size[0] = plans.size[1] = 0
    row = q.coming[worker]
    while row >= 0:
        _await(plans, row, q.key[row], q.inverse_rate[row], q.ready[row], q.left[row])
        row = q.after[row]
    row = plans.expected[worker]
    while row >= 0:
        key, inverse_rate = plans.row_key[row], plans.row_inverse_rate[row]
        _await(plans, row, key, inverse_rate, plans.ready[row], plans.work[row])
        row = plans.after[row]


@kernel
def _first_behind(q: ReadQueues, plans: Plans, worker: int, head: int, key: int) -> int:
    """Return the first place of a sorted queue, from ``head`` on, with a larger key; O(log n)."""
    base, low, high = q.base[worker], head, q.waiting[worker]
    while low < high:
        middle = (low + high) >> 1
        if plans.key[base + middle] > key:
            high = middle
        else:
            low = middle + 1
    return low


@outlined
def increment(q: ReadQueues, plans: Plans, worker: int, now: int, new: Newcomer, preempt: bool) -> int:
    """Return D Q of a chunk on a worker, by its four terms, in microseconds.

    Equal chunks sent before it count as faster: each adds one length to its waiting. O(log n) beside the
    sort of a stale queue and the simulation up to the end of the upload (`_go_on`).
    """
    if plans.version[worker] != q.version[worker]:
        _sort(q, plans, worker)
    _list_coming(q, plans, worker)
    plan = _go_on(q, plans, worker, now, new.ready, preempt)
    base, n = q.base[worker], q.waiting[worker]
    waiting, slower = 0, 0.0
    behind = _first_behind(q, plans, worker, plan.head, new.key)
    if plan.head < n:
        waiting += plans.work_behind[base + plan.head]
    if behind < n:
        waiting -= plans.work_behind[base + behind]
        slower += plans.weight_behind[base + behind]
    if plan.served >= 0 and (preempt or (new.ready == now and q.since[plan.served] == now)):
        _wait(plans, plan.served)
    elif plan.served >= 0:  # without preemption the served row ends first, whatever its key
        waiting += plans.left[plan.served]
    while plans.size[1] > 0:
        row = plans.touched[0]
        plans.size[1] = remove(plans.touched, 0, plans.size[1], plans.position, plans.row_key, row)
        if plans.row_key[row] <= new.key:
            waiting += plans.left[row]
        else:
            slower += _weight(plans.left[row], plans.row_inverse_rate[row])
    own = (new.before + 1) * new.length
    return int(new.ready - now + waiting + own + np.rint(new.inverse_rate * slower))


@kernel
def _cost(
    q: ReadQueues, plans: Plans, worker: int, now: int, new: Newcomer, more: int, preempt: bool
) -> float:
    """Return the cost of all chunks on a worker with ``more`` like the new one, simulated to the end."""
    _list_coming(q, plans, worker)
    for row in range(plans.size[2], plans.size[2] + more):
        _await(plans, row, new.key, new.inverse_rate, new.ready, new.length)
    return _go_on(q, plans, worker, now, NEVER, preempt).cost


@outlined
def exact_increment(q: ReadQueues, plans: Plans, worker: int, now: int, new: Newcomer, preempt: bool) -> int:
    """Return D times the change of F by a chunk on a worker: simulate to the end with and without it.

    F is the sum over chunks of (1 / D) (mean time of training - release + p / 2). `Plans` must have room for
    the new chunks as rows. O(n log n) for n chunks on the worker.
    """
    if new.length == 0:  # it delays no other chunk, and its rate is not defined
        return increment(q, plans, worker, now, new, preempt)
    if plans.version[worker] != q.version[worker]:
        _sort(q, plans, worker)
    without = _cost(q, plans, worker, now, new, new.before, preempt)
    with_it = _cost(q, plans, worker, now, new, new.before + 1, preempt)
    return int(np.rint(new.inverse_rate / new.length * (with_it - without) + 0.5 * new.length))


@kernel
def betas(q: ReadQueues, now: int, beta: F64) -> None:
    """Add to each worker's beta of the paper, (W,): sum over its chunks of work left / (D p); O(rows)."""
    for row in range(q.size[ROWS]):
        if q.phase[row] == DONE:
            continue
        left = q.left[row]
        if q.phase[row] == RUNNING:
            left -= now - q.anchor[row]
        beta[q.worker[row]] += _weight(left, q.inverse_rate[row])


class Candidates(NamedTuple):
    """Workers to which chunks of one job may be sent, (n,) each, with the chunk's numbers there."""

    worker: I64
    length: I64
    key: I64
    inverse_rate: I64
    before: I64
    """Number of chunks sent there so far."""
    rank: I64
    """The next chunk goes to the candidate with the smallest rank, of equals to the first."""
    heap: I64
    position: I64


# Rules by which each chunk is sent to a worker.
CHEAPEST, LEAST_LOADED, IN_TURN = range(3)
"""To the smallest increment; to the least work left; to the candidates in their order."""


@kernel
def _increment_of(
    q: ReadQueues, plans: Plans, of: Candidates, i: int, now: int, ready: int, preempt: bool, exact: bool
) -> int:
    """Return the increment of one more chunk on candidate i, exact or by the four terms."""
    new = Newcomer(of.length[i], of.key[i], of.inverse_rate[i], ready, of.before[i])
    if exact:
        return exact_increment(q, plans, of.worker[i], now, new, preempt)
    return increment(q, plans, of.worker[i], now, new, preempt)


@kernel
def send(
    q: ReadQueues,
    plans: Plans,
    of: Candidates,
    rule: int,
    now: int,
    ready: int,
    preempt: bool,
    exact: bool,
    sent: I64,
) -> None:
    """Send the chunks of one job one after another; fill ``sent``, (m, 3) rows worker, rank, increment.

    Invariant: a chunk changes the rank of its own worker only, so a heap of ranks yields the next worker in
    O(log n). By the four terms one chunk more raises D Q by exactly its length, so no query is repeated.
    `rank` is an input unless the rule is CHEAPEST. O((n + m) log n) beside the queries of increments: n for
    CHEAPEST, n + m if ``exact``, m for the other rules.
    """
    n = 0
    if rule != IN_TURN:
        for i in range(len(of.worker)):
            if rule == CHEAPEST:
                of.rank[i] = _increment_of(q, plans, of, i, now, ready, preempt, exact)
            n = push(of.heap, 0, n, of.position, of.rank, i)
    for turn in range(len(sent)):
        i = turn if rule == IN_TURN else of.heap[0]
        sent[turn, 0], sent[turn, 1], sent[turn, 2] = of.worker[i], of.rank[i], of.rank[i]
        if rule != CHEAPEST:
            sent[turn, 2] = _increment_of(q, plans, of, i, now, ready, preempt, exact)
        of.before[i] += 1
        if rule == LEAST_LOADED or (rule == CHEAPEST and not exact):
            rekey(of.heap, 0, n, of.position, of.rank, i, of.rank[i] + of.length[i])
        elif rule == CHEAPEST:
            rank = _increment_of(q, plans, of, i, now, ready, preempt, exact)
            rekey(of.heap, 0, n, of.position, of.rank, i, rank)


@kernel
def expect(q: ReadQueues, plans: Plans, chunks: I64) -> None:
    """Count chunks, (n, 5) rows worker, key, D p, ready, work, as dispatched until `forget`; O(n)."""
    for i in range(len(chunks)):
        row, worker = q.size[ROWS] + i, chunks[i, 0]
        plans.row_key[row], plans.row_inverse_rate[row] = chunks[i, 1], chunks[i, 2]
        plans.ready[row], plans.work[row] = chunks[i, 3], chunks[i, 4]
        plans.after[row] = plans.expected[worker]
        plans.expected[worker] = row
    plans.size[2] = q.size[ROWS] + len(chunks)


@kernel
def forget(plans: Plans, chunks: I64) -> None:
    """Undo `expect` of the same chunks."""
    for i in range(len(chunks)):
        plans.expected[chunks[i, 0]] = -1
