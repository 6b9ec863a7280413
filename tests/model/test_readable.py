"""Texts of times and amounts."""

from __future__ import annotations

import pytest

from ray_sim.model.readable import duration, told_apart


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0 s"),
        (1.5, "1.5 s"),
        (59.7, "1 min"),
        (3599.9, "1 h"),
        (3660.0, "1 h 1 min"),
        (84_960.0, "23 h 36 min"),
        (86_399.0, "1 d"),
        (90_000.0, "1 d 1 h"),
        (1e7, "115 d 18 h"),
        (-60.0, "-1 min"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("amounts", "texts"),
    [
        ([8.0], ["8"]),
        ([1500.4, 1500.2], ["1,500.4", "1,500.2"]),
        ([0.12345], ["0.123"]),
        ([0.0004, 0.0], ["0.0004", "0"]),
        ([22 / 1024, 21.5 / 1024], ["0.0215", "0.021"]),
        ([100.0, 100.0], ["100", "100"]),
        ([0.0], ["0"]),
    ],
)
def test_amounts_have_the_decimals_that_tell_them_apart(amounts: list[float], texts: list[str]) -> None:
    assert told_apart(amounts) == texts
