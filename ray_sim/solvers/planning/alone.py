"""Test whether a job alone in an empty cluster can end by the horizon.

All slots are equal then, so the job ends in time if the most samples that one slot can train, times the
number of slots, are enough. This is a question about whole workers and parameter servers on finite servers.
"""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import IntArray, tolerant_ceil
from ray_sim.solvers.planning.market import MarketCapacity
from ray_sim.solvers.planning.slot_job import SlotJob


def ends_alone(job: SlotJob, cluster: MarketCapacity) -> bool:
    """Whether some schedule of whole tasks ends before slot T on an empty cluster; exact.

    Assumption: tasks on one server train no slower than tasks on several.
    """
    kinds, servers = np.unique(cluster.capacity, axis=0, return_counts=True)
    slots = len(job.utility)
    inside = job.workers_in_each(slots, on_one_server=True)
    if inside <= job.most_workers and any(_together(job, kind[None], [1], inside) for kind in kinds):
        return True
    outside = job.workers_in_each(slots, on_one_server=False)
    return outside <= job.most_workers and _together(job, kinds, servers.tolist(), outside)


def _together(job: SlotJob, kinds: IntArray, servers: list[int], workers: int) -> bool:
    """Whether this number of workers and their parameter servers fit on empty servers.

    Complexity: at most O(workers^2 log servers) per kind, if neither of two simpler tests decides.

    Parameters
    ----------
    kinds : (K, R) quanta
    servers : number of servers of each of K kinds
    """
    ps = tolerant_ceil(workers / job.workers_per_ps)
    beside = [_ps_beside(job, capacity, workers, ps) for capacity in kinds]
    pairs = list(zip(beside, servers, strict=True))
    if sum((len(of_kind) - 1) * n for of_kind, n in pairs) < workers:
        return False
    if sum(int(of_kind[0]) * n for of_kind, n in pairs) < ps:
        return False
    most = np.zeros(1, dtype=np.int64)
    for of_kind, n in pairs:
        most = _side_by_side(most, _times(of_kind, n, workers), workers)
    return len(most) > workers and int(most[workers]) >= ps


def _ps_beside(job: SlotJob, capacity: IntArray, workers: int, ps: int) -> IntArray:
    """(m + 1,) parameter servers, at most ``ps``, that fit beside 0 .. m workers on a server that holds m."""
    some = job.worker_demand > 0
    m = min([workers, *(capacity[some] // job.worker_demand[some]).tolist()])
    left = capacity - np.outer(np.arange(m + 1), job.worker_demand)
    some = job.ps_demand > 0
    fit: IntArray = np.min(left[:, some] // job.ps_demand[some], axis=1, initial=ps)
    return fit


def _side_by_side(one: IntArray, other: IntArray, workers: int) -> IntArray:
    """Most parameter servers on two sets of servers together with 0, 1, .. workers."""
    short, long = sorted((one, other), key=len)
    size = min(len(short) + len(long) - 1, workers + 1)
    most = np.zeros(size, dtype=np.int64)
    for here, ps in enumerate(short[:size].tolist()):
        there = long[: size - here]
        np.maximum(most[here : here + len(there)], ps + there, out=most[here : here + len(there)])
    return most


def _times(of_one: IntArray, servers: int, workers: int) -> IntArray:
    """Most parameter servers on a number of equal servers, by doubling."""
    most, power = np.zeros(1, dtype=np.int64), of_one
    while servers:
        if servers & 1:
            most = _side_by_side(most, power, workers)
        servers >>= 1
        if servers:
            power = _side_by_side(power, power, workers)
    return most
