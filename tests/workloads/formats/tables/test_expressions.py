"""Expressions of mapping files against a twin that walks over the same trees with Python's numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import polars as pl
import pytest

from tests.proofs import instances
from workloads.formats.tables.expressions import ExpressionError, Quantity, Steps, parse_expression

Row = dict[str, float | None]


@dataclass(frozen=True)
class Tree:
    """An expression with its text and its value for a row, None where a cell is absent."""

    text: str
    value: Callable[[Row], float | None]


def drawn(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.4:
            number = rng.choice([0, 1, 2.5, 60, 1e3])
            return Tree(f"{number:g}", lambda row: float(number))
        name = rng.choice("abc")
        return Tree(rng.choice([name, f"`{name}`"]), lambda row: row[name])
    if rng.random() < 0.3:
        parts = [drawn(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        function = rng.choice(["max", "min", "sum", "first", "count"])
        return Tree(f"{function}({', '.join(part.text for part in parts)})", _function(function, parts))
    left, right = drawn(rng, depth - 1), drawn(rng, depth - 1)
    sign = rng.choice("+-*/")
    return Tree(f"({left.text}){rng.choice(['', ' '])}{sign} ({right.text})", _operation(sign, left, right))


def _function(name: str, parts: list[Tree]) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        values = [part.value(row) for part in parts]
        known = [each for each in values if each is not None]
        if name == "count":
            return float(len(known))
        if name == "sum":
            return sum(known) if len(known) == len(values) else None
        if name == "first":
            return known[0] if known else None
        if any(map(math.isnan, known)):
            return math.nan
        return (max if name == "max" else min)(known) if known else None

    return value


def _operation(sign: str, left: Tree, right: Tree) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        a, b = left.value(row), right.value(row)
        if a is None or b is None:
            return None
        if sign == "/":
            return a / b if b else math.nan
        return a + b if sign == "+" else a - b if sign == "-" else a * b

    return value


def evaluated(text: str, rows: list[Row]) -> list[float | None]:
    expression = parse_expression(text)
    frame = pl.LazyFrame(rows, schema=dict.fromkeys("abc", pl.Float64))
    cells = {each.label: Quantity.number(pl.col(each.column)) for each in expression.inputs}
    steps = Steps(frame, "step", cells)
    result = expression(steps)
    return steps.rows.with_columns(value=result.value).collect()["value"].cast(pl.Float64).to_list()


@pytest.mark.parametrize("text", ["max(a, " * 45 + "a" + ")" * 45, "a" + " - b" * 120, "a" + "+b" * 240])
def test_the_work_on_an_expression_grows_with_its_length(text: str) -> None:
    expected = {"m": 5.0, "-": 5.0 - 120 * 2, "+": 5.0 + 240 * 2}
    sign = "m" if "max" in text else "-" if "-" in text else "+"
    assert evaluated(text, [{"a": 5.0, "b": 2.0, "c": None}]) == [expected[sign]]


def test_drawn_expressions_have_the_values_of_their_trees() -> None:
    rng = random.Random(3)
    rows: list[Row] = [
        {name: rng.choice([None, 0.0, 1.5, -2.0, 7.0, 86_400.0]) for name in "abc"} for _ in range(12)
    ]
    for _ in range(instances(2_000, 200)):
        tree = drawn(rng, 3)
        found = evaluated(tree.text, rows)
        for row, value in zip(rows, found, strict=True):
            expected = tree.value(row)
            assert (value is None) == (expected is None), (tree.text, row)
            if value is not None and expected is not None:
                assert value == pytest.approx(expected, nan_ok=True), (tree.text, row)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("8 - 4 - 2", 2),
        ("8 / 4 / 2", 1),
        ("-a + 1", -4),
        ("a*60", 300),
        ("max(a, b) - min(a, b)", 3),
        ("first(c, b)", 2),
        ("count(a, b, c)", 2),
        ("1.5e3/1e2", 15),
        # What has no value: the sign of a zero does not choose among infinities.
        ("min(1 / (a - a), 5)", math.nan),
        ("max(1 / -(a - a), 5)", math.nan),
        ("min(1e200 * a * 1e200, 5)", math.nan),
        ("first(a / 0, b)", math.nan),
        ("first(b, a / 0)", 2),
        ("count(a / 0, c / 0)", 1),
    ],
)
def test_worked_examples(text: str, expected: float) -> None:
    found = evaluated(text, [{"a": 5.0, "b": 2.0, "c": None}])
    assert found == [pytest.approx(expected, nan_ok=True)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a number, a column or a function is expected at the end"),
        ("a +", "is expected at the end"),
        ("a b", "the end is expected where 'b' stands"),
        ("(a", r"\) is expected at the end"),
        ("a ** 2", r"is expected where '\*' stands"),
        ("__import__(os)", "there is no function '__import__'"),
        ("a.*.b + 1", r"'a.\*.b' is a list; say which of its numbers is wanted, as in sum\(a.\*.b\)"),
        ("a; b", "'; b' is not understood; a name with other characters"),
        ("(" * 60 + "a" + ")" * 60, "more than 50 brackets"),
        ("-" * 400 + "a", "more than 50"),
        ("a+" * 300 + "a", "has 601 characters; at most 500"),
        ("max()", "is expected where '\\)' stands"),
    ],
)
def test_other_texts_are_refused_with_what_was_expected(text: str, told: str) -> None:
    with pytest.raises(ExpressionError, match=told):
        parse_expression(text)


def test_any_text_is_an_expression_or_an_error() -> None:
    rng = random.Random(5)
    pieces = [
        "a",
        "b.*.c",
        "`x y`",
        "max",
        "sum",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "1",
        "2.5",
        " ",
        "'",
        "\n",
        "é",
    ]
    for _ in range(instances(20_000, 2_000)):
        text = "".join(rng.choices(pieces, k=rng.randint(0, 12)))
        with suppress(ExpressionError):
            parse_expression(text)
