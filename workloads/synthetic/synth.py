"""Synthetic workloads: any number of jobs like those of a published trace or of another workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.files import sha256
from workloads.provenance import Counts, Provenance, SourceFile
from workloads.realisation import check_load_scale
from workloads.schema import with_all_columns
from workloads.sources import Source, name_of
from workloads.store import read_frame
from workloads.synthetic.arrivals import DAY_S, MAX_JOBS, ArrivalKind, observed
from workloads.synthetic.job_model import JobModel, chance_distance, fit, ks_distances, ks_rows, left_out
from workloads.synthetic.trace_profile import GOOGLE, PHILLY, Profile

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (PHILLY, GOOGLE)}
"""Every profile by its name."""

VERSION = "2"
"""Changes when the same arguments draw other jobs."""

SLOT_S = 3600.0
"""Default length of the slots of alternating arrivals in seconds."""


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """Options of a draw; raises InvalidInputError for a number out of range."""

    jobs: int
    """Number of jobs, 1 to `MAX_JOBS`."""
    load_scale: float = 1.0
    """Factor on the arrival rate, see `check_load_scale`; 1 is the source's own."""
    arrivals: ArrivalKind | None = None
    """None takes the source's own: diurnal, or poisson where the source spans less than a day."""
    slot_s: float | None = None
    """>= 1e-6, length of the slots of alternating arrivals; None is `SLOT_S`."""

    def __post_init__(self) -> None:
        check_jobs(self.jobs)
        check_load_scale(self.load_scale)
        if self.slot_s is None:
            return
        if self.arrivals is not ArrivalKind.ALTERNATING:
            raise InvalidInputError("slot_s: only alternating arrivals have slots; leave it out")
        check_slot(self.slot_s)

    def options(self) -> dict[str, JsonValue]:
        """Options as recorded in the provenance, without those left to the source."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Fit:
    """Distance between the drawn jobs and the workload that they imitate."""

    ks: dict[str, float]
    """See `ks_distances`."""
    ks_by_chance: float
    """See `chance_distance`."""
    left_out: list[str]
    """Columns of the workload without a counterpart."""
    observed_days: float
    """Days of recording, see `observed`. From 1 on, hours have rates; from 7 on, days of the week too."""
    whole_days: int
    """Days that resampled arrivals are drawn from."""

    def notes(self) -> dict[str, JsonValue]:
        """Fit as recorded in the provenance."""
        missing: dict[str, JsonValue] = {"left_out": [*self.left_out]} if self.left_out else {}
        return {**{f"ks {column}": distance for column, distance in self.ks.items()}, **missing}

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain nested values, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of a table for people."""
        rows: list[tuple[str, object]] = [
            *ks_rows(self.ks, self.ks_by_chance),
            ("days observed", round(self.observed_days, 2)),
            ("of these whole", self.whole_days),
        ]
        return [*rows, ("columns left out", ", ".join(self.left_out))] if self.left_out else rows


@dataclass(frozen=True, slots=True)
class DrawReport:
    """Feasibility of the jobs of a profile, each judged by its first draw."""

    jobs: int
    infeasible: Mapping[str, int]
    """Infeasible jobs by reason."""
    redraws: int
    """Draws of infeasible jobs after the first; 0 where they are kept."""

    @property
    def feasible_share(self) -> float:
        """In [0, 1]."""
        return (self.jobs - sum(self.infeasible.values())) / self.jobs

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain nested values, for JSON."""
        return {
            "feasible_share": self.feasible_share,
            "infeasible": dict(self.infeasible),
            "redraws": self.redraws,
        }

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of a table for people."""
        return [
            ("feasible as first drawn", f"{self.feasible_share:.1%}"),
            *((f"infeasible as first drawn, {reason}", f"{n:,}") for reason, n in self.infeasible.items()),
            ("redraws", self.redraws),
        ]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A synthetic workload."""

    frame: pl.DataFrame
    """Columns of `SCHEMA`."""
    provenance: Provenance
    found: Fit | DrawReport | None = None
    """None where there is nothing to report."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain nested values, for JSON."""
        found = {} if self.found is None else self.found.to_dict()
        return {**self.provenance.options, "seed": self.provenance.seed, **found}

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of a table for people."""
        found = [] if self.found is None else self.found.rows()
        return [*self.provenance.options.items(), ("seed", self.provenance.seed), *found]


def synth(
    profile: str,
    jobs: int,
    seed: int,
    load_scale: float = 1.0,
    arrivals: ArrivalKind | None = None,
    slot_s: float | None = None,
) -> tuple[pl.DataFrame, Provenance]:
    """Draw a workload with the columns of `SCHEMA`, and its provenance.

    Times are whole seconds; submit_s 0 is local midnight of a Monday. Arrivals, sizes, VCs, users
    and run times come from streams of their own: another ``load_scale`` or arrival process moves the arrivals
    and nothing else, and more jobs begin with the same jobs.

    Parameters
    ----------
    profile : one of `PROFILES`
    seed : >= 0
    jobs, load_scale, arrivals, slot_s : see `DrawRequest`
    """
    drawn = synth_profile(profile, DrawRequest(jobs, load_scale, arrivals, slot_s), seed)
    return drawn.frame, drawn.provenance


def synth_profile(profile: str, request: DrawRequest, seed: int) -> Drawn:
    """Draw a workload from the published statistics of a trace, see `synth`."""
    frame = draw(profile_model(profile), request, seed)
    provenance = Provenance(
        converter="synth",
        converter_version=VERSION,
        options={"profile": profile, **request.options()},
        seed=seed,
        counts=Counts(read=request.jobs, kept=request.jobs),
        notes={"epoch_utc": PROFILES[profile].monday_utc.isoformat()},
    )
    return Drawn(frame, provenance)


def synth_file(like: Source, request: DrawRequest, seed: int) -> Drawn:
    """Draw a workload from the model that `fit` makes of another, given by path or URL.

    Streams are those of `synth`. Times have the source's own zero and resolution.

    Raises
    ------
    InvalidInputError : the source cannot be read, see `read_frame`, or fitted, see `fit` and `draw`
    """
    source = read_frame(like)
    try:
        model = fit(source)
        frame = draw(model, request, seed)
    except InvalidInputError as error:
        raise InvalidInputError(f"{like}: {error}") from error
    seen = observed(*source.select(pl.min("submit_s"), last=pl.max("submit_s")).row(0))
    found = Fit(
        ks=ks_distances(source, frame, request.load_scale),
        ks_by_chance=chance_distance(source.height, request.jobs),
        left_out=left_out(source),
        observed_days=seen.span_s / DAY_S,
        whole_days=len(seen.days),
    )
    name = name_of(like).name
    arrivals = request.arrivals or model.own_arrivals
    provenance = Provenance(
        sources=(SourceFile(name=name, sha256=sha256(like)),),
        converter="synth",
        converter_version=VERSION,
        options={"like": name, **request.options(), "arrivals": arrivals},
        seed=seed,
        counts=Counts(read=request.jobs, kept=request.jobs),
        notes=found.notes(),
    )
    return Drawn(frame, provenance, found)


def check_jobs(jobs: int) -> None:
    """Raise InvalidInputError unless it is a number of jobs that can be drawn."""
    if not 1 <= jobs <= MAX_JOBS:
        raise InvalidInputError(f"jobs: must be at least 1, at most {MAX_JOBS:,}, is {jobs:,}")


def check_slot(slot_s: float) -> None:
    """Raise InvalidInputError unless it is a length that simulated time can tell."""
    if not 1 / US_PER_S <= slot_s <= MAX_TIME_S:
        raise InvalidInputError(f"slot_s: must be from 0.000001 to {MAX_TIME_S}, is {slot_s:g}")


def check_seed(seed: int) -> None:
    """Raise InvalidInputError for a negative seed."""
    if seed < 0:
        raise InvalidInputError(f"seed: must be at least 0, is {seed}")


def check_arrivals(profile: str, kind: ArrivalKind | None) -> None:
    """Raise InvalidInputError for arrivals that the profile does not know; None is its own kind."""
    model = profile_model(profile)
    model.arrivals(kind or model.own_arrivals, SLOT_S)


def profile_model(name: str) -> JobModel:
    """The distributions of a profile; raises UnknownNameError for another name."""
    if name not in PROFILES:
        raise UnknownNameError("workload profile", name, PROFILES)
    return PROFILES[name].model()


def draw(model: JobModel, request: DrawRequest, seed: int) -> pl.DataFrame:
    """Jobs of a model with the columns of `SCHEMA`, see `synth`.

    Raises
    ------
    InvalidInputError : a number out of range, or arrivals that the model does not know
    """
    check_seed(seed)
    arrivals = model.arrivals(request.arrivals or model.own_arrivals, request.slot_s or SLOT_S)
    if request.jobs / (arrivals.arrivals_per_s * request.load_scale) > MAX_TIME_S / 2:
        raise InvalidInputError(
            f"load_scale: {request.load_scale} spreads {request.jobs} jobs over too long a time"
        )
    return with_all_columns(model.draw(arrivals, request.jobs, Streams(seed), request.load_scale))
