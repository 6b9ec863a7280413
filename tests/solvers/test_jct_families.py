"""Divisions into families: merged where that gains, and never worse than one family or one of each group."""

from __future__ import annotations

import numpy as np

from ray_sim.solvers.jct_families import best_division

Bounds = dict[frozenset[int], float]

SINGLE: Bounds = {frozenset([0]): 3, frozenset([1]): 4, frozenset([2]): 5}


def divided(pairs: Bounds, meets: list[list[int]] | None = None) -> list[frozenset[int]]:
    """The division of three groups of these bounds; families without one have 0."""
    together = np.ones((3, 3), np.bool_) if meets is None else np.array(meets, dtype=np.bool_)
    return best_division(together, lambda numbers: (SINGLE | pairs).get(numbers, 0.0))


def test_groups_stay_apart_unless_a_pair_gains() -> None:
    assert divided({}) == [{0}, {1}, {2}]
    assert divided({frozenset([0, 1]): 7}) == [{0}, {1}, {2}]  # 3 + 4: nothing gained
    assert divided({frozenset([0, 1]): 8, frozenset([1, 2]): 11}) == [{0}, {1, 2}]  # gains 1 and 2


def test_groups_that_share_no_server_are_not_merged() -> None:
    apart = [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    assert divided({frozenset([0, 1]): 99, frozenset([1, 2]): 11}, apart) == [{0}, {1, 2}]


def test_one_family_wins_where_it_is_as_good() -> None:
    assert divided({frozenset([0, 1, 2]): 12}) == [{0, 1, 2}]
