"""Reader of announcement profiles: YAML files with a section `announcements`, or bundled ones by name.

`layer_file.py` reads those of scenarios and sweeps, `cli/enrich.py` those of `ray-sim enrich`. The fields
of the models are the keys of the file, so their names, units and defaults are public: docs/announced.md lists
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, Self

import polars as pl
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

import workloads
from ray_sim.experiments.inputs.profile_files import Label, ProfileFiles, is_profile_file
from ray_sim.model.units import MAX_TIME_S
from ray_sim.model.value_function import MAX_WORTH
from workloads.announcements.profile import (
    AnnouncementDraws,
    History,
    OutlookDraws,
    Owner,
    ValueDraws,
    ValueKind,
)
from workloads.column import MAX_COUNT, Column
from workloads.sources import Source
from workloads.training.draws import Draw, Multiple, parse_draw

MOST_LEAD_S = 2**30
"""Longest lead (34 years)."""

LEAST_SLACK = 0.01
"""Least slack, in expected durations."""

MOST_DURATION_POINTS = 15
"""Most points of a lognormal error; the outermost of more have no noticeable probability."""

_HISTORY_JOBS = 50
"""Default of `history_jobs`."""

ANNOUNCEMENT_PROFILES = ProfileFiles("announcement profile", workloads.__path__, "announcements/profiles")


def _draw(column: Column, given: object) -> Draw:
    draw = parse_draw(given, column)
    if isinstance(draw, Multiple):
        raise ValueError("must not be a multiple of a column")
    return draw


def _drawn(name: str, minimum: float, maximum: float) -> Callable[[object], Draw]:
    """Reader of a draw of numbers in a range."""
    return partial(_draw, Column(name, pl.Float64(), "", minimum=minimum, maximum=maximum))


Lead = Annotated[Draw, PlainValidator(_drawn("lead_s", 0, MOST_LEAD_S))]
Worth = Annotated[Draw, PlainValidator(_drawn("worth", 0, MAX_WORTH))]
WorthLimit = Annotated[float, Field(ge=0, le=MAX_WORTH, allow_inf_nan=False, strict=False)]
Slack = Annotated[Draw, PlainValidator(_drawn("slack", LEAST_SLACK, MAX_COUNT))]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class _Value(_Entry):
    form: ValueKind = "deadline"
    worth_per_gpu_hour: Worth | None = None
    worth: Worth | None = None
    worth_range: tuple[WorthLimit, WorthLimit] | None = None
    slack: Slack | None = None
    most_after_due_s: (
        Annotated[float, Field(gt=0, le=MAX_TIME_S, allow_inf_nan=False, strict=False)] | None
    ) = None

    @field_validator("worth_range", mode="before")
    @classmethod
    def _pair(cls, given: object) -> object:
        return tuple(given) if isinstance(given, list) else given

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.worth_range is not None and self.worth_range[0] > self.worth_range[1]:
            raise ValueError("`worth_range`: expected [least, most], the least first")
        return self

    @model_validator(mode="after")
    def _one_worth(self) -> Self:
        if self.form == "utility":
            return self
        if (self.worth is None) == (self.worth_per_gpu_hour is None):
            raise ValueError("expected either `worth_per_gpu_hour` or `worth`")
        if self.slack is None:
            raise ValueError("`slack`: is missing")
        if self.most_after_due_s is not None:
            raise ValueError("`most_after_due_s`: only with `form: utility`")
        return self

    @model_validator(mode="after")
    def _worth_of_utility(self) -> Self:
        if self.form != "utility":
            return self
        drawn = ("worth", "worth_per_gpu_hour", "worth_range", "slack")
        if given := [name for name in drawn if getattr(self, name) is not None]:
            raise ValueError(f"{', '.join(given)}: with `form: utility` the worth is the job's utility")
        if self.most_after_due_s is None:
            raise ValueError("`most_after_due_s`: is missing; a worth must end")
        return self


class _Outlook(_Entry):
    construction: Literal["lognormal", "history"] = "lognormal"
    duration_error: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
    duration_points: Annotated[int, Field(ge=1, le=MOST_DURATION_POINTS)] = 5
    arrival_jitter: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
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
    def draws(self) -> OutlookDraws:
        history = None
        if self.history_of is not None:
            history = History(self.history_of, self.history_jobs or _HISTORY_JOBS, self.duration_points)
        return OutlookDraws(self.duration_error, self.duration_points, self.arrival_jitter, history)


class _Announcements(_Entry):
    lead_s: Lead
    value: _Value
    outlook: _Outlook


class _ProfileFile(_Entry):
    name: Label
    title: str = ""
    announcements: _Announcements


def load_announcement_draws(ref: Source) -> AnnouncementDraws:
    """Read an announcement profile from a YAML file or the bundled ones.

    Parameters
    ----------
    ref : a path or URL ending in .yaml or .yml, or the bare name of a bundled profile

    Raises
    ------
    InvalidInputError : the file cannot be read or breaks its rules; every problem is listed
    UnknownNameError : neither a file nor a bundled profile
    """
    _, text, file = ANNOUNCEMENT_PROFILES.read_as(ref, _ProfileFile, (_Announcements, _Value, _Outlook))
    given = file.announcements
    drawn = given.value
    value = ValueDraws(
        drawn.form,
        drawn.worth_per_gpu_hour,
        drawn.worth,
        drawn.worth_range,
        drawn.slack,
        drawn.most_after_due_s,
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return AnnouncementDraws(file.name, file.title, digest, given.lead_s, value, given.outlook.draws)


def names_announcement_profile(ref: Source) -> bool:
    """Whether this names a bundled announcement profile, or a YAML file with a section `announcements`.

    Raises
    ------
    InvalidInputError : the file cannot be read
    """
    if not is_profile_file(ref):
        return str(ref) in ANNOUNCEMENT_PROFILES.bundled()
    _, _, content = ANNOUNCEMENT_PROFILES.read(ref)
    return isinstance(content, dict) and "announcements" in content
