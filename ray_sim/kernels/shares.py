"""Progressive filling: one bundle after another to the job with the smallest dominant share.

Shares are compared exactly, as fractions of integers.

Source: Ghodsi et al., Dominant Resource Fairness, NSDI 2011, Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import I64
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.least_loaded import Loads, least_loaded, take
from ray_sim.kernels.wide import product_above


class Filling(NamedTuple):
    """One round: n jobs, in the order that breaks ties."""

    demand: I64
    """(n, R) quanta of a bundle, < 2**62."""
    most: I64
    """(n,) bundles that a job can use, >= 1."""
    total: I64
    """(R,) quanta of which shares are taken, < 2**62."""
    got: I64
    """(n,) bundles given so far."""
    dominant: I64
    """(n,) resource of which a bundle is the largest share."""
    heap: I64
    """(n,) jobs still in the round, the smallest share on top."""
    pool: I64
    """(R,) quanta left of the total."""
    job: I64
    """Of each bundle placed, in the order of filling."""
    server: I64
    """Of each bundle placed, its number in the tree."""


def new_filling(demand: I64, most: I64, total: I64, bundles: int) -> Filling:
    """Nothing given; room for so many bundles."""
    n = len(most)
    return Filling(
        demand=demand,
        most=most,
        total=total,
        got=np.zeros(n, dtype=np.int64),
        dominant=np.zeros(n, dtype=np.int64),
        heap=np.arange(n),
        pool=total.copy(),
        job=np.empty(bundles, dtype=np.int64),
        server=np.empty(bundles, dtype=np.int64),
    )


@kernel
def _find_dominant(filling: Filling) -> None:
    """Resources of which there is nothing do not count: a job that demands them gets no bundle."""
    for j in range(len(filling.most)):
        best = 0
        for r in range(1, len(filling.total)):
            offered, of_best = filling.total[r], filling.total[best]
            larger = product_above(filling.demand[j, r], of_best, filling.demand[j, best], offered) > 0
            if offered > 0 and (of_best == 0 or larger):
                best = r
        filling.dominant[j] = best


@kernel
def _precedes(filling: Filling, a: int, b: int) -> bool:
    """Whether job ``a`` has a smaller share than job ``b``, or the same and comes earlier."""
    r, q = filling.dominant[a], filling.dominant[b]
    held_a, held_b = filling.got[a] * filling.demand[a, r], filling.got[b] * filling.demand[b, q]
    order = product_above(held_a, filling.total[q], held_b, filling.total[r])
    return bool(order < 0 or (order == 0 and a < b))


@kernel
def _sift_down(filling: Filling, n: int) -> None:
    """Put the job on top where it belongs among the first n of the heap."""
    at, job = 0, filling.heap[0]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _precedes(filling, filling.heap[child + 1], filling.heap[child]):
            child += 1
        if not _precedes(filling, filling.heap[child], job):
            break
        filling.heap[at] = filling.heap[child]
        at = child
    filling.heap[at] = job


@kernel
def _in_pool(filling: Filling, job: int) -> bool:
    for r in range(len(filling.pool)):
        if filling.pool[r] < filling.demand[job, r]:
            return False
    return True


@kernel
def fill(filling: Filling, loads: Loads, pooled: bool, stop: bool) -> int:
    """Give bundles until no job in the round can have another; returns how many are placed.

    Each goes to the least loaded server that holds it. A job whose next bundle fits nowhere leaves the
    round, or ends it for all (``stop``). With ``pooled`` it fits if the pool holds it, so more may be given
    than are placed; a tree without servers places none.

    O(R) plus a search of the tree and O(log n) comparisons for each bundle.
    """
    _find_dominant(filling)
    n, placed = len(filling.most), 0  # at share 0 the order of jobs is a heap
    while n > 0:
        job = filling.heap[0]
        demand = filling.demand[job]
        k = least_loaded(loads, demand)
        fits = _in_pool(filling, job) if pooled else k >= 0
        if not fits and stop:
            break
        if fits:
            filling.got[job] += 1
            for r in range(len(demand)):
                filling.pool[r] -= demand[r]
        if fits and k >= 0:
            take(loads, k, demand)
            filling.job[placed], filling.server[placed] = job, loads.tree.server[k]
            placed += 1
        if not fits or filling.got[job] == filling.most[job]:
            n -= 1
            filling.heap[0] = filling.heap[n]
        _sift_down(filling, n)
    return placed
