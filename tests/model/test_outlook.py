"""Outlooks: what is read, what is refused and with which words."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model import outlook
from ray_sim.model.outlook import outlook_faults, parse_outlook, parse_outlooks
from tests.proofs import instances


def test_points_are_sorted_by_arrival_and_duration() -> None:
    found = parse_outlook(" 60:600:0.25  0:600:0.25 0:60:5e-1 ")
    assert found.arrival_after_s.tolist() == [0, 0, 60]
    assert found.duration_s.tolist() == [60, 600, 600]
    assert found.probability.tolist() == [0.5, 0.25, 0.25]


def test_probabilities_are_divided_by_a_sum_that_is_nearly_one() -> None:
    third = parse_outlook("0:1:0.3333333333 0:2:0.3333333333 0:3:0.3333333333").probability
    assert third.tolist() == [1 / 3] * 3


def test_the_arrays_of_an_outlook_are_not_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        parse_outlook("0:1:1").probability[0] = 0.5


REFUSED = {
    "": "has no points; must be points AFTER:DURATION:PROBABILITY",
    "  ": "has no points",
    "0:1": "point '0:1' must be AFTER:DURATION:PROBABILITY",
    "0:1:0.5:0.5": "point '0:1:0.5:0.5' must be",
    "0:x:1": "point '0:x:1' must be",
    "0:nan:1": "point '0:nan:1' must be",
    "0:inf:1": "point '0:inf:1' must be",
    "-1:1:1": "point '-1:1:1' must be",
    "0:-1:1": "point '0:-1:1' must be",
    "0:1:0.5 0:2:0 0:3:0.5": "point '0:2:0' must be",
    "0:1:1.5": "point '0:1:1.5' must be",
    "0:1:0.5 0:2:0.4": "probabilities sum to 0.9, must sum to 1; divide each by the sum",
    "0:1:0.5 0:2:0.500000002": "probabilities sum to 1.000000002, must sum to 1",
    "0:1:0.5 1:1:0.25 0:1:0.25": "point 0:1 is there twice; add up the probabilities",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_is_no_distribution_is_refused_with_the_point(text: str) -> None:
    with pytest.raises(ValueError, match="^" + REFUSED[text]):
        parse_outlook(text)


def test_an_outlook_has_at_most_so_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outlook.MOST_POINTS == 1_000_000
    monkeypatch.setattr(outlook, "MOST_POINTS", 2)
    parse_outlook("0:1:0.5 0:2:0.5")
    with pytest.raises(ValueError, match=r"^has 3 points, at most 2 are possible"):
        parse_outlook("0:1:0.5 0:2:0.25 0:3:0.25")


def test_many_texts_are_read_as_one_by_one() -> None:
    texts = ["0:1:1", "5:1:0.5 0:2:0.5", "1:1:0.25 1:2:0.25 1:3:0.5"]
    for text, found in zip(texts, parse_outlooks(pl.Series(texts)), strict=True):
        alone = parse_outlook(text)
        np.testing.assert_array_equal(alone.arrival_after_s, found.arrival_after_s)
        np.testing.assert_array_equal(alone.duration_s, found.duration_s)
        np.testing.assert_array_equal(alone.probability, found.probability)


def test_the_faults_of_many_texts_are_those_of_each() -> None:
    wrong = [text for text in REFUSED if len(text) < 100]
    texts = pl.Series([text for pair in zip(wrong, ["0:1:1"] * len(wrong), strict=True) for text in pair])
    faults = outlook_faults(texts)
    assert sorted(faults) == list(range(0, len(texts), 2))
    assert all(faults[2 * k].startswith(REFUSED[text]) for k, text in enumerate(wrong))
    with pytest.raises(ValueError, match=r"^has no points"):
        parse_outlooks(texts)


@settings(max_examples=instances(500, 50))
@given(
    points=st.dictionaries(
        st.tuples(st.floats(0, 2**36), st.floats(0, 2**36)), st.integers(1, 100), min_size=1, max_size=20
    )
)
def test_the_numbers_of_points_are_kept_exactly(points: dict[tuple[float, float], int]) -> None:
    total = sum(points.values())
    read = parse_outlook(" ".join(f"{a!r}:{d!r}:{n / total!r}" for (a, d), n in points.items()))
    found = list(zip(read.arrival_after_s.tolist(), read.duration_s.tolist(), strict=True))
    assert found == sorted(points)
    np.testing.assert_allclose(read.probability, [points[p] / total for p in found], rtol=1e-12)
    assert abs(read.probability.sum() - 1) < 1e-15 * len(points) + 1e-15
