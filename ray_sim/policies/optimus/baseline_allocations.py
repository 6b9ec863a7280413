"""Allocations of DRF and Tetris, for comparison with that of Optimus.

They give pairs of a worker and a parameter server, or single workers to all-reduce jobs. Only the numbers
are used: Optimus places the tasks.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.elastic.alignment import balance, new_packing, pack
from ray_sim.kernels.elastic.dominant_shares import fill, new_filling
from ray_sim.kernels.elastic.least_loaded import new_loads
from ray_sim.kernels.elastic.server_tree import new_server_tree
from ray_sim.model.units import IntArray
from ray_sim.policies.optimus.allocation import Claims
from ray_sim.policies.shared.bundles import bundle_bound
from ray_sim.policy_api import PARAMETER_SERVER, WORKER


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
