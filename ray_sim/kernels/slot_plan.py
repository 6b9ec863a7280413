"""Costs of slots put together: the dynamic programme over quanta of work, and the least cost of all slots."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.slot_walk import UNSOLVED, Paths


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
def _merge(paths: Paths, slot: int, size: int, slopes: F64, lengths: F64) -> int:
    """The steps of a slot into a pool of such that is sorted by slope, from behind: the size of the pool."""
    first, end = paths.ptr[slot], paths.ptr[slot + 1]
    at, a, b = size + end - first - 1, size - 1, end - 1
    while b >= first:
        if a >= 0 and slopes[a] > paths.slope[b]:
            slopes[at], lengths[at] = slopes[a], lengths[a]
            a -= 1
        else:
            before = paths.reach[b - 1] if b > first else 0.0
            slopes[at], lengths[at] = paths.slope[b], paths.reach[b] - before
            b -= 1
        at -= 1
    return size + end - first


@outlined
def bound_costs(
    paths: Paths,
    ending: I64,
    state: I64,
    needed: float,
    most: float,
    slopes: F64,
    lengths: F64,
    bound: F64,
) -> None:
    """Least cost of ``needed`` workers in the first 1, 2, .. slots, in fractions; inf where they do not fit.

    The cheapest steps of all slots together: of convex costs, the infimal convolution. What is not known of
    slots is taken to cost nothing.

    Parameters
    ----------
    ending : of each path
    state : (n,) the path of each slot
    most : workers in a slot
    slopes, lengths : working space, for the steps of all slots
    """
    size, unknown = 0, 0.0
    for slot in range(len(state)):
        if ending[state[slot]] == UNSOLVED:
            unknown += most
        else:
            size = _merge(paths, state[slot], size, slopes, lengths)
        left, cost, k = needed - unknown, 0.0, 0
        while k < size and left > 0.0:
            taken = min(lengths[k], left)
            cost += taken * slopes[k]
            left -= taken
            k += 1
        size = k if left <= 0.0 else size
        bound[slot] = cost if left <= 1e-9 * max(1.0, needed) else np.inf
