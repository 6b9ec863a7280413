"""Value functions: worked values of each form, refusals, and that none ever rises."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.value_function import MAX_WORTH, ValueFunction, parse_value, value_faults
from tests.proofs import instances


def at(text: str, *delay_s: float) -> list[float]:
    worth: list[float] = parse_value(text).at(np.array(delay_s)).tolist()
    return worth


def test_worked_values_of_each_form() -> None:
    assert at("deadline 40 3600", 0, 3600, 3600.000001, math.inf) == [40, 40, 0, 0]
    assert at("step 4@2 2@3", 0, 2, 2.5, 3, 3.5) == [4, 4, 2, 2, 0]
    assert at("linear 4 2 4", 0, 2, 2.5, 3, 4, 5) == [4, 4, 3, 2, 0, 0]
    assert at("table 1:4 2:2 4:1", 0, 1, 1.5, 2, 3, 4, 4.5) == [4, 4, 3, 2, 1.5, 1, 0]
    # 8 / (1 + exp(ln 3 (d - 2))): 6 at 1, 4 at 2, 2 at 3.
    np.testing.assert_allclose(at(f"sigmoid 8 {math.log(3)} 2 3", 1, 2, 3), [6, 4, 2], rtol=1e-15)
    assert at("sigmoid 8 1 2 3", 3.000001, math.inf) == [0, 0]


def test_the_job_of_the_worked_example_4a() -> None:
    """V = 4 for a finish by 2, 2 at 3, 0 after."""
    assert at("step 4@2 2@3", 1, 2, 3, 4) == [4, 4, 2, 0]


def test_the_shape_of_delays_is_kept_and_delays_before_the_birth_count_as_none() -> None:
    value = parse_value("linear 4 0 4")
    assert value.at(np.array([[0.0, 1.0], [-1.0, 5.0]])).tolist() == [[4, 3], [4, 0]]
    assert value.end_s == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "begins with '', which is no form; must be deadline V D"),
        ("dead 1 2", "begins with 'dead', which is no form"),
        ("deadline 1", "must be deadline V D, has 1 numbers"),
        ("deadline 1 2 3", "must be deadline V D, has 3 numbers"),
        ("deadline x 2", "worth 'x' is no number"),
        ("deadline -1 2", "worth must be in 0 .. 1,073,741,824, is -1"),
        ("deadline nan 2", "worth must be in"),
        ("deadline 1 inf", "time must be in 0 .. 68,719,476,736, is inf"),
        ("step 1@5 2@6", "point 2: worth 2 is above 1, that of point 1; a later completion must not"),
        ("step 3@5 2@7 1@6", "point 3: time 6 must be above 7, that of point 2"),
        ("step", "has no points"),
        ("step 1:5", "must be step V1@D1 V2@D2 ...; cannot read '1:5'"),
        ("table 0:1 5:2", "point 2: worth 2 is above 1"),
        ("table 0:1 0:0", "point 2: time 0 must be above 0"),
        ("linear 1 5 5", "point 2: time 5 must be above 5"),
        ("sigmoid 1 -1 2 3", "RATE must be in 0 .."),
        ("sigmoid 1 1 3 2", "point 2: time 2 must be above 3"),
    ],
)
def test_a_function_that_is_none_is_refused_with_the_point(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="^" + told.replace("(", r"\(").replace("...", r"\.\.\.")):
        parse_value(text)


TIMES = st.one_of(st.floats(0, 2**36), st.floats(0, 10), st.integers(0, 100).map(float))
WORTHS = st.one_of(st.floats(0, MAX_WORTH), st.integers(0, 5).map(float))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts of all forms."""
    time_s = sorted(draw(st.sets(TIMES, min_size=2, max_size=6)))
    worth = sorted(draw(st.lists(WORTHS, min_size=len(time_s), max_size=len(time_s))), reverse=True)
    points = list(zip(time_s, worth, strict=True))
    return draw(
        st.sampled_from(
            [
                f"deadline {worth[0]!r} {time_s[0]!r}",
                f"linear {worth[0]!r} {time_s[0]!r} {time_s[1]!r}",
                f"sigmoid {worth[0]!r} {draw(st.floats(0, 2**20))!r} {time_s[0]!r} {time_s[1]!r}",
                " ".join(["step", *(f"{v!r}@{d!r}" for d, v in points)]),
                " ".join(["table", *(f"{d!r}:{v!r}" for d, v in points)]),
            ]
        )
    )


def near_points(value: ValueFunction) -> list[float]:
    """The points of a function and their neighbours."""
    ends = [value.time_s, np.nextafter(value.time_s, -1.0), np.nextafter(value.time_s, np.inf)]
    points: list[float] = np.concatenate(ends).tolist()
    return points


@settings(max_examples=instances(2000, 100))
@given(text=texts(), extra=st.lists(st.floats(-1, 2**37), max_size=20))
def test_no_function_ever_rises_and_each_ends_at_zero(text: str, extra: list[float]) -> None:
    value = parse_value(text)
    worth = value.at(np.sort(np.array([*near_points(value), *extra, math.inf])))
    assert (np.diff(worth) <= 0).all()
    assert (worth >= 0).all()
    assert worth[-1] == 0
    assert value.at(np.nextafter(np.array([value.end_s]), np.inf))[0] == 0


@settings(max_examples=instances(500, 50))
@given(text=texts())
def test_the_text_of_a_function_is_read_as_the_same_function(text: str) -> None:
    assert parse_value(str(parse_value(text))) == parse_value(text)


def test_faults_are_told_by_the_row_of_their_text() -> None:
    written = pl.Series(["deadline 4.1 700", "deadline 4", "", "linear 1e1 0 7.25"])
    faults = value_faults(written)
    assert faults[1] == "must be deadline V D, has 1 numbers"
    assert faults[2].startswith("begins with '', which is no form")
    assert len(faults) == 2
