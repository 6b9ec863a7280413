"""How many workers and parameter servers each job gets: the largest gain of one more task comes first.

Source: Peng et al., Optimus, EuroSys 2018, section 4.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import F64, I64, PARAMETER_SERVER, WORKER, Bool
from ray_sim.kernels.compile import kernel, outlined

TERMS = 7
"""The time of a step adds up multiples of 1/w, 1, w/p, w, p, 1/p and p/w: these are in either speed model."""


class Claims(NamedTuple):
    """Jobs in the order of their arrival, (n,) each, and what is estimated of them."""

    steps: F64
    """Q, steps left, >= 0."""
    time: F64
    """(n, TERMS) seconds of a step in these terms, >= 0."""
    demand: I64
    """(n, 2, R) quanta of one worker and of one parameter server."""
    cost: F64
    """(n, 2) what the gain of a worker or a parameter server is divided by; 0 for tasks that take nothing."""
    most_workers: I64
    """>= 1."""
    with_ps: Bool
    """Whether the job needs parameter servers."""
    priority: F64
    """What gains are multiplied by, > 0."""


class GainHeap(NamedTuple):
    """Jobs by their best gain, largest first; ties: parameter servers before workers, then by arrival."""

    job: I64
    """(n,) heap."""
    gain: F64
    """(n,)."""
    role: I64
    """(n,) of the task that brings the gain."""


@kernel
def step_s(time: F64, workers: int, ps: int) -> float:
    """Seconds of a step with these numbers; a job without parameter servers has no terms with p."""
    w, p = float(workers), float(max(ps, 1))
    return time[0] / w + time[1] + time[2] * w / p + time[3] * w + time[4] * p + time[5] / p + time[6] * p / w


@kernel
def steps_per_s(time: F64, tasks: I64, found: F64) -> None:
    """Steps per second of each job with these (n, 2) tasks, into ``found``; 0 without workers."""
    for job in range(len(tasks)):
        found[job] = 0.0
        if tasks[job, WORKER] > 0:
            found[job] = 1.0 / step_s(time[job], tasks[job, WORKER], tasks[job, PARAMETER_SERVER])


@kernel
def _per_cost(gain: float, cost: float) -> float:
    if cost > 0.0:
        return gain / cost
    return np.inf if gain > 0.0 else gain


@kernel
def find_gain(claims: Claims, tasks: I64, job: int, heap: GainHeap) -> None:
    """The better of one more worker and one more parameter server."""
    workers, ps = tasks[job, WORKER], tasks[job, PARAMETER_SERVER]
    time, steps = claims.time[job], claims.steps[job]
    now = steps * step_s(time, workers, ps)
    heap.gain[job], heap.role[job] = -1.0, WORKER
    # Parameter servers that take nothing are given as many as there are workers, not without end.
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
    if heap.gain[a] != heap.gain[b]:
        return heap.gain[a] > heap.gain[b]
    if heap.role[a] != heap.role[b]:
        return heap.role[a] == PARAMETER_SERVER
    return a < b


@kernel
def _sift_down(heap: GainHeap, n: int, at: int) -> None:
    job = heap.job[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and _before(heap, heap.job[child + 1], heap.job[child]):
            child += 1
        if not _before(heap, heap.job[child], job):
            break
        heap.job[at] = heap.job[child]
        at = child
    heap.job[at] = job


@kernel
def take(left: I64, demand: I64, tasks: I64) -> bool:
    """Take so many tasks of each role out of what is left, if it holds them."""
    workers, ps = tasks[WORKER], tasks[PARAMETER_SERVER]
    for r in range(len(left)):
        if workers * demand[WORKER, r] + ps * demand[PARAMETER_SERVER, r] > left[r]:
            return False
    for r in range(len(left)):
        left[r] -= workers * demand[WORKER, r] + ps * demand[PARAMETER_SERVER, r]
    return True


@outlined
def allocate(claims: Claims, skip: bool, left: I64, tasks: I64, one: I64, heap: GainHeap) -> None:
    """Share out what is ``left``, (R,) quanta of all servers together.

    Each job first gets the least that it needs, in order; then the best task is added until it gains nothing,
    or does not fit: its job is then left out, with ``skip``, or all is over. A job's gains depend on its own
    numbers only, so one entry for each job is exact. O((n + tasks) log n).

    Parameters
    ----------
    tasks : (n, 2) out: workers and parameter servers
    one : (2,) working space
    """
    n = 0
    for job in range(len(claims.steps)):
        tasks[job, WORKER] = one[WORKER] = 1
        tasks[job, PARAMETER_SERVER] = one[PARAMETER_SERVER] = 1 if claims.with_ps[job] else 0
        if take(left, claims.demand[job], one):
            find_gain(claims, tasks, job, heap)
            heap.job[n] = job
            n += 1
            continue
        tasks[job, :] = 0
        if not skip:
            tasks[job:, :] = 0
            break
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(heap, n, at)
    while n > 0:
        job = heap.job[0]
        if heap.gain[job] <= 0.0:
            break
        role = heap.role[job]
        one[WORKER], one[PARAMETER_SERVER] = 0, 0
        one[role] = 1
        if take(left, claims.demand[job], one):
            tasks[job, role] += 1
            find_gain(claims, tasks, job, heap)
        elif skip:
            n -= 1
            heap.job[0] = heap.job[n]
        else:
            break
        if n > 0:
            _sift_down(heap, n, 0)
