"""Costs of slots put together: the dynamic programme against every split, bounds against sorted steps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.planning.slot_plan import extend

COST = st.integers(0, 20).map(float) | st.just(float("inf"))
SLOTS = st.lists(st.lists(COST, min_size=1, max_size=3), min_size=1, max_size=3)


@given(slots=SLOTS, quanta=st.integers(0, 6))
def test_the_programme_finds_the_cheapest_of_all_splits_of_the_work(
    slots: list[list[float]], quanta: int
) -> None:
    before = np.array([0.0] + [np.inf] * quanta)
    choices = []
    for costs in slots:
        of_slot = np.array([0.0, *costs])
        after, choice = np.empty_like(before), np.empty(quanta + 1, np.int64)
        extend(before, of_slot, after, choice)
        choices.append(choice)
        before = after
    for k in range(quanta + 1):
        splits = [split for split in product(*(range(len(costs) + 1) for costs in slots)) if sum(split) == k]
        cheapest = min(
            (
                sum(costs[j - 1] if j else 0.0 for costs, j in zip(slots, split, strict=True))
                for split in splits
            ),
            default=np.inf,
        )
        assert before[k] == pytest.approx(cheapest)
    if np.isfinite(before[quanta]):  # the choices lead back to a plan of that cost
        cost, left = 0.0, quanta
        for costs, choice in zip(reversed(slots), reversed(choices), strict=True):
            j = int(choice[left])
            cost, left = cost + (costs[j - 1] if j else 0.0), left - j
        assert cost == pytest.approx(before[quanta])
        assert left == 0


def test_of_equal_costs_the_fewest_quanta_are_done_in_the_last_slot() -> None:
    after, choice = np.empty(3), np.empty(3, np.int64)
    extend(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), after, choice)
    assert (after.tolist(), choice.tolist()) == ([0, 1, 2], [0, 0, 0])
