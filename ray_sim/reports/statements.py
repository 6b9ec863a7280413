"""Statements about the shape of a figure: Python functions, each of which yields comparisons of means.

A `Check` of a figure file names a function and its arguments, see docs/reproduce.md; also one of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
    validate_call,
)

from ray_sim.model.units import FloatArray
from ray_sim.reports.shape_samples import (
    Comparison,
    Ends,
    Places,
    Samples,
    X,
    difference,
    mean_within,
    ratio_change,
    ratio_within,
)
from ray_sim.user_code import load, users_code

Statement = Callable[..., Iterator[Comparison]]
"""Function of `Runs` and of the arguments in the figure file; raises `ValueError` where they do not fit."""

Direction = Literal["rises", "falls"]
Fraction = Annotated[float, Field(gt=0, lt=1)]


def each_once(names: list[X]) -> list[X]:
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"must name each once, got {repeated[0]!r} twice")
    return names


Once = AfterValidator(each_once)
"""Refuses a list that names something twice."""

At = Literal["every", "mean"] | list[X]
"""Values of x of a statement: every one, their mean seed by seed, or those listed."""


def _rising(ends: Ends) -> Ends:
    low, high = ends
    if low is None and high is None:
        raise ValueError("must have a number at one end, got [null, null]")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"must be [LOW, HIGH] with LOW below HIGH, got [{low:g}, {high:g}]")
    return ends


Between = Annotated[
    Ends,
    BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given),
    AfterValidator(_rising),
]
"""Ends as a list, at least one of them a number."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of a figure as a statement sees them."""

    samples: Samples
    series: Sequence[str]
    xs: Sequence[X]
    """All values of x of the figure, in order."""
    at: At
    sign: float
    """1 where higher values of the metric are better, -1 where lower ones are."""

    def places(self, least: int = 1) -> list[Places]:
        """Values of x of the statement, in order; those of a mean are one group.

        Raises
        ------
        ValueError : there are no such x, fewer than `least`, or they are averaged where `least` is above 1
        """
        if self.at == "mean" and least > 1:
            raise ValueError("compares values of x; list them in `at`, or leave it out")
        listed = self._known(self.at if isinstance(self.at, list) else self.xs)
        groups: list[Places] = [(x,) for x in self.xs if x in listed]
        groups = [tuple(self.xs)] if self.at == "mean" else groups
        if len(groups) < least:
            raise ValueError(f"needs {least} values of x or more, got {len(groups)}")
        return groups

    def _known(self, xs: Sequence[X]) -> Sequence[X]:
        if unknown := [x for x in xs if x not in self.xs]:
            raise ValueError(f"no x {unknown[0]!r}; the figure has {', '.join(map(str, self.xs))}")
        return xs

    def compare(self, build: Callable[..., Comparison], text: str, *cells: tuple[str, Places]) -> Comparison:
        """Comparison that `build` makes of a text and the values of cells, series with their values of x.

        Raises
        ------
        ValueError : a series or an x is not in the figure, or a cell is compared with itself
        """
        for series, xs in cells:
            if series not in self.series:
                raise ValueError(f"no series '{series}'; the figure has {', '.join(self.series)}")
            self._known(xs)
        if cells[0] in cells[1:2]:
            raise ValueError(f"{cells[0][0]}{_at(cells[0][1])} is compared with itself")
        return replace(build(text, *self.samples.paired(*cells)), exact=self.samples.exact(*cells))


def order(runs: Runs, best_first: Annotated[list[str], Field(min_length=2), Once]) -> Iterator[Comparison]:
    """Each series is better than the next."""
    for group, (better, worse) in product(runs.places(), pairwise(best_first)):
        build = partial(difference, sign=runs.sign)
        yield runs.compare(build, f"{better} - {worse}{_at(group)}", (better, group), (worse, group))


def beats(
    runs: Runs, of: str, others: Annotated[list[str], Field(min_length=1), Once]
) -> Iterator[Comparison]:
    """A series is better than each of the others."""
    for group, other in product(runs.places(), others):
        build = partial(difference, sign=runs.sign)
        yield runs.compare(build, f"{of} - {other}{_at(group)}", (of, group), (other, group))


def ratio(runs: Runs, of: str, over: str, between: Between) -> Iterator[Comparison]:
    """The ratio of the means of two series lies in a range."""
    for group in runs.places():
        build = partial(ratio_within, ends=between)
        yield runs.compare(build, f"{of} / {over}{_at(group)}", (of, group), (over, group))


def equal(runs: Runs, of: str, to: str, within: Fraction) -> Iterator[Comparison]:
    """The means of two series differ by at most a fraction of the second."""
    return ratio(runs, of, to, (1 - within, 1 + within))


def mean(runs: Runs, of: str, between: Between) -> Iterator[Comparison]:
    """The mean of a series lies in a range."""
    for group in runs.places():
        build = partial(mean_within, ends=between, values=runs.samples.range)
        yield runs.compare(build, f"{of}{_at(group)}", (of, group))


def as_published(
    runs: Runs,
    of: str,
    means: Annotated[dict[X, float], Field(min_length=1)],
    seeds: Annotated[int, Field(gt=1)],
) -> Iterator[Comparison]:
    """The mean of a series is within three standard errors of a published mean over some seeds, at each x.

    The standard error is that of the difference of both means, if seeds spread there as they do here.
    """
    for x, published in means.items():

        def near(text: str, value: FloatArray, published: float = published) -> Comparison:
            spread = float(np.std(value, ddof=1)) if len(value) > 1 else 0.0
            reach = 3 * spread * np.sqrt(1 / max(len(value), 1) + 1 / seeds)
            return mean_within(text, value, (published - reach, published + reach), runs.samples.range)

        yield runs.compare(near, f"{of}{_at((x,))}", (of, (x,)))


def stays(runs: Runs, of: str, within: Fraction) -> Iterator[Comparison]:
    """The mean of a series differs from that at the first x by at most a fraction of it."""
    first, *others = runs.places(2)
    for group in others:
        build = partial(ratio_within, ends=(1 - within, 1 + within))
        text = f"{of}, x = {_name(group)} / x = {_name(first)}"
        yield runs.compare(build, text, (of, group), (of, first))


def monotone(runs: Runs, of: str, direction: Direction, flattens: bool = False) -> Iterator[Comparison]:
    """The mean of a series rises or falls from each x to the next, perhaps less at the end than at first."""
    groups, build = runs.places(3 if flattens else 2), partial(difference, sign=_up(direction))
    for before, after in pairwise(groups):
        yield runs.compare(build, f"{of}, {_step(before, after)}", (of, after), (of, before))
    if flattens:
        ends = (*groups[:2], *groups[-2:])
        (first, second), (last_but_one, last) = _numbers(groups[:2]), _numbers(groups[-2:])

        def slopes(text: str, *values: FloatArray) -> Comparison:
            at_first = (values[1] - values[0]) / (second - first)
            return build(text, at_first, (values[3] - values[2]) / (last - last_but_one))

        yield runs.compare(slopes, f"{of}, first slope - last slope", *((of, group) for group in ends))


def linear(runs: Runs, of: str, within: Fraction) -> Iterator[Comparison]:
    """The mean of a series is near the straight line from its first to its last point.

    `within` is the largest distance, as a fraction of the line's value.
    """
    groups = runs.places(3)
    low, *inner, high = _numbers(groups)
    for group, x in zip(groups[1:-1], inner, strict=True):
        share = (x - low) / (high - low)

        def to_line(
            text: str, value: FloatArray, at_low: FloatArray, at_high: FloatArray, share: float = share
        ) -> Comparison:
            line = (1 - share) * at_low + share * at_high
            return ratio_within(text, value, line, (1 - within, 1 + within))

        yield runs.compare(
            to_line, f"{of} / line{_at(group)}", *((of, each) for each in (group, groups[0], groups[-1]))
        )


def grows(
    runs: Runs, of: str, over: str, gap: Literal["difference", "ratio"], direction: Direction = "rises"
) -> Iterator[Comparison]:
    """The difference or the ratio of two series rises or falls from each x to the next."""
    sign = _up(direction)

    def change(text: str, a: FloatArray, b: FloatArray, next_a: FloatArray, next_b: FloatArray) -> Comparison:
        if gap == "ratio":
            return ratio_change(text, (a, b), (next_a, next_b), sign)
        return difference(text, next_a - next_b, a - b, sign)

    shown = f"{of} / {over}" if gap == "ratio" else f"({of} - {over})"
    for before, after in pairwise(runs.places(2)):
        cells = [(name, group) for group in (before, after) for name in (of, over)]
        yield runs.compare(change, f"{shown}, {_step(before, after)}", *cells)


def best_at(
    runs: Runs, of: str, x: X, against: Annotated[list[X], Field(min_length=1), Once]
) -> Iterator[Comparison]:
    """A series is better at one x than at others."""
    build = partial(difference, sign=runs.sign)
    for other in against:
        yield runs.compare(build, f"{of}, x = {x} - x = {other}", (of, (x,)), (of, (other,)))


_CONFIG = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
STATEMENTS: dict[str, Statement] = {
    "order": order,
    "beats": beats,
    "ratio": ratio,
    "range": mean,
    "as_published": as_published,
    "equal": equal,
    "stays": stays,
    "monotone": monotone,
    "linear": linear,
    "grows": grows,
    "best_at": best_at,
}
"""Functions by their name in a figure file."""


def checked(statement: Statement) -> Statement:
    """The function with strict types of its arguments; wrong ones raise pydantic's `ValidationError`."""
    return validate_call(config=_CONFIG)(statement)


def _name(group: Places) -> str:
    return ", ".join(map(str, group))


def _at(group: Places) -> str:
    return f" at {group[0]}" if len(group) == 1 else ", mean over x"


def _step(before: Places, after: Places) -> str:
    return f"from {_name(before)} to {_name(after)}"


def _up(direction: str) -> float:
    return 1.0 if direction == "rises" else -1.0


def _numbers(groups: Sequence[Places]) -> list[float]:
    """Values of x as rising numbers; raises `ValueError` where they are not."""
    numbers = [x for (x,) in groups if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < len(groups) or any(after <= before for before, after in pairwise(numbers)):
        raise ValueError("needs rising numbers as x; give one for each name in `x.values`")
    return [float(x) for x in numbers]


class Check(BaseModel):
    """One statement about a figure: its name, a function, and the function's arguments under its name."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]
    """The statement as a sentence."""
    at: At = "every"
    metric: str | None = None
    """Metric in place of the figure's."""
    published: str | None = None
    """The paper's statement or number, in a few words."""
    because: str | None = None
    """Name of another check of the figure, which tells by its runs why this one does not appear."""

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        given = list(self.model_extra or {})
        if len(given) != 1 or not (":" in given[0] or given[0] in STATEMENTS):
            known = f"{', '.join(STATEMENTS)}, module:FUNCTION"
            raise ValueError(f"expected one of {known}; found {' and '.join(given) or 'none'}")
        if isinstance(self.at, list):
            each_once(self.at)
        if self.at == []:
            raise ValueError("`at`: must name at least one x, got []")
        return self

    @property
    def statement(self) -> str:
        """Name of the function."""
        return next(iter(self.model_extra or {}))

    def compare(
        self, samples: Samples, series: Sequence[str], xs: Sequence[X], *, lower: bool
    ) -> list[Comparison]:
        """Comparisons of the statement.

        Parameters
        ----------
        samples : values of the check's metric
        series, xs : all of the figure, in order
        lower : whether lower values of the metric are better

        Raises
        ------
        ValidationError, ValueError : the arguments, the series or the values of x do not fit
        InvalidInputError : a function of the user's cannot be loaded, or fails
        """
        runs = Runs(samples, series, xs, self.at, -1.0 if lower else 1.0)
        name, given = self.statement, (self.model_extra or {})[self.statement]
        function: Statement = STATEMENTS.get(name) or load("statement", name, callable)
        if not isinstance(given, dict):
            given = {list(inspect.signature(function).parameters)[1]: given}
        with users_code(f"statement '{name}' failed", passes=ValueError):
            return list(checked(function)(runs, **given))
