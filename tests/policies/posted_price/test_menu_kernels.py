"""Loads booked by plans, and the range of rounds that they change; `test_menu.py` tests prices."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.policies.posted_price.menu_kernels import book_load, exponential_price, price_rounds
from tests.kernels.by_hand import SEEDS, ints
from tests.proofs import instances


def test_a_plan_of_three_points_of_which_one_is_not_launched() -> None:
    # 4 nodes: 1 from round 2 to 4 with 1/4, 2 in round 3 with 1/2.
    booked = ints([0] * 6)
    start, duration = ints([2, 3, NEVER_ROUND]), ints([3, 1, 2])
    changed = book_load(4, start, duration, np.array([0.25, 0.5, 0.25]), booked)
    assert changed == (2, 5)
    assert booked.tolist() == [0, 0, NANO, 3 * NANO, NANO, 0]
    assert book_load(4, start[2:], duration[2:], np.array([0.25]), booked) == (0, 0)


def test_prices_of_nothing_half_and_more_than_all() -> None:
    # scale (base^(load / full) - 1) with base 9: 0, 2 and 8 times the scale.
    prices = ints([0] * 4)
    price_rounds(ints([0, 5, 10, 99]), 10, 7.0, 9.0, prices)
    assert prices.tolist() == [0, 14, 56, 56]
    assert exponential_price(5, 10, 0.2, 9.0) == 0  # 0.4, rounded


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_loads_are_those_of_adding_round_by_round_and_no_other_round_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds, n, nodes = 12, int(rng.integers(1, 6)), int(rng.integers(1, 9))
    start = np.where(rng.random(n) < 0.2, NEVER_ROUND, rng.integers(0, rounds, n))
    duration, probability = rng.integers(1, 8, n), rng.dirichlet(np.ones(n))
    expected = rng.integers(0, NANO, rounds)
    booked = expected.copy()
    changed = set()
    for i in range(n):
        for tau in range(rounds):
            if start[i] <= tau < start[i] + duration[i]:
                expected[tau] += round(probability[i] * nodes * NANO)
                changed.add(tau)
    first, end = book_load(nodes, start, duration, probability, booked)
    np.testing.assert_allclose(booked, expected, rtol=0, atol=n)  # each load is rounded to a nano
    assert (first, end) == (min(changed, default=0), max(changed, default=-1) + 1)
