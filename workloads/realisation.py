"""Realisation of a workload: selects the jobs that a run replays and sets their submission times."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from types import NoneType
from typing import Literal, get_args

import numpy as np
import polars as pl

from ray_sim.model.arguments import expect
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.streams import Streams
from ray_sim.model.units import MAX_TIME_S, FloatArray, IntArray, seconds_to_us, us_to_seconds
from workloads.provenance import Provenance
from workloads.schema import SCHEMA, SORT_KEY
from workloads.status import WORDS, Ending, endings

DAY_S = 86_400

UnsuccessfulRule = Literal["keep", "drop"]
"""Jobs that failed or were killed in the trace: replay the run time that they had, or leave them out."""

STATUSES_NAMED = 20
"""Statuses of unknown meaning that are named; the jobs of others are counted together."""

ResampleRule = Literal["days"]


LEAST_LOAD_SCALE, MOST_LOAD_SCALE = 1e-6, 1e6
"""Range of the factor on the arrival rate; beyond it all jobs arrive at one instant or centuries apart."""


@dataclass(frozen=True, slots=True)
class Window:
    """Instants from `from_s` until before `to_s`, in the workload's own time."""

    from_s: float
    to_s: float

    def __post_init__(self) -> None:
        expect("window FROM", self.from_s, (int, float), "seconds")
        expect("window TO", self.to_s, (int, float), "seconds")
        if not 0 <= self.from_s < self.to_s <= MAX_TIME_S:
            raise InvalidInputError(
                f"window: FROM must be at least 0 and below TO, in seconds, got {self.from_s:g} {self.to_s:g}"
            )

    def holds(self, time_s: pl.Expr) -> pl.Expr:
        """Whether each instant is in the window."""
        return time_s.is_between(self.from_s, self.to_s, closed="left")


@dataclass(frozen=True, slots=True)
class Realisation:
    """Changes made to a workload before it is replayed; they apply in the order of the fields."""

    unsuccessful: UnsuccessfulRule = "keep"
    window: Window | None = None
    resample: ResampleRule | None = None
    """``days``: see `resample_days`."""
    load_scale: float = 1.0
    """See `scale_load`."""

    def __post_init__(self) -> None:
        if self.unsuccessful not in get_args(UnsuccessfulRule):
            raise InvalidInputError(f"unsuccessful: expected keep or drop, found {self.unsuccessful!r}")
        if self.resample not in (None, *get_args(ResampleRule)):
            raise InvalidInputError(f"resample: expected days or None, found {self.resample!r}")
        expect("window", self.window, (Window, NoneType), "a Window or None")
        expect("load_scale", self.load_scale, (int, float), "a number")

    @property
    def keeps_all(self) -> bool:
        """Whether every job of the workload is replayed."""
        return self.unsuccessful == "keep" and self.window is None and self.resample is None

    @property
    def keeps_times(self) -> bool:
        """Whether the jobs that are replayed are submitted when the workload says."""
        return self.resample is None and self.load_scale == 1


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the jobs read, left out and replayed. Without resampling, replayed = read - left out."""

    read: int
    unsuccessful: int
    """Jobs left out because they failed or were killed in the trace."""
    outside_window: int
    """Jobs left out because they were not submitted in the window."""
    replayed: int
    unknown_status: int
    """Jobs that the rule ``drop`` keeps because their status does not say how they ended; 0 with ``keep``."""
    infeasible: int = 0
    """Jobs left out because their demand fits on no reference server of their training profile."""
    unknown_statuses: dict[str, int] = field(default_factory=dict)
    """Jobs of unknown status by status, the `STATUSES_NAMED` most common; '' means no status."""


def realise(
    frame: pl.DataFrame, realisation: Realisation, seed: int, made: Provenance | None = None
) -> tuple[pl.DataFrame, Tally]:
    """The jobs to replay, with the columns of `SCHEMA`, and the counts of jobs left out.

    Only resampling uses the seed.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, in any order
    made : provenance of the jobs, see `resample_days`

    Raises
    ------
    InvalidWorkloadError : no job is left, or the workload does not say how its jobs ended
    InvalidInputError : the load's scale is out of range, or the arguments are not of these types
    """
    expect("frame", frame, pl.DataFrame, "a table of jobs")
    expect("realisation", realisation, Realisation, "a Realisation")
    expect("made", made, (Provenance, NoneType), "a Provenance or None")
    absent = [name for name in SCHEMA if name not in frame.columns]
    if absent:
        raise InvalidInputError(f"frame: columns missing: {', '.join(absent)}; see load_workload")
    jobs, unknown = frame, pl.Series(dtype=pl.String)
    if realisation.unsuccessful == "drop":
        jobs = drop_unsuccessful(jobs)
        unknown = jobs.filter(endings(pl.col("status")).is_null())["status"]
    successful = jobs.height
    if realisation.window is not None:
        jobs = cut_window(jobs, realisation.window)
    inside = jobs.height
    if realisation.resample is not None:
        jobs = resample_days(jobs, seed, made)
    if realisation.load_scale != 1:
        jobs = scale_load(jobs, realisation.load_scale)
    tally = Tally(
        read=frame.height,
        unsuccessful=frame.height - successful,
        outside_window=successful - inside,
        replayed=jobs.height,
        unknown_status=len(unknown),
        unknown_statuses=_most_common(unknown),
    )
    return jobs, tally


def drop_unsuccessful(frame: pl.DataFrame) -> pl.DataFrame:
    """Drop the jobs that failed or were killed in the trace; keep those of unknown status.

    Raises
    ------
    InvalidWorkloadError : no job has a status that we know, or none was successful
    """
    ending = frame.select(endings(pl.col("status"))).to_series()
    if ending.null_count() == frame.height:
        words = frame["status"].drop_nulls().unique().sort().head(5).to_list()
        found = f"only {', '.join(map(repr, words))}" if words else "none"
        raise InvalidWorkloadError(
            f"unsuccessful jobs cannot be dropped: of {frame.height:,} jobs, none has a status that says"
            f" how it ended (found: {found}); keep them, or convert a trace that tells. Words that are"
            f" understood: {', '.join(word for known in WORDS.values() for word in known)}"
        )
    jobs = frame.filter(~ending.is_in([Ending.FAILED, Ending.KILLED]).fill_null(value=False))
    if jobs.is_empty():
        raise InvalidWorkloadError(
            f"every job (of {frame.height:,}) failed or was killed; keep such jobs, or use another trace"
        )
    return jobs


def _most_common(status: pl.Series) -> dict[str, int]:
    counts = status.fill_null("").alias("status").value_counts(name="jobs")
    return dict(counts.sort("jobs", "status", descending=[True, False]).head(STATUSES_NAMED).iter_rows())


def cut_window(frame: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The jobs submitted in the window, at least one, at the times they have."""
    jobs = frame.filter(window.holds(pl.col("submit_s")))
    if jobs.is_empty():
        submit_s = frame["submit_s"].to_numpy()
        raise InvalidWorkloadError(
            f"window: no job is submitted from {window.from_s:.15g} to {window.to_s:.15g} s;"
            f" the workload's come from {submit_s.min():.15g} to {submit_s.max():.15g} s"
        )
    return jobs


def day_begins_s(first_s: float, last_s: float, made: Provenance | None = None) -> FloatArray:
    """Begins of the days from that of one instant to that of another, and the end of the last day, (D + 1,).

    Days begin at local midnight where the provenance has a time zone, so those on which clocks change have
    23 or 25 hours; else every 86,400 s from submit_s 0.
    """
    if made is None or made.epoch_utc is None or made.time_zone is None:
        return np.arange(first_s // DAY_S, last_s // DAY_S + 2) * float(DAY_S)
    epoch, zone = made.epoch_utc, made.time_zone
    first, last = ((epoch + timedelta(seconds=at)).astimezone(zone).date() for at in (first_s, last_s))
    # A day more at both ends, as instants are rounded here.
    days = [first + timedelta(days=i) for i in range(-1, (last - first).days + 3)]
    begins_s = np.array([(datetime.combine(day, time(), zone) - epoch).total_seconds() for day in days])
    begin, end = np.searchsorted(begins_s, (first_s, last_s), side="right")
    return begins_s[begin - 1 : end + 1]


def resample_days(frame: pl.DataFrame, seed: int, made: Provenance | None = None) -> pl.DataFrame:
    """Day-block bootstrap: as many days as the workload spans, drawn from its days with replacement.

    Days are those of `day_begins_s`, empty ones included; day k of the result holds the jobs of one
    drawn day, as long after its begin, and is as long. Names get the suffix ``@k`` (so do the groups, which
    do not reach from one day into another), and trace_order is numbered anew.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, in any order
    made : provenance of the jobs, which has the time zone of the days; None for an unknown one

    Returns
    -------
    columns of `SCHEMA`, in order, first day 0

    Raises
    ------
    InvalidWorkloadError : no drawn day holds a job (a sparse workload and an unlucky seed)
    """
    if frame.is_empty():
        raise InvalidWorkloadError(
            "a workload without jobs has no days to draw; convert a trace that has some"
        )
    submitted_s = frame["submit_s"].to_numpy()
    begins_s = day_begins_s(float(submitted_s.min()), float(submitted_s.max()), made)
    of_day = np.searchsorted(begins_s, submitted_s, side="right") - 1
    days = len(begins_s) - 1
    drawn = Streams(seed).generator("resample-days").integers(0, days, size=days)
    ends_s = np.cumsum(np.diff(begins_s)[drawn])
    slots_s = {"from_s": begins_s[drawn], "to_s": np.append(0.0, ends_s[:-1])}
    blocks = pl.DataFrame({"day": drawn, "slot": np.arange(days), **slots_s})
    jobs = blocks.join(frame.with_columns(day=pl.Series(of_day)), on="day")
    if jobs.is_empty():
        raise InvalidWorkloadError(f"none of the {days} drawn days holds a job; use another seed")
    named = jobs.sort("slot", *SORT_KEY).with_columns(
        pl.format("{}@{}", "job_id", "slot").alias("job_id"),
        pl.format("{}@{}", "group_id", "slot").alias("group_id"),
        trace_order=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    submit_s = pl.col("submit_s") - pl.col("from_s") + pl.col("to_s")
    return _submitted_at(named, submit_s).select(*SCHEMA)


def _submitted_at(jobs: pl.DataFrame, submit_s: pl.Expr) -> pl.DataFrame:
    """The jobs with other submissions, and births as long before them as before."""
    born = jobs.select(pl.coalesce("birth_s", "submit_s")).to_series().to_numpy()
    lead_us = seconds_to_us(jobs["submit_s"].to_numpy()) - seconds_to_us(born)
    moved = jobs.with_columns(submit_s=submit_s, announced=pl.col("birth_s").is_not_null())
    births = pl.Series(births_s(moved["submit_s"].to_numpy(), lead_us))
    return moved.with_columns(birth_s=pl.when("announced").then(births)).drop("announced")


def births_s(submit_s: FloatArray, lead_us: IntArray) -> FloatArray:
    """(J,) births such that a run sees each submission ``lead_us`` microseconds, (J,) >= 0, after them."""
    births: FloatArray = np.minimum(us_to_seconds(seconds_to_us(submit_s) - lead_us), submit_s)
    return births


def check_load_scale(load_scale: float) -> None:
    """Raise InvalidInputError unless it is a number from `LEAST_LOAD_SCALE` to `MOST_LOAD_SCALE`."""
    if not LEAST_LOAD_SCALE <= load_scale <= MOST_LOAD_SCALE:
        allowed = f"from {LEAST_LOAD_SCALE:f} to {MOST_LOAD_SCALE:,.0f}"
        raise InvalidInputError(f"load_scale: must be a number {allowed}, is {load_scale:g}")


def scale_load(frame: pl.DataFrame, load_scale: float) -> pl.DataFrame:
    """The same jobs, ``load_scale`` times as fast after the first: work per second grows by that factor.

    Run times stay as they are, and so do the first submission and the time from each birth to its submission.

    Parameters
    ----------
    load_scale : see `check_load_scale`

    Raises
    ------
    InvalidInputError : out of range, or it spreads the jobs over more time than a workload may have
    """
    check_load_scale(load_scale)
    first = pl.col("submit_s").min()
    jobs = _submitted_at(frame, first + (pl.col("submit_s") - first) / load_scale)
    if (jobs["submit_s"] > MAX_TIME_S).any():
        raise InvalidInputError(f"load_scale: {load_scale} spreads the jobs over too long a time")
    return jobs
