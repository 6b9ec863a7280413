"""Curves of allocation and fragments over arrived load, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.reports.packing_curve import packing_curve


def test_a_percent_of_load_has_the_mean_of_its_arrivals() -> None:
    # 100 GPUs: 0.4 and 0.2 are placed, 1.0 is rejected, 0.8 is placed. Loads 0.4, 0.6, 1.6, 2.4.
    arrived, used = np.array([400, 600, 1600, 2400.0]), np.array([400, 600, 600, 1400.0])
    curve = packing_curve(arrived, used, np.full(4, 500.0), 100_000 - used, 100_000)
    assert curve.load.tolist() == [0, 1, 2]
    assert curve.alloc.tolist() == [0.4, 0.6, 1.0]
    assert curve.frag_of_idle.tolist() == [0.5, 0.5, (0.5 + 0.51) / 2]
    assert curve.frag_of_all.tolist() == [0.5, 0.5, 0.5]


def test_a_percent_without_arrivals_takes_those_beside_it() -> None:
    # Loads 0.5 and 1.5 are rounded to even: 0 and 2. So 1 has the mean of both, and 4 is 3 to 5.
    arrived = np.array([0.5, 1.5, 3.0, 5.0])
    curve = packing_curve(arrived, arrived, arrived, np.zeros(4), 100)
    assert curve.alloc.tolist() == [0.5, 1.0, 1.5, 3.0, 4.0, 5.0]
    assert curve.frag_of_idle.tolist() == [0] * 6


def test_where_no_arrival_is_near_nothing_is_told() -> None:
    arrived = np.array([1.0, 5.0])
    assert packing_curve(arrived, arrived, arrived, arrived, 100).alloc.tolist()[2:5] == [
        1.0, pytest.approx(np.nan, nan_ok=True), 5.0,
    ]  # fmt: skip
