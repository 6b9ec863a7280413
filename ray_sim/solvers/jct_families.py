"""Division of jobs into families, the sum of whose bounds is largest."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np

from ray_sim.model.units import BoolArray

_BETTER = 1.0 + 1e-12
"""Factor by which a merged family must exceed its parts, against rounding errors."""

Numbers = frozenset[int]


def best_division(meets: BoolArray, bound: Callable[[Numbers], float]) -> list[Numbers]:
    """The best of: all groups in one family, each in one of its own, and these merged greedily.

    A step merges the two families that gain most of those whose groups meet. O(G^2) bounds of G groups for
    the first step, O(G) for each further one.

    Parameters
    ----------
    meets : (G, G) pairs of groups that may be worth merging
    bound : lower bound on the sum of the flow times of the jobs of some groups alone
    """
    value = cache(bound)
    families = [frozenset([i]) for i in range(len(meets))]
    while True:
        gains = {
            a | b: value(a | b) - (value(a) + value(b)) * _BETTER
            for a, b in combinations(families, 2)
            if meets[np.ix_(sorted(a), sorted(b))].any()
        }
        best = max(gains, key=lambda pair: gains[pair], default=None)
        if best is None or gains[best] <= 0:
            break
        families = [*(each for each in families if not each <= best), best]
    whole = frozenset(range(len(meets)))
    if value(whole) >= sum(map(value, families)):
        return [whole]
    return sorted(families, key=min)
