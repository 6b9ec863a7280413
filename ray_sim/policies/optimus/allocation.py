"""Allocation of workers and parameter servers by marginal gain.

Source: Peng et al., Optimus, EuroSys 2018, section 4.1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation_kernels import Claims, GainHeap, allocate

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
