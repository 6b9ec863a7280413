"""Cost of work over several slots: a dynamic programme over parts of the work, and a lower bound.

Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems (dynamic
programme over slots and parts of the work, there quanta), docs/models/pd_ors.md#schedule; the bound is ours.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.planning.parametric_slot_lp import UNSOLVED, SlotWalks


@outlined
def extend(before: F64, of_slot: F64, after: F64, choice: I64) -> None:
    """Add a slot to the dynamic programme: its recursion, for every number of parts k.

    after[k] = min over j of of_slot[j] + before[k - j], and choice[k] is the smallest j that attains it.
    O(K x most).

    Parameters
    ----------
    before : (K + 1,) least cost of k parts in the slots so far
    of_slot : (most + 1,) cost of j parts in this slot, 0 for j = 0
    after : (K + 1,) set
    choice : (K + 1,) set
    """
    for k in range(len(before)):
        after[k], choice[k] = before[k], 0
        for j in range(1, min(k, len(of_slot) - 1) + 1):
            cost = of_slot[j] + before[k - j]
            if cost < after[k]:
                after[k], choice[k] = cost, j


@kernel
def _merge(paths: SlotWalks, slot: int, size: int, slopes: F64, lengths: F64) -> int:
    """Merge the steps of a slot into a pool sorted by slope; return the new size; O(size + steps).

    The merge runs from the end, so it needs no second array.
    """
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
    paths: SlotWalks,
    ending: I64,
    state: I64,
    needed: float,
    most: float,
    slopes: F64,
    lengths: F64,
    bound: F64,
) -> None:
    """Set the least cost, in fractions, of ``needed`` workers in the first 1, 2, .. slots; inf if too many.

    The cost of a slot is convex and piecewise linear, so the cost of several slots is the infimal
    convolution: the cheapest steps of all of them, in order of slope. A slot whose path is UNSOLVED counts
    as ``most`` workers at no cost, so the result stays a lower bound. Steps beyond the need are dropped
    from the pool: more slots cannot bring them back. Invariant after each slot: the pool holds the cheapest
    steps of the slots so far, sorted by slope. O(steps in the pool) per slot.

    Parameters
    ----------
    needed : workers x slots
    ending : end of each path, as of `parametric_slot_lp.walk`
    state : (n,) number of the path of each slot
    most : workers in a slot, at most
    slopes, lengths : work space, for the steps of all slots
    bound : (n,) set
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
