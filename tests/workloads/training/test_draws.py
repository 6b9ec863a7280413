"""What files may draw from, and that draws are as likely as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.schema import BY_NAME
from workloads.training.draws import (
    Constant,
    Mixture,
    Multiple,
    Uniform,
    WholeUnits,
    choose,
    draw_range,
    numbers,
    parse_draw,
    texts,
)

EPOCHS, SECONDS, EXCHANGE = BY_NAME["epochs"], BY_NAME["sample_s"], BY_NAME["exchange"]
EVENLY = (np.arange(1000) + 0.5) / 1000


def test_a_range_of_whole_numbers_has_both_ends_and_all_alike() -> None:
    drawn = numbers(Uniform(3, 6, whole=True), EVENLY, {})
    assert np.unique(drawn, return_counts=True)[1].tolist() == [250] * 4
    assert set(drawn) == {3, 4, 5, 6}


def test_whole_units_are_a_count_of_both_ends_times_the_unit() -> None:
    # 1 to 4 slots of an hour, a quarter of the draws each.
    draw = WholeUnits(Uniform(1, 4, whole=True), 3600)
    values, counts = np.unique(numbers(draw, EVENLY, {}), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([3600, 7200, 10_800, 14_400], [250] * 4)
    assert draw_range(draw) == (3600, 14_400)


def test_a_range_of_numbers_is_drawn_evenly() -> None:
    drawn = numbers(Uniform(2, 4), EVENLY, {})
    np.testing.assert_allclose(drawn, 2 + 2 * EVENLY)


def test_a_mixture_has_its_parts_by_weight_and_each_part_evenly() -> None:
    # Weights 1 and 3: a quarter zeros, three quarters even in 4 .. 6.
    drawn = numbers(Mixture((1, 3), (Constant(0.0), Uniform(4, 6))), EVENLY, {})
    assert (drawn == 0).sum() == 250
    np.testing.assert_allclose(np.sort(drawn[drawn > 0]), 4 + 2 * (np.arange(750) + 0.5) / 750, atol=1e-12)


def test_a_multiple_follows_the_other_column() -> None:
    assert numbers(Multiple(10, "b"), EVENLY[:2], {"b": np.array([1.5, 2.5])}).tolist() == [15, 25]


def test_texts_come_by_weight() -> None:
    drawn = texts(Mixture((3, 1), (Constant("sync"), Constant("async"))), EVENLY)
    assert (drawn.count("sync"), drawn.count("async")) == (750, 250)


@given(
    weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8),
    uniform=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8),
)
def test_a_choice_is_a_part_and_a_place_within_it(weights: list[float], uniform: list[float]) -> None:
    part, within = choose(weights, np.array(uniform))
    assert ((part >= 0) & (part < len(weights))).all()
    assert ((within >= 0) & (within < 1)).all()


@pytest.mark.parametrize(
    ("given", "column", "draw"),
    [
        (58, EPOCHS, Constant(58.0)),
        ([50, 200], EPOCHS, Uniform(50, 200, whole=True)),
        ([0.1, 2], SECONDS, Uniform(0.1, 2)),
        ({"whole": [1, 2]}, SECONDS, Uniform(1, 2, whole=True)),
        ({"whole": [1, 4], "times": 0.5}, SECONDS, WholeUnits(Uniform(1, 4, whole=True), 0.5)),
        ({"whole": [1, 4], "times": 32}, EPOCHS, WholeUnits(Uniform(1, 4, whole=True), 32.0)),
        ({"times": 10, "column": "step_s"}, SECONDS, Multiple(10, "step_s")),
        ("async", EXCHANGE, Constant("async")),
        (
            {"mix": [{"weight": 1, "value": 5}, {"weight": 2, "value": [6, 7]}]},
            EPOCHS,
            Mixture((1, 2), (Constant(5.0), Uniform(6, 7, whole=True))),
        ),
    ],
)
def test_every_form_of_a_draw(given: object, column: object, draw: object) -> None:
    assert parse_draw(given, column) == draw  # type: ignore[arg-type]  # the table's columns are Columns


@pytest.mark.parametrize(
    ("given", "column", "wanted"),
    [
        ([1.5, 2], EPOCHS, "must be a whole number from 1 to 1048576, got 1.5"),
        ([200, 50], EPOCHS, r"LOW at most HIGH, got \[200, 50\]"),
        ([1, 2, 3], EPOCHS, "must be a value, "),
        ({"range": [1, 2]}, EPOCHS, "must be a value, "),
        ({"whole": [1, 2], "times": 0}, SECONDS, "times: must be a number above 0"),
        ({"whole": [1, 2], "times": 1.5}, EPOCHS, "times: must be a whole number above 0"),
        ({"whole": [1, 2.5], "times": 2}, SECONDS, "whole: must be whole numbers from 0 to 1048576, got 2.5"),
        ({"whole": [1, 10**400], "times": 2}, SECONDS, "whole: must be whole numbers"),
        ({"whole": [2, 1], "times": 2}, SECONDS, r"LOW at most HIGH, got \[2, 1\]"),
        ({"whole": [1, 2], "times": 6e10}, SECONDS, "must be a number from 9.09.* got 120000000000"),
        ({"whole": [1, 2], "times": 2, "column": "step_s"}, SECONDS, "must be a value, "),
        ({"whole": 2}, SECONDS, "must be a value, "),
        (0, SECONDS, "must be a number from 9.09"),
        (float("nan"), SECONDS, "got nan"),
        (True, EPOCHS, "got True"),
        ("1e-5", SECONDS, "got '1e-5'"),
        (None, SECONDS, "got None"),
        ("synch", EXCHANGE, "must be one of sync, async, all_reduce, got 'synch'"),
        ([1, 2], EXCHANGE, "must be a value, "),
        ({"times": 10, "column": "samples"}, EPOCHS, "must be a whole number, got a multiple"),
        ({"times": 0, "column": "step_s"}, SECONDS, "times: must be above 0"),
        ({"mix": [{"weight": 0, "value": 1}]}, EPOCHS, r"mix\[0\].weight: must be above 0"),
        ({"mix": [{"weight": 1, "value": 0}]}, EPOCHS, r"mix\[0\].value: must be a whole number"),
        ({"mix": [5]}, EPOCHS, r"mix\[0\]: must be"),
        ({"mix": []}, EPOCHS, "must be a value, "),
    ],
)
def test_other_forms_are_refused_with_what_was_wanted(given: object, column: object, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        parse_draw(given, column)  # type: ignore[arg-type]  # as above
