"""Texts of times and amounts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ray_sim.model.readable import ASCII, bar, duration, instant, sparkline, told_apart


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
        (float("inf"), "inf"),
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


def test_the_highest_bar_of_a_line_is_full_and_the_others_in_proportion() -> None:
    # Eight heights, 0 to 7: 3.5 of 7 rounds to 4.
    assert sparkline([0.0, 1.0, 2.0, 1.0], 10) == "▁▅█▅"
    assert sparkline([0.0, 0.0], 10) == "▁▁"


def test_neighbours_share_a_bar_by_their_mean_where_there_are_too_many() -> None:
    # Means of (0, 2), (4, 4) and of (8, 8): 1, 4, 8.
    assert sparkline([0.0, 2.0, 4.0, 4.0, 8.0, 8.0], 3) == "▂▅█"


def test_a_bar_is_as_long_as_its_share_to_an_eighth() -> None:
    assert bar(1.0, 3) == "███"
    assert bar(0.5, 3) == "█▌"
    assert bar(0.0, 3) == ""
    assert bar(1e-9, 3) == "▏"


def test_bars_have_a_form_without_special_characters() -> None:
    for text in (sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), bar(0.99, 3), bar(0.05, 3)):
        plain = text.translate(ASCII)
        assert plain.isascii()
        assert len(plain) == len(text)


def test_an_instant_is_a_date_where_the_trace_or_the_number_says_so() -> None:
    # 1,773,991,188 s = 20,532 days of 1970 on, and 26,388 s = 7 h 19 min 48 s.
    assert instant(1_773_991_188.0) == "2026-03-20 07:19:48 UTC"
    assert instant(26_388.0, datetime(2026, 3, 20, tzinfo=UTC)) == "2026-03-20 07:19:48 UTC"
    assert instant(26_388.0) == "second 26,388"
