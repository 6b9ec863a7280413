"""Kinds of statements about the shape of a published figure, as a figure file writes them.

A figure has series, each with a value per x and seed. The names of series and the values of x in a statement
are those of the figure. See docs/reproduce.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ray_sim.reports.shape_samples import (
    Comparison,
    Places,
    Samples,
    X,
    difference,
    ratio,
    ratio_change,
    within,
)

Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


def _rising(ends: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    low, high = ends
    if low is None and high is None:
        raise ValueError("must have a number at one end, got [null, null]")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"must be [LOW, HIGH] with LOW below HIGH, got [{low:g}, {high:g}]")
    return ends


Between = Annotated[
    tuple[float | None, float | None],
    BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given),
    AfterValidator(_rising),
]
"""Range of a number; null is an open end."""


class Kind(BaseModel):
    """Base class of the kinds: frozen, without unknown keys, silent conversions, infinity and NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        raise NotImplementedError

    def places(self) -> tuple[X, ...]:
        """Values of x that the statement itself names."""
        return ()

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from ()

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement.

        Parameters
        ----------
        groups : the values of x of the statement; several in one group are averaged
        sign : 1 where higher values of the metric are better, -1 where lower ones are
        """
        raise NotImplementedError


def _each_once(series: list[str]) -> list[str]:
    if repeated := [name for name in series if series.count(name) > 1]:
        raise ValueError(f"must name each series once, got '{repeated[0]}' twice")
    return series


class Order(Kind):
    """Each series is better than the next."""

    best_first: Annotated[list[str], Field(min_length=2), AfterValidator(_each_once)]

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return tuple(self.best_first)

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for group in groups:
            for better, worse in pairwise(self.best_first):
                cells = (better, group), (worse, group)
                found = difference(f"{better} - {worse}{_at(group)}", *samples.pair(*cells), sign)
                yield replace(found, exact=samples.exact(*cells))


class Ratio(Kind):
    """The ratio of the means of two series lies in a range."""

    of: str
    over: str
    between: Between

    @model_validator(mode="after")
    def _two_series(self) -> Self:
        _refuse_equal("over", self.over, self.of)
        return self

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.over

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for group in groups:
            cells = (self.of, group), (self.over, group)
            found = ratio(f"{self.of} / {self.over}{_at(group)}", *samples.pair(*cells), *self.between)
            yield replace(found, exact=samples.exact(*cells))


class Range(Kind):
    """The mean of a series lies in a range."""

    of: str
    between: Between

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return (self.of,)

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for group in groups:
            (values,) = samples.paired((self.of, group))
            found = within(f"{self.of}{_at(group)}", values, *self.between, samples.range)
            yield replace(found, exact=samples.exact((self.of, group)))


class Equal(Kind):
    """The means of two series differ by at most a fraction of the second."""

    of: str
    to: str
    within: Fraction

    @model_validator(mode="after")
    def _two_series(self) -> Self:
        _refuse_equal("to", self.to, self.of)
        return self

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.to

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for group in groups:
            cells = (self.of, group), (self.to, group)
            ends = 1 - self.within, 1 + self.within
            found = ratio(f"{self.of} / {self.to}{_at(group)}", *samples.pair(*cells), *ends)
            yield replace(found, exact=samples.exact(*cells))


class Monotone(Kind):
    """The mean of a series rises, falls or stays from each x to the next."""

    of: str
    direction: Literal["rises", "falls", "stays"]
    within: Fraction | None = None
    """For `stays`: largest difference to the first x, as a fraction of the mean there."""
    flattens: bool = False
    """Whether the last step is also less steep than the first, per unit of x."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.direction == "stays") != (self.within is not None):
            raise ValueError("`within`: needed with `direction: stays`, and only there")
        if self.flattens and self.direction == "stays":
            raise ValueError("`flattens`: only where the series rises or falls")
        return self

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return (self.of,)

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from _too_few(xs, 3 if self.flattens else 2)
        if self.flattens:
            yield from _not_numbers(xs, "flattens")

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        if self.within is not None:
            for group in groups[1:]:
                cells = (self.of, group), (self.of, groups[0])
                text = f"{self.of}, x = {_name(group)} / x = {_name(groups[0])}"
                found = ratio(text, *samples.pair(*cells), 1 - self.within, 1 + self.within)
                yield replace(found, exact=samples.exact(*cells))
            return
        upward = 1.0 if self.direction == "rises" else -1.0
        for before, after in pairwise(groups):
            steps = (self.of, after), (self.of, before)
            found = difference(f"{self.of}, {_step(before, after)}", *samples.pair(*steps), upward)
            yield replace(found, exact=samples.exact(*steps))
        if self.flattens:
            ends = (*groups[:2], *groups[-2:])
            corners = [(self.of, group) for group in ends]
            start, second, last_but_one, last = samples.paired(*corners)
            first_slope = (second - start) / (_number(ends[1]) - _number(ends[0]))
            last_slope = (last - last_but_one) / (_number(ends[3]) - _number(ends[2]))
            found = difference(f"{self.of}, first slope - last slope", first_slope, last_slope, upward)
            yield replace(found, exact=samples.exact(*corners))


class Linear(Kind):
    """The mean of a series at each x but the first and the last is near the straight line through these."""

    of: str
    within: Fraction
    """Largest distance, as a fraction of the line's value."""

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return (self.of,)

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from _too_few(xs, 3)
        yield from _not_numbers(xs, "linear")

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        first, last = groups[0], groups[-1]
        for group in groups[1:-1]:
            cells = (self.of, group), (self.of, first), (self.of, last)
            value, low, high = samples.paired(*cells)
            share = (_number(group) - _number(first)) / (_number(last) - _number(first))
            line = (1 - share) * low + share * high
            found = ratio(f"{self.of} / line{_at(group)}", value, line, 1 - self.within, 1 + self.within)
            yield replace(found, exact=samples.exact(*cells))


class Grows(Kind):
    """The difference or the ratio of two series rises or falls from each x to the next."""

    of: str
    over: str
    gap: Literal["difference", "ratio"]
    direction: Literal["rises", "falls"] = "rises"

    @model_validator(mode="after")
    def _two_series(self) -> Self:
        _refuse_equal("over", self.over, self.of)
        return self

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.over

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from _too_few(xs, 2)

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        upward = 1.0 if self.direction == "rises" else -1.0
        for before, after in pairwise(groups):
            cells = [(name, group) for group in (before, after) for name in (self.of, self.over)]
            a, b, next_a, next_b = samples.paired(*cells)
            if self.gap == "ratio":
                text = f"{self.of} / {self.over}, {_step(before, after)}"
                found = ratio_change(text, (a, b), (next_a, next_b), upward)
            else:
                text = f"({self.of} - {self.over}), {_step(before, after)}"
                found = difference(text, next_a - next_b, a - b, upward)
            yield replace(found, exact=samples.exact(*cells))


class Crossing(Kind):
    """One series is better than another up to some x, and worse from a larger one on."""

    better: str
    than: str
    below: float
    above: float

    @model_validator(mode="after")
    def _two_series(self) -> Self:
        _refuse_equal("than", self.than, self.better)
        return self

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.better, self.than

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from _not_numbers(xs, "crossing")
        if not self.below < self.above:
            yield f"below: must be less than above, got {self.below:g} and {self.above:g}"
        numbers = [x for x in xs if isinstance(x, int | float)]
        if numbers and (min(numbers) > self.below or max(numbers) < self.above):
            yield (
                f"below: the figure needs an x of at most {self.below:g} and one of at least {self.above:g}, "
                f"it has {min(numbers):g} to {max(numbers):g}"
            )

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for group in groups:
            x = _number(group)
            side = 1.0 if x <= self.below else -1.0 if x >= self.above else None
            if side is not None:
                cells = (self.better, group), (self.than, group)
                text = f"{self.better} - {self.than}{_at(group)}"
                found = difference(text, *samples.pair(*cells), side * sign)
                yield replace(found, exact=samples.exact(*cells))


class BestAt(Kind):
    """A series is better at one x than at others."""

    of: str
    x: X
    against: Annotated[list[X], Field(min_length=1)]

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return (self.of,)

    def places(self) -> tuple[X, ...]:
        """Values of x that the statement itself names."""
        return (self.x, *self.against)

    def comparisons(self, samples: Samples, groups: Sequence[Places], sign: float) -> Iterator[Comparison]:
        """Yield the comparisons of the statement, see `Kind`."""
        for other in self.against:
            cells = (self.of, (self.x,)), (self.of, (other,))
            found = difference(f"{self.of}, x = {self.x} - x = {other}", *samples.pair(*cells), sign)
            yield replace(found, exact=samples.exact(*cells))


def _refuse_equal(key: str, name: str, other: str) -> None:
    if name == other:
        raise ValueError(f"`{key}`: must name another series, got '{name}' for both")


def _name(group: Places) -> str:
    return ", ".join(map(str, group))


def _at(group: Places) -> str:
    return f" at {group[0]}" if len(group) == 1 else ", mean over x"


def _step(before: Places, after: Places) -> str:
    return f"from {_name(before)} to {_name(after)}"


def _number(group: Places) -> float:
    """The only x of a group, which `problems` found to be a number."""
    (x,) = group
    assert isinstance(x, int | float)
    return float(x)


def _too_few(xs: Sequence[X], least: int) -> Iterator[str]:
    if len(xs) < least:
        yield f"needs {least} values of x or more, got {len(xs)}"


def _not_numbers(xs: Sequence[X], what: str) -> Iterator[str]:
    numbers = [float(x) for x in xs if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < len(xs):
        yield f"{what} needs numbers as x; give one for each name in `x.values`"
    elif any(after <= before for before, after in pairwise(numbers)):
        yield f"{what} needs rising values of x"
