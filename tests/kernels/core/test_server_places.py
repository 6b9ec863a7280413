"""Equivalent servers paired, by enumeration."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core.server_places import MOST_SQUARED, Places, find_places, match, weigh_pairs
from tests.training import rows


def test_places_of_a_job_are_sorted_by_kind_then_tasks_then_server() -> None:
    held = rows([(2, 0), (1, 1), (0, 1), (1, 1)], [(0, 0), (0, 0), (0, 1), (0, 0)])
    places = Places(np.empty_like(held.ptr), *np.empty((5, len(held.server)), np.int64))
    find_places(held, np.array([1, 0, 0, 0]), places)
    columns = np.stack([places.kind, places.workers, places.ps, places.server], axis=1)[places.order[:5]]
    assert places.ptr.tolist() == [0, 4, 5]
    assert columns.tolist() == [[0, 0, 1, 2], [0, 1, 1, 1], [0, 1, 1, 3], [1, 2, 0, 0], [0, 0, 1, 2]]


@given(groups=st.lists(st.integers(0, 4), max_size=12).map(sorted))
def test_every_server_of_a_group_is_weighed_with_every_other(groups: list[int]) -> None:
    n = len(groups)
    target, now, weight = np.arange(n), np.arange(100, 100 + n), np.array([10 * g for g in groups], np.int64)
    pairs = np.full((MOST_SQUARED * n, 3), -1)
    count = weigh_pairs(np.array(groups, np.int64), target, now, weight, pairs)
    expected = []
    for _, members in groupby(range(n), key=lambda i: groups[i]):
        same = list(members)
        expected += [[i, 100 + k, 10 * groups[i]] for i in same for k in same]
    assert pairs[:count].tolist() == expected


def test_a_large_group_is_weighed_in_order() -> None:
    n = MOST_SQUARED + 1
    pairs = np.empty((n, 3), np.int64)
    ones = np.ones(n, np.int64)
    assert weigh_pairs(ones, np.arange(n), np.arange(n), ones, pairs) == n
    assert pairs[:, 0].tolist() == pairs[:, 1].tolist() == list(range(n))


@given(wishes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10))
def test_pairs_are_made_in_order_of_preference_and_nobody_twice(wishes: list[tuple[int, int]]) -> None:
    target, now = (np.array([wish[i] for wish in wishes], np.int64) for i in (0, 1))
    name, taken = np.full(5, -1), np.zeros(5, np.bool_)
    match(target, now, name, taken)
    naive: dict[int, int] = {}
    for wanted, held in wishes:
        if wanted not in naive and held not in naive.values():
            naive[wanted] = held
    for server in range(5):
        if server not in naive and server not in naive.values():
            naive[server] = server
    assert {int(s): int(name[s]) for s in np.flatnonzero(name >= 0)} == naive
