"""Increment of the objective by one more chunk on a worker: Q of A_online, and the dispatch by it.

Increments are multiplied by D, the chunks of the job, and rounded to whole microseconds:

    D Q = upload + waiting for faster chunks + own processing + D p x sum of phat' / (D' p') of slower ones

``phat'`` is the work left of another chunk when the new one's upload ends, if the worker proceeds without
the new chunk; a chunk that is in upload then counts whole, or not at all (``counted``). Faster chunks are
those before it in the queue, with a key that is not larger. ``D p`` is the inverse of a chunk's average
rate, the weight of a delay. The key equals D p where queues are ordered by rate; for a job close to its
deadline it is another number, so both are kept apart everywhere.

The worker is simulated up to the end of the upload (`worker_simulation`).

Source: Wang et al., Preemptive Scheduling for Distributed ML Jobs in Edge-Cloud Networks, IEEE JSAC 2022,
reformulation (4); docs/models/a_online.md#increment and docs/models/a_online.md#dispatch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.chunked.queue_state import DONE, ROWS, RUNNING
from ray_sim.kernels.chunked.worker_simulation import (
    FREE_ROW,
    TOUCHED,
    Plans,
    ReadQueues,
    add_touched,
    add_upload,
    begin,
    end_uploads,
    first_behind,
    simulate,
    sort_queue,
    weight_of,
)
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, NEVER
from ray_sim.kernels.core.heap import push, rekey, remove


class NewChunk(NamedTuple):
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


@kernel
def increment(
    q: ReadQueues, plans: Plans, worker: int, now: int, new: NewChunk, preempt: bool, counted: bool
) -> int:
    """Return D Q of a chunk on a worker, by its four terms, in microseconds.

    Equal chunks sent before it count as faster: each adds one length to its waiting. O(log n) beside the
    sort of a stale queue and the simulation up to the end of the upload (`simulate`).
    """
    if plans.version[worker] != q.version[worker]:
        sort_queue(q, plans, worker)
    begin(q, plans, worker)
    plan = simulate(q, plans, worker, now, new.ready, preempt)
    if counted:
        end_uploads(plans, NEVER)
    base, n = q.base[worker], q.waiting[worker]
    waiting, slower = 0, 0.0
    behind = first_behind(q, plans, worker, plan.head, new.key)
    if plan.head < n:
        waiting += plans.work_behind[base + plan.head]
    if behind < n:
        waiting -= plans.work_behind[base + behind]
        slower += plans.weight_behind[base + behind]
    if plan.served >= 0 and (preempt or (new.ready == now and q.since[plan.served] == now)):
        add_touched(plans, plan.served)
    elif plan.served >= 0:  # without preemption the served row ends first, whatever its key
        waiting += plans.left[plan.served]
    while plans.size[TOUCHED] > 0:  # in key order, so that the sum does not depend on the heap's layout
        row = plans.touched[0]
        plans.size[TOUCHED] = remove(
            plans.touched, 0, plans.size[TOUCHED], plans.position, plans.row_key, row
        )
        if plans.row_key[row] <= new.key:
            waiting += plans.left[row]
        else:
            slower += weight_of(plans.left[row], plans.row_inverse_rate[row])
    own = (new.before + 1) * new.length
    return int(new.ready - now + waiting + own + np.rint(new.inverse_rate * slower))


@kernel
def _cost(
    q: ReadQueues, plans: Plans, worker: int, now: int, new: NewChunk, more: int, preempt: bool
) -> float:
    """Return the cost of all chunks on a worker with ``more`` like the new one, simulated to the end."""
    begin(q, plans, worker)
    for row in range(plans.size[FREE_ROW], plans.size[FREE_ROW] + more):
        add_upload(plans, row, new.key, new.inverse_rate, new.ready, new.length)
    return simulate(q, plans, worker, now, NEVER, preempt).cost


@outlined
def exact_increment(q: ReadQueues, plans: Plans, worker: int, now: int, new: NewChunk, preempt: bool) -> int:
    """Return D times the change of F by a chunk on a worker: simulate to the end with and without it.

    F is the sum over chunks of (1 / D) (mean time of training - release + p / 2). `Plans` must have room for
    the new chunks as rows. O(n log n) for n chunks on the worker.
    """
    if new.length == 0:  # it delays no other chunk, and its rate is not defined
        return increment(q, plans, worker, now, new, preempt, False)
    if plans.version[worker] != q.version[worker]:
        sort_queue(q, plans, worker)
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
        beta[q.worker[row]] += weight_of(left, q.inverse_rate[row])


class Candidates(NamedTuple):
    """Workers to which chunks of one job may be sent, (n,) each, with the chunk's numbers there."""

    worker: I64
    length: I64
    key: I64
    inverse_rate: I64
    ready: I64
    before: I64
    """Number of chunks sent there so far."""
    rank: I64
    """The next chunk goes to the candidate with the smallest rank, of equals to the first."""
    heap: I64
    position: I64


class DispatchedChunks(NamedTuple):
    """Chunks dispatched at this instant, of which the queues do not know yet, in order; (n,) each."""

    worker: I64
    key: I64
    inverse_rate: I64
    """D p."""
    ready_us: I64
    """When the upload ends."""
    work_us: I64
    """Time on that worker."""

    @classmethod
    def none(cls) -> DispatchedChunks:
        """No chunks."""
        return cls(*np.empty((5, 0), dtype=np.int64))

    def plus(self, more: DispatchedChunks) -> DispatchedChunks:
        """Concatenate: the chunks of this object, then those of ``more``."""
        return DispatchedChunks(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


class ChosenWorkers(NamedTuple):
    """Workers that chunks of one job go to, in the order of dispatch; (m,) each."""

    worker: I64
    rank: I64
    """Rank of the worker when it was chosen, see `Candidates`."""
    increment: I64
    """D Q."""


# Rules by which each chunk is sent to a worker.
CHEAPEST, LEAST_LOADED, GIVEN_ORDER = range(3)
"""To the smallest increment; to the least work left; to the candidates in their order."""


@kernel
def _increment_of(
    q: ReadQueues,
    plans: Plans,
    of: Candidates,
    i: int,
    now: int,
    preempt: bool,
    exact: bool,
    counted: bool,
) -> int:
    """Return the increment of one more chunk on candidate i, exact or by the four terms."""
    new = NewChunk(of.length[i], of.key[i], of.inverse_rate[i], of.ready[i], of.before[i])
    if exact:
        return exact_increment(q, plans, of.worker[i], now, new, preempt)
    return increment(q, plans, of.worker[i], now, new, preempt, counted)


@kernel
def send(
    q: ReadQueues,
    plans: Plans,
    of: Candidates,
    rule: int,
    now: int,
    preempt: bool,
    exact: bool,
    counted: bool,
    chosen: ChosenWorkers,
) -> None:
    """Choose workers for the m chunks of one job, one after another; fill ``chosen``.

    Invariant of the loops: the heap holds the candidates by (rank, number). A chunk changes the rank of its
    own worker only, so the next worker is found in O(log n). By the four terms one chunk more raises D Q by
    exactly its length, so no query is repeated. `rank` is an input unless the rule is CHEAPEST.
    O((n + m) log n) beside the queries of increments: n for CHEAPEST, n + m if ``exact``, m for the other
    rules.
    """
    n = 0
    if rule != GIVEN_ORDER:
        for i in range(len(of.worker)):
            if rule == CHEAPEST:
                of.rank[i] = _increment_of(q, plans, of, i, now, preempt, exact, counted)
            n = push(of.heap, 0, n, of.position, of.rank, i)
    for turn in range(len(chosen.worker)):
        i = turn if rule == GIVEN_ORDER else of.heap[0]
        chosen.worker[turn], chosen.rank[turn], chosen.increment[turn] = of.worker[i], of.rank[i], of.rank[i]
        if rule != CHEAPEST:
            chosen.increment[turn] = _increment_of(q, plans, of, i, now, preempt, exact, counted)
        of.before[i] += 1
        if rule == LEAST_LOADED or (rule == CHEAPEST and not exact):
            rekey(of.heap, 0, n, of.position, of.rank, i, of.rank[i] + of.length[i])
        elif rule == CHEAPEST:
            rank = _increment_of(q, plans, of, i, now, preempt, exact, counted)
            rekey(of.heap, 0, n, of.position, of.rank, i, rank)


@kernel
def expect(q: ReadQueues, plans: Plans, chunks: DispatchedChunks) -> None:
    """Assume chunks to be dispatched, until `forget`; O(n)."""
    for i in range(len(chunks.worker)):
        row, worker = q.size[ROWS] + i, chunks.worker[i]
        plans.row_key[row], plans.row_inverse_rate[row] = chunks.key[i], chunks.inverse_rate[i]
        plans.ready[row], plans.work[row] = chunks.ready_us[i], chunks.work_us[i]
        plans.after[row] = plans.expected[worker]
        plans.expected[worker] = row
    plans.size[FREE_ROW] = q.size[ROWS] + len(chunks.worker)


@kernel
def forget(plans: Plans, chunks: DispatchedChunks) -> None:
    """Undo `expect` of the same chunks; O(n)."""
    for i in range(len(chunks.worker)):
        plans.expected[chunks.worker[i]] = -1
