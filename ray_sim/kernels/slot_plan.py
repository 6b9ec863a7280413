"""Costs of slots put together: the dynamic programme over quanta of work, and the least cost of all slots."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel, outlined


@outlined
def extend(before: F64, of_slot: F64, after: F64, choice: I64) -> None:
    """Least cost of k quanta with one slot more, and how many of them are done in it, the fewest of equals.

    Parameters
    ----------
    before, after : (K + 1,)
    of_slot : (most + 1,) cost of a slot that does so many quanta, 0 for none
    choice : (K + 1,)
    """
    for k in range(len(before)):
        after[k], choice[k] = before[k], 0
        for j in range(1, min(k, len(of_slot) - 1) + 1):
            cost = of_slot[j] + before[k - j]
            if cost < after[k]:
                after[k], choice[k] = cost, j


@kernel
def _merge(slope: F64, length: F64, size: int, start: int, end: int, slopes: F64, lengths: F64) -> int:
    """Segments ``start`` to ``end`` into those of a pool that is sorted by slope, from behind."""
    at, a, b = size + end - start - 1, size - 1, end - 1
    while b >= start:
        if a >= 0 and slopes[a] > slope[b]:
            slopes[at], lengths[at] = slopes[a], lengths[a]
            a -= 1
        else:
            slopes[at], lengths[at] = slope[b], length[b]
            b -= 1
        at -= 1
    return size + end - start


@outlined
def bound_costs(
    ptr: I64, slope: F64, length: F64, state: I64, needed: F64, slopes: F64, lengths: F64, bound: F64
) -> None:
    """Least cost of ``needed`` workers in the first 1, 2, .. slots, in fractions; inf where they do not fit.

    The cheapest segments of all slots together, each convex: an infimal convolution.

    Parameters
    ----------
    ptr : segments ``ptr[i]`` to ``ptr[i + 1]`` are those of state i, sorted by slope
    state : (n,) of each slot
    needed : (1,) workers, over all slots
    slopes, lengths : working space, for the segments of all slots
    """
    size = 0
    for slot in range(len(state)):
        size = _merge(slope, length, size, ptr[state[slot]], ptr[state[slot] + 1], slopes, lengths)
        left, cost, k = needed[0], 0.0, 0
        while k < size and left > 0.0:
            taken = min(lengths[k], left)
            cost += taken * slopes[k]
            left -= taken
            k += 1
        size = k
        bound[slot] = cost if left <= 1e-9 * max(1.0, needed[0]) else np.inf
