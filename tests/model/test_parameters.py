from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError
from ray_sim.model.parameters import Parameter, Value, resolve

ALL = (
    Parameter("flag", "bool", False, "a switch"),
    Parameter("count", "int", 3, "how many", minimum=1),
    Parameter("share", "float", 0.5, "how much", minimum=0.0, exclusive=True),
    Parameter("kind", "choice", "red", "which", choices=("red", "blue")),
    Parameter("limits", "floats", (1.0, 2.0), "where", minimum=0.0),
    Parameter("cap", "float", None, "at most"),
)


def test_a_kind_that_is_none_is_refused() -> None:
    kinds = "bool, int, float, choice, floats, text"
    kind: Any = "real"
    with pytest.raises(InvalidInputError, match=f"parameter scale: kind must be one of {kinds}, got 'real'"):
        Parameter("scale", kind, 1.0, "how much")


def test_what_is_not_given_has_its_default() -> None:
    assert resolve("policy p", ALL, {}) == {
        "flag": False, "count": 3, "share": 0.5, "kind": "red", "limits": (1.0, 2.0), "cap": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("flag", "true", True),
        ("flag", "No", False),
        ("flag", "1", True),
        ("flag", True, True),
        ("flag", np.bool_(True), True),
        ("count", np.int64(12), 12),
        ("share", np.float32(0.25), 0.25),
        ("count", "12", 12),
        ("count", 12.0, 12),
        ("count", "1e3", 1000),
        ("share", "0.25", 0.25),
        ("share", 2, 2.0),
        ("kind", "blue", "blue"),
        ("limits", "1,2.5", (1.0, 2.5)),
        ("limits", [3, 4], (3.0, 4.0)),
        ("limits", "7", (7.0,)),
        ("limits", 7, (7.0,)),
        ("cap", None, None),
        ("cap", "4", 4.0),
    ],
)
def test_values_come_from_text_or_yaml(name: str, given: object, value: Value) -> None:
    resolved = resolve("policy p", ALL, {name: given})[name]
    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("flag", "maybe", "flag: must be true or false, got 'maybe'"),
        ("flag", 1, "flag: must be true or false, got 1"),
        ("count", "many", "count: must be a number, got 'many'"),
        ("count", "1_000", "count: must be a number, got '1_000'"),
        ("count", "\uff11\uff12", "count: must be a number, got '\uff11\uff12'"),  # full-width digits
        ("limits", "1,2_0", "limits: must be a number, got '2_0'"),
        ("count", 1.5, "count: must be a whole number, got 1.5"),
        ("count", 0, "count: must be at least 1, at most 9,007,199,254,740,992, got 0"),
        ("count", True, "count: must be a number, got True"),
        ("count", 10**400, "at most 9,007,199,254,740,992, got 10000000000"),
        ("share", 0, "share: must be above 0, at most 9,007,199,254,740,992, got 0"),
        ("share", "nan", "share: must be above 0, at most 9,007,199,254,740,992, got 'nan'"),
        ("share", math.inf, "share: must be above 0, at most 9,007,199,254,740,992, got inf"),
        ("share", None, "share: must be a number, got None"),
        ("kind", "green", "kind: must be one of red, blue, got 'green'"),
        ("limits", "1,x", "limits: must be a number, got 'x'"),
        ("limits", "", "limits: must be a number, got ''"),
        ("limits", [-1], "limits: must be at least 0, at most 9,007,199,254,740,992, got -1"),
        ("limits", None, "limits: must be a number, got None"),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(name: str, given: object, problem: str) -> None:
    with pytest.raises(InvalidScenarioError) as refusal:
        resolve("policy p", ALL, {name: given})
    assert str(refusal.value).startswith("parameters of policy p: 1 problem\n")
    assert problem in str(refusal.value)


def test_all_bad_values_are_reported_at_once() -> None:
    with pytest.raises(InvalidScenarioError) as refusal:
        resolve("policy p", ALL, {"count": 0, "kind": "green", "share": 0.1})
    assert str(refusal.value).splitlines() == [
        "parameters of policy p: 2 problems",
        "  count: must be at least 1, at most 9,007,199,254,740,992, got 0",
        "  kind: must be one of red, blue, got 'green'",
    ]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"parameter of policy p 'limit'\. Did you mean 'limits'\?"):
        resolve("policy p", ALL, {"limit": "1"})


def test_a_listing_is_made_of_plain_values() -> None:
    assert ALL[4].to_dict() == {
        "name": "limits", "type": "floats", "default": [1.0, 2.0], "unit": "",
        "range": "at least 0, at most 9,007,199,254,740,992", "meaning": "where", "source": "", "choices": [],
    }  # fmt: skip
