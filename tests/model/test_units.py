from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.model.units import (
    QUANTA_PER_UNIT,
    US_PER_S,
    capacity_quanta,
    demand_quanta,
    seconds_to_us,
    tolerant_ceil,
    us_to_seconds,
)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.07 * 100, 7),  # 7.000000000000001
        (7.0, 7),
        (7.001, 8),
        (6.999, 7),
        (0.0, 0),
        (1e-10, 0),
        (1e-8, 1),
        (-0.5, 0),
        (-1.0, -1),
        (21 / 0.7, 30),  # 30.000000000000004
        (2.5, 3),
        (1e12 + 0.25, 10**12),  # a billionth of it is 1000
    ],
)
def test_the_ceiling_forgives_a_billionth(x: float, expected: int) -> None:
    assert tolerant_ceil(x) == expected


@given(numerator=st.integers(0, 10**6), denominator=st.integers(1, 1000))
def test_the_ceiling_of_a_quotient_is_that_of_the_fraction(numerator: int, denominator: int) -> None:
    exact = -(-numerator // denominator)
    assert tolerant_ceil(numerator / denominator) == exact
    assert tolerant_ceil(numerator * (1 / denominator)) == exact


def test_times_of_a_workload_are_rounded_to_the_nearest_microsecond() -> None:
    # 0.4, 0.6, 1.4 and 1.6 us.
    assert seconds_to_us([4e-7, 6e-7, 1.4e-6, 1.6e-6]).tolist() == [0, 1, 1, 2]


@given(us=st.integers(-(2**50), 2**50))
def test_microseconds_survive_the_way_to_seconds_and_back(us: int) -> None:
    assert int(seconds_to_us(us / US_PER_S)) == us
    assert int(seconds_to_us(us_to_seconds(np.array(us)))) == us


@pytest.mark.parametrize(
    ("amount", "demand", "capacity"),
    [
        (0.8101, 811, 810),
        (0.25, 250, 250),
        (0.1 + 0.2, 300, 300),
        (1e-6, 1, 0),
        (0.0, 0, 0),
        (8.0, 8000, 8000),
    ],
)
def test_demands_round_up_and_capacities_down(amount: float, demand: int, capacity: int) -> None:
    assert int(demand_quanta(amount, "gpu")) == demand
    assert int(capacity_quanta(amount, "gpu")) == capacity


@given(amount=st.floats(0, 1e6), resource=st.sampled_from(sorted(QUANTA_PER_UNIT)))
def test_what_a_task_demands_is_within_one_quantum_above_and_what_a_server_offers_within_one_below(
    amount: float, resource: str
) -> None:
    exact = Fraction(amount) * QUANTA_PER_UNIT[resource]
    slack = max(Fraction(1), exact) / 10**9
    demand, capacity = int(demand_quanta(amount, resource)), int(capacity_quanta(amount, resource))
    assert exact - slack <= demand < exact + 1
    assert exact - 1 < capacity <= exact + slack
    assert capacity <= demand <= capacity + 1
