"""Progressive filling (DRF): give one bundle after another to the job with the smallest dominant share.

The dominant share of a job is its largest share of any resource. Shares are compared exactly, as fractions
of integers (`product_above`), so equal shares tie.

Source: Ghodsi et al., Dominant Resource Fairness, NSDI 2011, Algorithm 1; docs/models/baselines.md#drf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.heap import settle
from ray_sim.kernels.elastic.least_loaded import Loads, least_loaded, take


class Filling(NamedTuple):
    """One round of n jobs; ties go to the job of lower number."""

    demand: I64
    """(n, R) quanta of a bundle, < 2**62."""
    most: I64
    """(n,) bundles that a job can use, >= 1."""
    total: I64
    """(R,) quanta that shares refer to, < 2**62."""
    got: I64
    """(n,) bundles given so far."""
    dominant: I64
    """(n,) dominant resource: the one of which a bundle is the largest share."""
    heap: I64
    """(n,) heap of jobs in the round, smallest dominant share at the root."""
    pool: I64
    """(R,) quanta left of the total."""
    job: I64
    """Job of each placed bundle, in the order of filling."""
    server: I64
    """Server of each placed bundle, by its number in the cluster."""


def new_filling(demand: I64, most: I64, total: I64, bundles: int) -> Filling:
    """Return a round without bundles given, with room for ``bundles`` placed ones."""
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
    """Set the dominant resource of each job; ties go to the lower resource. O(n R).

    Resources with a total of 0 are skipped: a job that demands one gets no bundle in any case.
    """
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
    """Whether job ``a`` has a smaller dominant share than job ``b``, or the same and a lower number."""
    r, q = filling.dominant[a], filling.dominant[b]
    held_a, held_b = filling.got[a] * filling.demand[a, r], filling.got[b] * filling.demand[b, q]
    order = product_above(held_a, filling.total[q], held_b, filling.total[r])
    return bool(order < 0 or (order == 0 and a < b))


@kernel
def _in_pool(filling: Filling, job: int) -> bool:
    """Whether the pool of all servers holds one more bundle of a job."""
    for r in range(len(filling.pool)):
        if filling.pool[r] < filling.demand[job, r]:
            return False
    return True


@kernel
def fill(filling: Filling, loads: Loads, pooled: bool, stop: bool) -> int:
    """Give bundles until no job in the round can have another; return the number of placed bundles.

    A bundle goes to the least loaded server that holds it. A job whose next bundle does not fit leaves the
    round, or ends the round for all with ``stop``. With ``pooled`` a bundle fits if the sum of free
    capacity holds it, so bundles may be given that are not placed; a tree without servers places none.

    Invariant of the loop: the first n heap entries are the jobs in the round, ordered by dominant share.
    Capacity only shrinks, so a job that has left cannot return. O(R + log n) and one search of the tree
    per bundle.
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
        settle(filling.heap, 0, n, _precedes, filling)
    return placed


_HALF = 31
_LOW = 2**_HALF - 1


@kernel
def product_above(a: int, b: int, c: int, d: int) -> int:
    """Return the sign of a b - c d, for 0 <= a, b, c, d < 2**62.

    Each product is split into high x 2**62 + low with low < 2**62; the parts are compared in turn.
    """
    high_ab, low_ab = _product(a, b)
    high_cd, low_cd = _product(c, d)
    if high_ab != high_cd:
        return 1 if high_ab > high_cd else -1
    if low_ab != low_cd:
        return 1 if low_ab > low_cd else -1
    return 0


@kernel
def _product(a: int, b: int) -> tuple[int, int]:
    """Return the high and the low part; factors split at 31 bits keep intermediate values below 2**63."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + a_low * b_high
    low = a_low * b_low + ((middle & _LOW) << _HALF)
    return a_high * b_high + (middle >> _HALF) + (low >> (2 * _HALF)), low & (2 ** (2 * _HALF) - 1)
