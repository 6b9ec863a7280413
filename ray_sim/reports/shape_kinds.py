"""Kinds of statements about the shape of a published figure, as a figure file writes them.

A figure has series, each with a value per x and seed. The names of series and the values of x in a statement
are those of the figure. See docs/reproduce.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

X = bool | int | float | str | None
"""A value of x: a number, or the name of a category."""

At = Literal["every", "mean"] | list[X]
"""Values of x of a statement: every one, their mean seed by seed, or those listed."""

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
    """Base class of the kinds: frozen, without unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        raise NotImplementedError

    def places(self) -> tuple[X, ...]:
        """Values of x that the statement itself names."""
        return ()

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from ()


class Order(Kind):
    """Each series is better than the next."""

    best_first: Annotated[list[str], Field(min_length=2)]

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return tuple(self.best_first)


class Ratio(Kind):
    """The ratio of the means of two series lies in a range."""

    of: str
    over: str
    between: Between

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.over


class Range(Kind):
    """The mean of a series lies in a range."""

    of: str
    between: Between

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return (self.of,)


class Equal(Kind):
    """The means of two series differ by at most a fraction of the second."""

    of: str
    to: str
    within: Fraction

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.to


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


class Grows(Kind):
    """The difference or the ratio of two series rises or falls from each x to the next."""

    of: str
    over: str
    gap: Literal["difference", "ratio"]
    direction: Literal["rises", "falls"] = "rises"

    def series(self) -> tuple[str, ...]:
        """Names of the series in the statement."""
        return self.of, self.over

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        yield from _too_few(xs, 2)


class Crossing(Kind):
    """One series is better than another up to some x, and worse from a larger one on."""

    better: str
    than: str
    below: float
    above: float

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

    def problems(self, xs: Sequence[X]) -> Iterator[str]:
        """Yield what prevents the statement at these values of x."""
        if self.x in self.against:
            yield f"against: must not hold {self.x!r}, which is x"


KINDS: dict[str, type[Kind]] = {
    "order": Order,
    "ratio": Ratio,
    "range": Range,
    "equal": Equal,
    "monotone": Monotone,
    "linear": Linear,
    "grows": Grows,
    "crossing": Crossing,
    "best_at": BestAt,
}
"""Kinds by their key in a check."""

_OWN_PLACES = (Crossing, BestAt)
"""Kinds that name their values of x themselves, so that a check of them has no `at`."""

_STEPS = (Monotone, Linear, Grows)
"""Kinds that compare several values of x, so that a mean over them says nothing."""


def _series_alone(given: object) -> object:
    return {"best_first": given} if isinstance(given, list) else given


class Check(BaseModel):
    """One statement about a figure."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1)]
    """The statement as a sentence."""
    order: Annotated[Order | None, BeforeValidator(_series_alone)] = None
    ratio: Ratio | None = None
    range: Range | None = None
    equal: Equal | None = None
    monotone: Monotone | None = None
    linear: Linear | None = None
    grows: Grows | None = None
    crossing: Crossing | None = None
    best_at: BestAt | None = None
    at: At = "every"
    metric: str | None = None
    """Metric in place of the figure's."""
    published: str | None = None
    """What the paper says, in a few words or numbers."""
    because: str | None = None
    """Reason why the shape does not appear, where it does not."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [key for key in KINDS if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one of {', '.join(KINDS)}; found {found}")
        if self.at == []:
            raise ValueError("`at`: must name at least one x, got []")
        if self.at != "every" and isinstance(self.kind, _OWN_PLACES):
            raise ValueError(f"`at`: {given[0]} names its values of x itself; leave it out")
        if self.at == "mean" and isinstance(self.kind, _STEPS):
            raise ValueError(f"`at`: {given[0]} compares values of x; list them, or leave it out")
        return self

    @property
    def kind_name(self) -> str:
        """Key of the kind in `KINDS`."""
        return next(key for key in KINDS if getattr(self, key) is not None)

    @property
    def kind(self) -> Kind:
        """The statement itself."""
        kind: Kind = getattr(self, self.kind_name)
        return kind

    def places(self, xs: Sequence[X]) -> list[X]:
        """The values of x of the statement, in the figure's order.

        Parameters
        ----------
        xs : all of the figure, in order
        """
        return [x for x in xs if x in self.at] if isinstance(self.at, list) else list(xs)

    def problems(self, series: Collection[str], xs: Sequence[X]) -> Iterator[str]:
        """Yield what does not fit the figure's series and values of x."""
        for name in self.kind.series():
            if name not in series:
                yield f"{self.kind_name}: no series '{name}'; the figure has {', '.join(series)}"
        named = [*(self.at if isinstance(self.at, list) else []), *self.kind.places()]
        for x in named:
            if x not in xs:
                yield f"no x {x!r}; the figure has {', '.join(map(str, xs))}"
        if all(x in xs for x in named):
            yield from (f"{self.kind_name}: {text}" for text in self.kind.problems(self.places(xs)))


def repeated(values: Sequence[object]) -> object | None:
    """The first value that an earlier one equals; None if all differ."""
    return next((value for index, value in enumerate(values) if value in values[:index]), None)


def _too_few(xs: Sequence[X], least: int) -> Iterator[str]:
    if len(xs) < least:
        yield f"needs {least} values of x or more, got {len(xs)}"


def _not_numbers(xs: Sequence[X], what: str) -> Iterator[str]:
    other = [x for x in xs if isinstance(x, bool) or not isinstance(x, int | float)]
    if other:
        yield f"{what} needs numbers as x, got {other[0]!r}; give one in `x.values`"
    elif any(after <= before for before, after in pairwise(map(float, xs))):  # type: ignore[arg-type]
        yield f"{what} needs rising values of x"
