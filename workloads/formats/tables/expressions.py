"""Expressions in mapping files: numbers and dates of a row computed from its cells, in a closed grammar.

    expression = term {("+" | "-") term}
    term       = factor {("*" | "/") factor}
    factor     = number | column | "(" expression ")" | "-" factor
                 | function "(" expression {"," expression} ")"

A column is its name, in backticks where it has other characters than letters, digits, ``_`` and dots. The
functions are those of `FUNCTIONS`. Nothing else is understood, so nothing of a mapping file is run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import polars as pl

FUNCTIONS = ("max", "min", "sum", "first", "count")
"""Of several expressions, or of one column that holds a list (its path has a star)."""

MAX_LENGTH = 500

_MOST_NESTED = 50

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)|(?P<name>[^\W\d]\w*(?:\.(?:\*|\w+))*)"
    r"|`(?P<quoted>[^`]+)`|(?P<sign>[-+*/(),]))"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Value of an expression in each row, seconds since 1970 of a date, and its kind."""

    value: pl.Expr
    """With local dates of an hour that came twice in its first pass."""
    latest: pl.Expr
    """With those that are added in their second pass."""
    dates: pl.Expr = field(default_factory=lambda: pl.lit(0))
    """0 of a number, 1 of a date; the difference of two dates is a number, their sum is neither."""

    @classmethod
    def number(cls, value: pl.Expr) -> Quantity:
        """A number."""
        return cls(value, value)

    @property
    def forward(self) -> pl.Expr:
        """The value, or `latest` where only that is not negative: time does not run backwards."""
        turned = (self.value < 0) & (self.latest >= 0)
        return pl.when(turned).then(self.latest).otherwise(self.value)


class Steps:
    """Rows with a column for each part of an expression, or polars would compute a part again for each use.

    Parameters
    ----------
    name : begin of the names of these columns
    inputs : value of each input, by label
    """

    def __init__(self, rows: pl.LazyFrame, name: str, inputs: Mapping[str, Quantity]) -> None:
        self.rows = rows
        self.inputs = inputs
        self._name = name
        self._count = 0

    def held(self, part: Quantity) -> Quantity:
        """The same value, in columns of the rows; NaN where it is infinite, which has no right sign."""
        value, latest = (
            pl.when(each.is_infinite()).then(math.nan).otherwise(each) for each in (part.value, part.latest)
        )
        fields = {"value": value, "latest": latest, "dates": part.dates}
        self._count += 1
        named = {f"{self._name} {self._count} {field}": expr for field, expr in fields.items()}
        self.rows = self.rows.with_columns(**named)
        return Quantity(*(pl.col(name) for name in named))


class Input(NamedTuple):
    """What an expression needs of a row: a column, or a function of a column that holds a list."""

    column: str
    function: str = ""

    @property
    def label(self) -> str:
        """Its text in an expression."""
        return f"{self.function}({self.column})" if self.function else self.column


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; it is called with the rows and the values of its inputs for its own value."""

    inputs: tuple[Input, ...]
    """Each once."""
    _apply: Callable[[Steps], Quantity]

    def __call__(self, steps: Steps) -> Quantity:
        return self._apply(steps)


class ExpressionError(ValueError):
    """A text is no expression; the message says where and what was expected."""


def parse_expression(text: str) -> Expression:
    """The expression that a text holds; raises `ExpressionError` for another."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    parser = _Parser(text)
    apply = parser.sum()
    parser.expect("end")
    return Expression(tuple(dict.fromkeys(parser.inputs)), apply)


def quoted(column: str) -> str:
    """The name of a column as it stands in an expression."""
    found = _TOKEN.fullmatch(column)
    plain = found is not None and found.lastgroup == "name" and column not in FUNCTIONS
    return column if plain else f"`{column}`"


_Apply = Callable[[Steps], Quantity]


class _Parser:
    """One pass over the tokens of a text, from left to right."""

    def __init__(self, text: str) -> None:
        self.inputs: list[Input] = []
        self._tokens = list(_tokens(text))
        self._at = 0
        self._nested = 0

    def sum(self) -> _Apply:
        left = self._product()
        while self._sign in ("+", "-"):
            left = _combined(self._next(), left, self._product())
        return left

    def _product(self) -> _Apply:
        left = self._factor()
        while self._sign in ("*", "/"):
            left = _combined(self._next(), left, self._factor())
        return left

    def _factor(self) -> _Apply:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ExpressionError(f"has more than {_MOST_NESTED} brackets in each other")
        factor = self._any_factor()
        self._nested -= 1
        return factor

    def _any_factor(self) -> _Apply:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return lambda _: Quantity.number(pl.lit(float(text)))
        if kind == "name" and self._sign == "(":
            return self._function(text)
        if kind in ("name", "quoted"):
            if "*" in text.split("."):
                raise ExpressionError(
                    f"'{text}' is a list; say which of its numbers is wanted, as in sum({text}); functions: "
                    + ", ".join(FUNCTIONS)
                )
            self.inputs.append(Input(text))
            return lambda steps: steps.inputs[text]
        if text == "(":
            inner = self.sum()
            self.expect(")")
            return inner
        if text == "-":
            return _combined("-", lambda _: Quantity.number(pl.lit(0.0)), self._factor())
        raise ExpressionError(f"a number, a column or a function is expected {_where(kind, text)}")

    def _function(self, name: str) -> _Apply:
        if name not in FUNCTIONS:
            raise ExpressionError(f"there is no function '{name}'; functions: {', '.join(FUNCTIONS)}")
        self.expect("(")
        kind, text = self._tokens[self._at]
        if kind in ("name", "quoted") and "*" in text.split("."):
            self._at += 1
            self.expect(")")
            self.inputs.append(of_list := Input(text, name))
            return lambda steps: steps.inputs[of_list.label]
        parts = [self.sum()]
        while self._sign == ",":
            self._next()
            parts.append(self.sum())
        self.expect(")")
        return lambda steps: steps.held(_of_several(name, [part(steps) for part in parts]))

    @property
    def _sign(self) -> str:
        kind, text = self._tokens[self._at]
        return text if kind == "sign" else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def expect(self, wanted: str) -> None:
        kind, text = self._tokens[self._at]
        if wanted not in (kind, text):
            raise ExpressionError(
                f"{'the end' if wanted == 'end' else wanted} is expected {_where(kind, text)}"
            )
        self._at += 1


def _where(kind: str, text: str) -> str:
    return "at the end" if kind == "end" else f"where '{text}' stands"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ExpressionError(
                f"'{text[at:].strip()[:20]}' is not understood; a name with other characters than letters, "
                "digits, _ and dots stands in backticks"
            )
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()
    yield "end", ""


def _combined(sign: str, first: _Apply, second: _Apply) -> _Apply:
    def apply(steps: Steps) -> Quantity:
        a, b = first(steps), second(steps)
        return steps.held(_operation(sign, a, b))

    return apply


def _operation(sign: str, a: Quantity, b: Quantity) -> Quantity:
    match sign:
        case "+":
            return _number_if_none(
                Quantity(a.value + b.value, a.latest + b.latest, _kind(a.dates, b.dates, 1)), a
            )
        case "-":
            return _number_if_none(
                Quantity(a.value - b.value, a.latest - b.value, _kind(a.dates, b.dates, -1)), a
            )
        case "*":
            return Quantity(a.value * b.value, a.latest * b.latest, _number_or_neither(a.dates, b.dates))
    return Quantity(a.value / b.value, a.latest / b.value, _number_or_neither(a.dates, b.dates))


_NEITHER = 1000
"""Kind of what is neither a number nor a date, such as the product of dates."""


def _number_if_none(result: Quantity, left: Quantity) -> Quantity:
    """A sum or difference; where it takes away the date on its left, a number by `forward`."""
    gone = (left.dates != 0) & (result.dates == 0)
    return replace(result, value=pl.when(gone).then(result.forward).otherwise(result.value))


def _kind(a: pl.Expr, b: pl.Expr, sign: int) -> pl.Expr:
    """Kind of a sum or, by a sign of -1, of a difference."""
    neither = a.abs() + b.abs() >= _NEITHER / 2
    return pl.when(neither).then(_NEITHER).otherwise(a + sign * b)


def _number_or_neither(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Kind of a product or quotient; null where a factor is absent, as the result is."""
    dates = a.abs() + b.abs()
    return pl.when(dates > 0).then(_NEITHER).otherwise(dates)


def _of_several(name: str, parts: Sequence[Quantity]) -> Quantity:
    known = [part.value.is_not_null() for part in parts]
    kinds = [pl.when(here).then(part.dates) for part, here in zip(parts, known, strict=True)]
    if name == "count":
        return Quantity.number(pl.sum_horizontal(here.cast(pl.Float64) for here in known))
    least, most = pl.min_horizontal(kinds), pl.max_horizontal(kinds)
    alike = pl.when(least != most).then(_NEITHER).otherwise(most)
    kind = {"sum": pl.sum_horizontal(kinds, ignore_nulls=False), "first": pl.coalesce(kinds)}.get(name, alike)
    joined = _JOINED[name]
    value, latest = joined([part.value for part in parts]), joined([part.latest for part in parts])
    if name in ("max", "min"):  # polars passes over NaN, and an infinite one has no right sign
        none = pl.any_horizontal(~part.value.is_finite().fill_null(value=True) for part in parts)
        value, latest = (pl.when(none).then(math.nan).otherwise(each) for each in (value, latest))
    return Quantity(value, latest, kind)


_JOINED: dict[str, Callable[[list[pl.Expr]], pl.Expr]] = {
    "sum": partial(pl.sum_horizontal, ignore_nulls=False),
    "first": pl.coalesce,
    "max": pl.max_horizontal,
    "min": pl.min_horizontal,
}
