"""What one more chunk costs on each worker: the increment Q of Wang et al. (A_online), JSAC 2022.

All increments are times the chunks of the job, D, and in whole microseconds, so that they are integers:

    D Q = upload + waiting for faster chunks + own processing + D p x sum of phat' / (D' p') of slower ones

``phat'`` is what is left, when the upload ends, of a chunk that has been uploaded by then, if the worker
goes on as it would without the new one. ``D p`` is the key of a chunk in the queue: that of faster ones is
not larger.

A worker's queue is sorted when it is asked about and has changed, with sums over all that is behind each
place; then only the chunks that it touches until the upload ends are gone through. A sum of phat' / (D' p')
is always formed alike: the untouched ones from the last on, then the touched ones from the first on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import F64, I64, NEVER
from ray_sim.kernels.chunks import DONE, ROWS, RUNNING, Queues, link, unlink
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.heap import precedes, push, rekey, remove


class Plans(NamedTuple):
    """What is known of sorted queues, and room for the plan of one worker. N rows, K places of queues."""

    key: I64
    """(K,) of the row at a place of a sorted queue; looking for a place reads memory in a row."""
    work_behind: I64
    weight_behind: F64
    """(K,) work left, and that over the key, of the row at a place of a sorted queue and all behind it."""
    left: I64
    """(N,) work left of a touched row as the plan goes on."""
    position: I64
    """(N,) place in the one of the next two heaps that holds the row."""
    coming: I64
    """Rows that are being uploaded, by the end of that."""
    touched: I64
    """Rows that wait and are not at their place in the queue, by key."""
    size: I64
    """Rows in `coming`, in `touched`; the first row that is free."""


class Newcomer(NamedTuple):
    """A chunk that may be sent to a worker."""

    length: int
    """Microseconds on that worker."""
    key: int
    ready: int
    """When its upload ends."""
    before: int
    """How many like it are sent there before it."""


class Plan(NamedTuple):
    """Where a worker is at some time to come."""

    head: int
    """Rows of the queue that have been served."""
    served: int
    """The row that has the worker, -1 for none."""
    cost: float
    """Sum over what was trained of microseconds x time since now, over keys."""


def new_plans(rows: int, places: int) -> Plans:
    """Room for so many rows, and places in queues."""
    return Plans(
        key=np.empty(places, np.int64),
        work_behind=np.empty(places, np.int64),
        weight_behind=np.empty(places, np.float64),
        left=np.empty(rows, np.int64),
        position=np.empty(rows, np.int64),
        coming=np.empty(rows, np.int64),
        touched=np.empty(rows, np.int64),
        size=np.zeros(3, np.int64),
    )


@kernel
def _weight(work: int, key: int) -> float:
    """What is left over D p; keys that are not D p are 0 or less, and nothing counts as slower than those."""
    return work / key if key > 0 else 0.0


@outlined
def _sort(q: Queues, plans: Plans, worker: int) -> None:
    """Sort a worker's queue and sum up what is behind each place of it."""
    base, n = q.base[worker], q.waiting[worker]
    left = n
    while left > 0:
        row = q.queue[base]
        left = remove(q.queue, base, left, q.position, q.key, row)
        plans.touched[n - left - 1] = row
    work, weight = 0, 0.0
    for place in range(n - 1, -1, -1):
        row = plans.touched[place]
        q.queue[base + place], q.position[row] = row, place
        plans.key[base + place] = q.key[row]
        work += q.left[row]
        weight += _weight(q.left[row], q.key[row])
        plans.work_behind[base + place], plans.weight_behind[base + place] = work, weight
    q.in_order[worker] = True


@kernel
def _await(q: Queues, plans: Plans, row: int) -> None:
    plans.left[row] = q.left[row]
    plans.size[0] = push(plans.coming, 0, plans.size[0], plans.position, q.ready, row)


@kernel
def _wait(q: Queues, plans: Plans, row: int) -> None:
    plans.size[1] = push(plans.touched, 0, plans.size[1], plans.position, q.key, row)


@kernel
def _admit(q: Queues, plans: Plans, now: int) -> None:
    """Rows whose upload ends wait for the worker."""
    while plans.size[0] > 0 and q.ready[plans.coming[0]] <= now:
        row = plans.coming[0]
        plans.size[0] = remove(plans.coming, 0, plans.size[0], plans.position, q.ready, row)
        _wait(q, plans, row)


@outlined
def _go_on(q: Queues, plans: Plans, worker: int, now: int, until: int, preempt: bool) -> Plan:
    """The worker at ``until`` if nothing is sent to it but what is in `Plans.coming`, and no job stalls.

    Uploads that end at ``until`` have ended; who gets a worker that is idle then is open.
    """
    base, n = q.base[worker], q.waiting[worker]
    head, served, cost, at = 0, q.served[worker], 0.0, now
    if served >= 0:
        plans.left[served] = q.left[served]
        if q.phase[served] == RUNNING:
            plans.left[served] -= now - q.anchor[served]
    while at < until:
        _admit(q, plans, at)
        if served < 0 or preempt:
            best = q.queue[base + head] if head < n else -1
            if plans.size[1] > 0 and (best < 0 or precedes(q.key, plans.touched[0], best)):
                best = plans.touched[0]
            if best >= 0 and (served < 0 or precedes(q.key, best, served)):
                if served >= 0:
                    _wait(q, plans, served)
                served = best
                if head < n and best == q.queue[base + head]:
                    head += 1
                    plans.left[best] = q.left[best]
                else:
                    plans.size[1] = remove(plans.touched, 0, plans.size[1], plans.position, q.key, best)
        following = min(until, q.ready[plans.coming[0]]) if plans.size[0] > 0 else until
        if served >= 0:
            lasts = min(plans.left[served], following - at)
            cost += (at - now + 0.5 * lasts) * _weight(lasts, q.key[served])
            plans.left[served] -= lasts
            following = at + lasts
            if plans.left[served] == 0:
                served = -1
        at = following
    _admit(q, plans, until)
    return Plan(head, served, cost)


@kernel
def _list_coming(q: Queues, plans: Plans, worker: int) -> None:
    plans.size[0] = plans.size[1] = 0
    row = q.coming[worker]
    while row >= 0:
        _await(q, plans, row)
        row = q.after[row]


@kernel
def _first_behind(q: Queues, plans: Plans, worker: int, head: int, key: int) -> int:
    """The first place of a sorted queue, from ``head`` on, whose key is larger."""
    base, low, high = q.base[worker], head, q.waiting[worker]
    while low < high:
        middle = (low + high) >> 1
        if plans.key[base + middle] > key:
            high = middle
        else:
            low = middle + 1
    return low


@outlined
def increment(q: Queues, plans: Plans, worker: int, now: int, new: Newcomer, preempt: bool) -> int:
    """D Q of a chunk on a worker, by the four terms, in microseconds.

    Those like it that come before it are as fast as it is, and wait as long as it does.
    """
    if not q.in_order[worker]:
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
    if plan.served >= 0 and preempt:
        _wait(q, plans, plan.served)
    elif plan.served >= 0:  # it goes first whatever its key (C5)
        waiting += plans.left[plan.served]
    while plans.size[1] > 0:
        row = plans.touched[0]
        plans.size[1] = remove(plans.touched, 0, plans.size[1], plans.position, q.key, row)
        if q.key[row] <= new.key:
            waiting += plans.left[row]
        else:
            slower += _weight(plans.left[row], q.key[row])
    own = (new.before + 1) * new.length
    return int(new.ready - now + waiting + own + np.rint(new.key * slower))


@kernel
def _cost(q: Queues, plans: Plans, worker: int, now: int, new: Newcomer, more: int, preempt: bool) -> float:
    """What all chunks on a worker cost with ``more`` like the new one."""
    _list_coming(q, plans, worker)
    for row in range(plans.size[2], plans.size[2] + more):
        q.key[row], q.ready[row], q.left[row] = new.key, new.ready, new.length
        _await(q, plans, row)
    return _go_on(q, plans, worker, now, NEVER, preempt).cost


@outlined
def exact_increment(q: Queues, plans: Plans, worker: int, now: int, new: Newcomer, preempt: bool) -> int:
    """D times the change of F by a chunk on a worker, by going on to the end with and without it.

    F is the sum over chunks of (1 / D) (mean time of training - release + p / 2). There must be room for
    the new ones as rows.
    """
    if new.key <= 0:  # of no length: it delays nobody
        return increment(q, plans, worker, now, new, preempt)
    if not q.in_order[worker]:
        _sort(q, plans, worker)
    without = _cost(q, plans, worker, now, new, new.before, preempt)
    with_it = _cost(q, plans, worker, now, new, new.before + 1, preempt)
    return int(np.rint(new.key / new.length * (with_it - without) + 0.5 * new.length))


@kernel
def betas(q: Queues, now: int, beta: F64) -> None:
    """(W,) add to each worker's beta, as the paper calls it: over its chunks, what is left over D p."""
    for row in range(q.size[ROWS]):
        if q.phase[row] == DONE:
            continue
        left = q.left[row]
        if q.phase[row] == RUNNING:
            left -= now - q.anchor[row]
        beta[q.worker[row]] += _weight(left, q.key[row])


class Candidates(NamedTuple):
    """Workers to which chunks of one job may be sent, (n,) each, and the chunk there."""

    worker: I64
    length: I64
    key: I64
    before: I64
    """How many have been sent there."""
    rank: I64
    """What is smallest where the next one goes, ties to the first candidate."""
    heap: I64
    position: I64


# How chunks are sent, each time to one worker.
CHEAPEST, LEAST_LOADED, IN_TURN = range(3)
"""To that with the smallest increment; with the least work left; to the candidates as they are listed."""


@kernel
def _increment_of(
    q: Queues, plans: Plans, of: Candidates, i: int, now: int, ready: int, preempt: bool, exact: bool
) -> int:
    new = Newcomer(of.length[i], of.key[i], ready, of.before[i])
    if exact:
        return exact_increment(q, plans, of.worker[i], now, new, preempt)
    return increment(q, plans, of.worker[i], now, new, preempt)


@kernel
def send(
    q: Queues,
    plans: Plans,
    of: Candidates,
    rule: int,
    now: int,
    ready: int,
    preempt: bool,
    exact: bool,
    sent: I64,
) -> None:
    """Send chunks of one job, one after another: ``sent``, (m, 3) rows worker, rank and increment there then.

    Only the rank of the worker chosen last changes, and it grows: so a heap has the next one. `rank` is
    given, but where the rule is CHEAPEST.
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
def expect(q: Queues, plans: Plans, chunks: I64) -> None:
    """Chunks as if they had been dispatched: (n, 4) worker, key, ready, work. `forget` them again."""
    for i in range(len(chunks)):
        row = q.size[ROWS] + i
        worker = chunks[i, 0]
        q.key[row], q.ready[row], q.left[row] = chunks[i, 1], chunks[i, 2], chunks[i, 3]
        link(q, q.coming, worker, row)
    plans.size[2] = q.size[ROWS] + len(chunks)


@kernel
def forget(q: Queues, chunks: I64) -> None:
    """The opposite of `expect`."""
    for i in range(len(chunks) - 1, -1, -1):
        unlink(q, q.coming, chunks[i, 0], q.size[ROWS] + i)
