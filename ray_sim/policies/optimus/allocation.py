"""Allocation of workers and parameter servers to jobs, by the marginal gain of one more task.

`drf_tasks` and `tetris_tasks` are allocations to compare with. They give pairs of a worker and a parameter
server, or single workers to all-reduce jobs; only the numbers are used, as Optimus places the tasks.

Source: Peng et al., Optimus, EuroSys 2018, section 4.1; docs/models/optimus.md#allocation.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, PARAMETER_SERVER, WORKER, Bool
from ray_sim.kernels.core.heap import settle
from ray_sim.kernels.elastic.alignment import balance, new_packing, pack
from ray_sim.kernels.elastic.dominant_shares import fill, new_filling
from ray_sim.kernels.elastic.least_loaded import new_loads
from ray_sim.kernels.elastic.server_tree import new_server_tree
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.shared.bundles import bundle_bound

TERMS = 7
"""Terms of the step time: 1/w, 1, w/p, w, p, 1/p and p/w; either speed model uses a part of them."""


class Claims(NamedTuple):
    """Jobs in the order of arrival with their estimates, (n,) each."""

    steps: F64
    """Q, steps left, >= 0."""
    time: F64
    """(n, TERMS) coefficients of the step time in seconds, >= 0."""
    demand: I64
    """(n, 2, R) demand of one worker and of one parameter server, in quanta."""
    cost: F64
    """(n, 2) divisor of the gain of a worker or a parameter server; 0 for tasks without demand."""
    most_workers: I64
    """>= 1."""
    with_ps: Bool
    """Whether the job needs parameter servers."""
    priority: F64
    """Factor of the gains, > 0."""


class GainHeap(NamedTuple):
    """Heap of jobs by their best gain, largest first; ties: parameter server before worker, then arrival."""

    job: I64
    """(n,) heap."""
    gain: F64
    """(n,)."""
    role: I64
    """(n,) role of the task with that gain."""


@kernel
def step_s(time: F64, workers: int, ps: int) -> float:
    """Return the seconds of a step; the coefficients with p are 0 for a job without parameter servers."""
    w, p = float(workers), float(max(ps, 1))
    return time[0] / w + time[1] + time[2] * w / p + time[3] * w + time[4] * p + time[5] / p + time[6] * p / w


@kernel
def steps_per_s(time: F64, tasks: I64, found: F64) -> None:
    """Set ``found``, (n,), to the steps per second of each job with ``tasks``, (n, 2); 0 without workers."""
    for job in range(len(tasks)):
        found[job] = 0.0
        if tasks[job, WORKER] > 0:
            found[job] = 1.0 / step_s(time[job], tasks[job, WORKER], tasks[job, PARAMETER_SERVER])


@kernel
def _per_cost(gain: float, cost: float) -> float:
    """Return gain / cost; a positive gain at no cost is infinite."""
    if cost > 0.0:
        return gain / cost
    return np.inf if gain > 0.0 else gain


@kernel
def find_gain(claims: Claims, tasks: I64, job: int, heap: GainHeap) -> None:
    """Set the job's gain and role: the better of one more worker and one more parameter server; O(1).

    The gain is the reduction of the remaining time, steps x step time, per cost and times priority.
    """
    workers, ps = tasks[job, WORKER], tasks[job, PARAMETER_SERVER]
    time, steps = claims.time[job], claims.steps[job]
    now = steps * step_s(time, workers, ps)
    heap.gain[job], heap.role[job] = -1.0, WORKER
    # Parameter servers without demand could be added without end: at most one per worker.
    if claims.with_ps[job] and (claims.cost[job, PARAMETER_SERVER] > 0.0 or ps < workers):
        gain = now - steps * step_s(time, workers, ps + 1)
        heap.gain[job] = _per_cost(gain, claims.cost[job, PARAMETER_SERVER]) * claims.priority[job]
        heap.role[job] = PARAMETER_SERVER
    if workers < claims.most_workers[job]:
        gain = now - steps * step_s(time, workers + 1, ps)
        gain = _per_cost(gain, claims.cost[job, WORKER]) * claims.priority[job]
        if gain > heap.gain[job]:
            heap.gain[job], heap.role[job] = gain, WORKER


@kernel
def _before(heap: GainHeap, a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b`` in the heap."""
    if heap.gain[a] != heap.gain[b]:
        return heap.gain[a] > heap.gain[b]
    if heap.role[a] != heap.role[b]:
        return heap.role[a] == PARAMETER_SERVER
    return a < b


@kernel
def take(left: I64, demand: I64, tasks: I64) -> bool:
    """Subtract ``tasks``, (2,), from ``left``, (R,), if there is room; return whether there was."""
    workers, ps = tasks[WORKER], tasks[PARAMETER_SERVER]
    for r in range(len(left)):
        if workers * demand[WORKER, r] + ps * demand[PARAMETER_SERVER, r] > left[r]:
            return False
    for r in range(len(left)):
        left[r] -= workers * demand[WORKER, r] + ps * demand[PARAMETER_SERVER, r]
    return True


@outlined
def allocate(claims: Claims, left: I64, tasks: I64, one: I64, heap: GainHeap) -> None:
    """Allocate the free capacity of all servers together.

    Each job first gets one task of each role it needs, in order, up to the first job without room. Then the
    task with the largest gain is added until that gain is not positive or the task does not fit. The gains
    of a job depend on its own numbers only, so an entry of the heap is stale only after the job itself got
    a task. O((n + tasks) (R + log n)).

    Parameters
    ----------
    left : (R,) free quanta, reduced
    tasks : (n, 2) set to workers and parameter servers
    one : (2,) work space
    """
    n = 0
    while n < len(claims.steps):
        tasks[n, WORKER] = one[WORKER] = 1
        tasks[n, PARAMETER_SERVER] = one[PARAMETER_SERVER] = 1 if claims.with_ps[n] else 0
        if not take(left, claims.demand[n], one):
            tasks[n:, :] = 0
            break
        find_gain(claims, tasks, n, heap)
        heap.job[n] = n
        n += 1
    for at in range(n // 2 - 1, -1, -1):  # build the heap bottom up, O(n)
        settle(heap.job, at, n, _before, heap)
    while n > 0:
        job = heap.job[0]
        if heap.gain[job] <= 0.0:
            break
        role = heap.role[job]
        one[WORKER], one[PARAMETER_SERVER] = 0, 0
        one[role] = 1
        if not take(left, claims.demand[job], one):
            break
        tasks[job, role] += 1
        find_gain(claims, tasks, job, heap)
        settle(heap.job, 0, n, _before, heap)


Normalise = Literal["share", "amount"]


def costs(demand: IntArray, pool: IntArray, quanta: IntArray, normalise: Normalise) -> FloatArray:
    """(n, 2) divisors of the gains of a task: its dominant resource, as a share or as an amount.

    The paper divides by the amount. Amounts of several resources do not compare (8 GB and 2 GPUs), shares do;
    with one resource both order tasks equally.

    Parameters
    ----------
    demand : (n, 2, R) quanta of a worker and of a parameter server
    pool : (R,) quanta of all servers together; a resource with none of it dominates all others
    quanta : (R,) quanta per unit of each resource
    """
    share = np.divide(demand, pool, out=np.where(demand > 0, np.inf, 0.0), where=pool > 0)
    if normalise == "share":
        largest: FloatArray = share.max(axis=2)
        return largest
    dominant = share.argmax(axis=2)[:, :, None]
    amount: FloatArray = np.take_along_axis(demand / quanta, dominant, axis=2)[:, :, 0]
    return amount


def marginal_gains(claims: Claims, pool: IntArray) -> IntArray:
    """(n, 2) workers and parameter servers of each job; 0 and 0 where the pool does not hold one of each.

    Parameters
    ----------
    pool : (R,) quanta to allocate
    """
    n = len(claims.steps)
    tasks = np.zeros((n, 2), dtype=np.int64)
    heap = GainHeap(np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64))
    allocate(claims, pool.copy(), tasks, np.empty(2, np.int64), heap)
    return tasks


def drf_tasks(claims: Claims, pool: IntArray, left: IntArray) -> IntArray:
    """(n, 2) tasks by progressive filling of the pool: pairs to the job with the smallest dominant share.

    Parameters
    ----------
    claims : of at least one job
    pool : (R,) quanta that shares refer to
    left : (R,) quanta to allocate
    """
    filling = new_filling(_pair(claims), claims.most_workers, pool, bundles=0)
    filling.pool[:] = left
    no_servers, nothing = np.empty(0, dtype=np.int64), np.empty((0, len(pool)), dtype=np.int64)
    fill(filling, new_loads(new_server_tree(no_servers, nothing, nothing, pool)), pooled=True, stop=False)
    return _tasks(claims, filling.got)


def tetris_tasks(claims: Claims, asked: IntArray, capacity: IntArray, room: IntArray) -> IntArray:
    """(n, 2) tasks by packing: pairs where they fit best, short jobs first, at most as many as asked for.

    The remaining time of a job is that of one pair, by its estimates.

    Parameters
    ----------
    claims : of at least one job
    asked : (n,) workers
    capacity, room : (S, R) quanta of the servers, and the part of them to allocate
    """
    kind = np.hstack([capacity, room])
    grouped = np.lexsort(kind.T)  # equal servers next to each other, in index order
    capacity, room, kind = capacity[grouped], room[grouped], kind[grouped]
    demand, most = _pair(claims), np.maximum(np.minimum(asked, claims.most_workers), 1)
    pair_s = claims.steps * claims.time.sum(axis=1)  # with one of each, every term is its coefficient
    tree = new_server_tree(grouped, capacity, room, demand.min(axis=0))
    packing = new_packing(demand, most, pair_s, tree, bundle_bound(demand, most, capacity.sum(axis=0)))
    _, first, count = np.unique(kind, axis=0, return_index=True, return_counts=True)
    pack(packing, balance(packing, first, count))
    return _tasks(claims, packing.got)


def _pair(claims: Claims) -> IntArray:
    """(n, R) quanta."""
    of_ps = claims.with_ps[:, None] * claims.demand[:, PARAMETER_SERVER]
    pair: IntArray = claims.demand[:, WORKER] + of_ps
    return pair


def _tasks(claims: Claims, pairs: IntArray) -> IntArray:
    return np.stack([pairs, pairs * claims.with_ps], axis=1)
