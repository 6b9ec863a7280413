"""Checks of a figure file: one statement about the shape of a figure each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ray_sim.reports.shape_kinds import (
    BestAt,
    Crossing,
    Equal,
    Grows,
    Kind,
    Linear,
    Monotone,
    Order,
    Range,
    Ratio,
)
from ray_sim.reports.shape_samples import Places, X

At = Literal["every", "mean"] | list[X]
"""Values of x of a statement: every one, their mean seed by seed, or those listed."""

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

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

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

    def groups(self, xs: Sequence[X]) -> list[Places]:
        """The values of x of the statement, in the figure's order; those of a mean are one group.

        Parameters
        ----------
        xs : all of the figure, in order
        """
        if self.at == "mean":
            return [tuple(xs)]
        return [(x,) for x in xs if self.at == "every" or x in self.at]

    def problems(self, series: Collection[str], xs: Sequence[X]) -> Iterator[str]:
        """Yield what does not fit the figure's series and values of x."""
        for name in self.kind.series():
            if name not in series:
                yield f"{self.kind_name}: no series '{name}'; the figure has {', '.join(series)}"
        named = [*(self.at if isinstance(self.at, list) else []), *self.kind.places()]
        for x in dict.fromkeys(named):
            if named.count(x) > 1 and x in xs:
                yield f"x {x!r} is named {named.count(x)} times; name each x once"
            if x not in xs:
                yield f"no x {x!r}; the figure has {', '.join(map(str, xs))}"
        if all(x in xs for x in named):
            problems = self.kind.problems([x for group in self.groups(xs) for x in group])
            yield from (f"{self.kind_name}: {text}" for text in problems)
