"""Announcement profiles: how births, values and outlooks are drawn.

`ray_sim/experiments/inputs/layer_file.py` reads them from YAML, `announce` draws by them. The fields
are the keys of the file, so their names, units and defaults are public: docs/engine.md lists them. A new
field with a default changes nothing that is drawn only if the draws of the others keep their keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, Self

import polars as pl
from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from ray_sim.model.units import MAX_TIME_S
from ray_sim.model.value_function import MAX_WORTH
from workloads.documents import Entry
from workloads.schema import MAX_COUNT, Column
from workloads.training.draws import Draw, Multiple, parse_draw

MOST_LEAD_S = 2**30
"""Longest lead (34 years)."""

LEAST_SLACK = 0.01
"""Least slack, in expected durations."""

MOST_DURATION_POINTS = 15
"""Most points of a lognormal error; the outermost of more have no noticeable probability."""

_HISTORY_JOBS = 50
"""Default of `history_jobs`."""


def _draw(column: Column, given: object) -> Draw:
    draw = parse_draw(given, column)
    if isinstance(draw, Multiple):
        raise ValueError("must not be a multiple of a column")
    return draw


def _drawn(name: str, minimum: float, maximum: float) -> Callable[[object], Draw]:
    """Reader of a draw of numbers in a range."""
    return partial(_draw, Column(name, pl.Float64(), "", minimum=minimum, maximum=maximum))


def _pair(given: object) -> object:
    return tuple(given) if isinstance(given, list) else given


ValueKind = Literal["deadline", "step", "linear", "sigmoid", "utility"]
Owner = Literal["user", "vc"]
Lead = Annotated[Draw, PlainValidator(_drawn("lead_s", 0, MOST_LEAD_S))]
Worth = Annotated[Draw, PlainValidator(_drawn("worth", 0, MAX_WORTH))]
WorthLimit = Annotated[float, Field(ge=0, le=MAX_WORTH, allow_inf_nan=False, strict=False)]
Slack = Annotated[Draw, PlainValidator(_drawn("slack", LEAST_SLACK, MAX_COUNT))]
Tail = Annotated[float, Field(gt=0, le=MAX_TIME_S, allow_inf_nan=False, strict=False)]


class ValueDraws(Entry, arbitrary_types_allowed=True):
    """Draws of a value function."""

    form: ValueKind = "deadline"
    worth_per_gpu_hour: Worth | None = None
    """Units for each GPU and hour of the expected run; None where `worth` is drawn."""
    worth: Worth | None = None
    """Units of the whole job; None where `worth_per_gpu_hour` is drawn."""
    worth_range: Annotated[tuple[WorthLimit, WorthLimit], BeforeValidator(_pair)] | None = None
    """Least and most units of a job: a draw outside becomes the nearer of them; None for no limits."""
    slack: Slack | None = None
    """Time from the expected arrival until the worth begins to fall, in expected durations; None for the
    form ``utility``, whose worth is the job's utility."""
    most_after_due_s: Tail | None = None
    """For the form ``utility``: the worth is 0 from so long after `utility_due_s` on."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.worth_range is not None and self.worth_range[0] > self.worth_range[1]:
            raise ValueError("`worth_range`: expected [least, most], the least first")
        if self.form == "utility":
            drawn = ("worth", "worth_per_gpu_hour", "worth_range", "slack")
            if given := [name for name in drawn if getattr(self, name) is not None]:
                raise ValueError(f"{', '.join(given)}: with `form: utility` the worth is the job's utility")
            if self.most_after_due_s is None:
                raise ValueError("`most_after_due_s`: is missing; a worth must end")
            return self
        if (self.worth is None) == (self.worth_per_gpu_hour is None):
            raise ValueError("expected either `worth_per_gpu_hour` or `worth`")
        if self.slack is None:
            raise ValueError("`slack`: is missing")
        if self.most_after_due_s is not None:
            raise ValueError("`most_after_due_s`: only with `form: utility`")
        return self


@dataclass(frozen=True, slots=True)
class History:
    """Durations of an owner's earlier jobs as the outlook of a job."""

    of: Owner
    jobs: int
    """Most recent jobs that count, >= 1."""
    points: int
    """Most points of the distribution, >= 1."""


class OutlookDraws(Entry):
    """Construction of an outlook."""

    construction: Literal["lognormal", "history"] = "lognormal"
    duration_error: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
    """Standard deviation of the natural logarithm of the announced durations."""
    duration_points: Annotated[int, Field(ge=1, le=MOST_DURATION_POINTS)] = 5
    """Points of the lognormal construction, and most points of a history."""
    arrival_jitter: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Largest distance of the arrival from the announced one, as a share of the lead."""
    history_of: Owner | None = None
    history_jobs: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None

    @model_validator(mode="after")
    def _whose_history(self) -> Self:
        given = self.history_of is not None or self.history_jobs is not None
        if self.construction == "lognormal" and given:
            raise ValueError("`history_of` and `history_jobs`: only with `construction: history`")
        if self.construction == "history" and self.history_of is None:
            raise ValueError("expected `history_of: user` or `history_of: vc`")
        return self

    @property
    def history(self) -> History | None:
        """None for the lognormal construction of every job."""
        if self.history_of is None:
            return None
        return History(self.history_of, self.history_jobs or _HISTORY_JOBS, self.duration_points)


class Announcements(Entry, arbitrary_types_allowed=True):
    """The section `announcements` of a profile."""

    lead_s: Lead
    """Seconds from the birth to the announced arrival."""
    value: ValueDraws
    outlook: OutlookDraws


@dataclass(frozen=True, slots=True)
class AnnouncementDraws:
    """An announcement profile."""

    name: str
    title: str
    sha256: str
    """SHA-256 of the profile file."""
    lead_s: Draw
    """As the next two, see `Announcements`."""
    value: ValueDraws
    outlook: OutlookDraws
