"""Prices of GPU types: shadow prices, whatever the unit of speeds."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.solvers.gpu_prices import gpu_prices


@pytest.mark.parametrize("unit", [1.0, 1e-10, 1e6])
def test_a_type_twice_as_fast_for_all_costs_twice_as_much(unit: float) -> None:
    speed = unit * np.array([[1.0, 2.0]] * 8)
    assert gpu_prices(speed, np.full(8, 1000.0), np.array([2000.0, 1000.0])) == pytest.approx([0.5, 1])


def test_a_type_on_which_none_runs_costs_nothing() -> None:
    assert gpu_prices(np.array([[0.0, 2.0]] * 4), np.ones(4), np.array([9.0, 1.0])).tolist() == [0, 1]


def test_jobs_that_stand_for_others_give_the_same_prices() -> None:
    draw = np.random.default_rng(5)
    kinds = draw.uniform(0.1, 4.0, (5, 3))
    few, many = (kinds[np.arange(n) % 5] for n in (50, 3000))
    number = np.array([4.0, 4.0, 4.0])
    assert gpu_prices(many, np.ones(3000), 100 * number) == pytest.approx(
        gpu_prices(few, np.ones(50), 100 / 60 * number), rel=0.05
    )
