"""Announce the jobs of a trace: draw births, values and outlooks from a profile.

A trace has one realised arrival and duration of each job. An outlook is a distribution of which they are one
draw (lognormal), or what the same owner's earlier jobs took (history); see docs/engine.md#announced-jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.text import short_text
from ray_sim.model.units import MAX_TIME_S, US_PER_S, FloatArray, IntArray, seconds_to_us
from ray_sim.model.value_function import Shape, ValueFunction
from workloads.announcements.durations import (
    SHORTEST_S,
    Durations,
    Scores,
    around_realised,
    filled_up,
    own_history,
    scores,
)
from workloads.announcements.profile import AnnouncementDraws, ValueDraws
from workloads.job_table import UTILITY
from workloads.progress import Progress, silent
from workloads.provenance import Counts, Provenance, SourceFile
from workloads.realisation import births_s
from workloads.schema import SCHEMA, STATEMENT_COLUMNS
from workloads.training.draws import choose, numbers

VERSION = "1"
"""Changes when the same arguments draw other numbers."""

FILLED = ("birth_s", "value", "outlook")
"""Columns that are filled."""

ARRIVAL_STEPS = np.array([-1.0, 0.0, 1.0])
"""Arrivals in units of the jitter around the announced one,"""
ARRIVAL_WEIGHTS = np.array([0.25, 0.5, 0.25])
"""and their probabilities."""

LEAST_WORTH = 1.0
"""Least positive worth of the model, in units."""

_SHORTEST_TAIL_S = 0.01
"""A sigmoid ends after its due time."""

_HOUR_S = 3600
_WORTH_DIGITS, _TIME_DIGITS = 6, 3
"""Digits after the point of worths and deadlines,"""
_SHARE_DIGITS = 15
"""and of probabilities, the least of which is about 1e-10."""


@dataclass(frozen=True, slots=True)
class AnnouncementReport:
    """Counts of the announced jobs, and how well their outlooks predicted their durations."""

    read: int
    by_history: int
    """Jobs whose outlook is what earlier jobs of their owner took; the others are lognormal."""
    scores: Scores

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line to show."""
        share = self.by_history / max(self.read, 1)
        return [
            ("jobs announced", self.read),
            ("  from earlier jobs of their owner", f"{self.by_history:,} ({share:.1%})"),
            ("duration within the outlook", f"{self.scores.covered:.1%}"),
            ("mean of log(expected / real duration)", f"{self.scores.mean_log_error:+.3f}"),
            ("  of its absolute value", f"{self.scores.mean_absolute_log_error:.3f}"),
            ("CRPS of log(duration)", f"{self.scores.crps_log:.4f}"),
        ]


def announce(
    frame: pl.DataFrame, draws: AnnouncementDraws, seed: int, progress: Progress = silent
) -> tuple[pl.DataFrame, AnnouncementReport]:
    """Fill the columns `FILLED` of every job.

    A draw is keyed by seed, column and job_id. Without history, a job's statement depends on no other job;
    with it, on the earlier jobs of the same owner.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, without values in those of statements

    Raises
    ------
    InvalidWorkloadError : there are no jobs, or some have a statement already
    """
    _refuse(frame)
    progress(0, frame.height, "drawing")
    job, streams = text_entities(frame["job_id"]), Streams(seed)
    lead_s = numbers(draws.lead_s, streams.uniforms("announce lead_s", job), {})
    jitter = 1 + draws.outlook.arrival_jitter * ARRIVAL_STEPS[None, :]
    arrival_us = seconds_to_us(lead_s[:, None] * jitter)  # (J, 3) possible arrivals after the birth
    drawn, _ = choose(ARRIVAL_WEIGHTS.tolist(), streams.uniforms("announce arrival", job))
    lead_us = arrival_us[np.arange(frame.height), drawn]
    birth_us = seconds_to_us(frame["submit_s"].to_numpy()) - lead_us
    durations, by_history = _durations(frame, draws, birth_us, streams.uniforms("announce duration", job))
    progress(frame.height, frame.height, "scoring")
    announced = frame.with_columns(
        birth_s=pl.Series(births_s(frame["submit_s"].to_numpy(), lead_us)),
        value=pl.Series(_values(frame, draws.value, lead_s, durations.mean_s(), streams, job)),
        outlook=pl.Series(_outlook_texts(arrival_us, durations)),
    ).select(*SCHEMA)
    realised_us = seconds_to_us(frame["duration_s"].to_numpy())
    return announced, AnnouncementReport(frame.height, by_history, scores(durations, realised_us))


def announced_provenance(
    draws: AnnouncementDraws,
    seed: int,
    report: AnnouncementReport,
    source: SourceFile,
    made: Provenance | None,
) -> Provenance:
    """Provenance of announced jobs.

    Parameters
    ----------
    source : file of the jobs
    made : provenance of the jobs before; None where they have none
    """
    notes = {} if made is None else made.clock_notes
    return Provenance(
        sources=(source,),
        converter="announce",
        converter_version=VERSION,
        options={"profile": draws.name, "profile_sha256": draws.sha256},
        seed=seed,
        counts=Counts(read=report.read, kept=report.read),
        notes={
            **notes,
            "drawn": [*FILLED],
            "by_history": report.by_history,
            "scores": asdict(report.scores),
            "source_provenance": None if made is None else made.model_dump(mode="json"),
        },
    )


def _refuse(frame: pl.DataFrame) -> None:
    if frame.is_empty():
        raise InvalidWorkloadError(
            "a workload without jobs cannot be announced; convert a trace that has some"
        )
    names = [column.name for column in STATEMENT_COLUMNS]
    if taken := [name for name in names if frame[name].null_count() < frame.height]:
        raise InvalidWorkloadError(
            f"the workload already says {', '.join(taken)}; drawn and other statements must not mix, so "
            "announce a workload without these columns"
        )


def _durations(
    frame: pl.DataFrame, draws: AnnouncementDraws, birth_us: IntArray, uniform: FloatArray
) -> tuple[Durations, int]:
    """The announced durations, and the number of jobs that have them from history."""
    outlook = draws.outlook
    realised_us = seconds_to_us(frame["duration_s"].to_numpy())
    around, _ = around_realised(realised_us, outlook.duration_error, outlook.duration_points, uniform)
    if outlook.history is None:
        return around, 0
    past = own_history(frame, birth_us, outlook.history)
    return filled_up(past, around), int((np.diff(past.ptr) > 0).sum())


def _values(
    frame: pl.DataFrame,
    draws: ValueDraws,
    lead_s: FloatArray,
    mean_s: FloatArray,
    streams: Streams,
    job: IntArray,
) -> list[str]:
    """Value functions of the jobs, from what is known at the birth: none depends on the realised duration."""
    if draws.form == "utility":
        return _utility_values(frame, draws, lead_s)
    assert draws.slack is not None, "all other forms draw it"
    uniform = streams.uniforms("announce worth", job)
    length_s = np.maximum(mean_s, SHORTEST_S)
    if draws.worth is not None:
        worth = numbers(draws.worth, uniform, {})
    else:
        assert draws.worth_per_gpu_hour is not None, "a profile draws one of the two"
        gpus = np.maximum(frame["num_gpus"].to_numpy(), 1.0)
        worth = numbers(draws.worth_per_gpu_hour, uniform, {}) * gpus * length_s / _HOUR_S
    if draws.worth_range is not None:
        worth = np.clip(worth, *draws.worth_range)
    slack = numbers(draws.slack, streams.uniforms("announce slack", job), {})
    slack_s = np.minimum(length_s * slack, (MAX_TIME_S - lead_s) / 2)
    return [
        str(_value(draws, round(each, _WORTH_DIGITS), round(lead, _TIME_DIGITS), round(slack, _TIME_DIGITS)))
        for each, lead, slack in zip(worth.tolist(), lead_s.tolist(), slack_s.tolist(), strict=True)
    ]


def _utility_values(frame: pl.DataFrame, draws: ValueDraws, lead_s: FloatArray) -> list[str]:
    """The jobs' utilities as value functions: the sigmoid of delays after the announced arrival.

    It ends where it falls below `LEAST_WORTH`, the least positive value of the model, or at
    ``most_after_due_s`` after the due time, if that is sooner.
    """
    lacking = [name for name in UTILITY if frame[name].null_count()]
    if lacking:
        raise InvalidWorkloadError(
            f"value.form utility: the worth of a job is its utility, and {', '.join(lacking)} have empty "
            "rows; put a training profile with utilities, such as pd_ors, on the workload first"
        )
    assert draws.most_after_due_s is not None, "a profile of this form says it"
    most, decay, due_s = (frame[name].to_numpy() for name in UTILITY)
    ratio = np.log(np.maximum(most / LEAST_WORTH - 1.0, 1.0))
    falls_s = np.divide(ratio, decay, out=np.full_like(ratio, np.inf), where=decay > 0)
    after_s = np.maximum(np.minimum(falls_s, draws.most_after_due_s), _SHORTEST_TAIL_S)
    due_s = due_s + lead_s
    end_s = np.floor((due_s + after_s) * 10**_TIME_DIGITS) / 10**_TIME_DIGITS
    columns = zip(most.tolist(), decay.tolist(), due_s.tolist(), end_s.tolist(), strict=True)
    return [
        str(ValueFunction(Shape.SIGMOID, (due, end), (worth, 0.0), rate)) for worth, rate, due, end in columns
    ]


def _value(draws: ValueDraws, worth: float, lead_s: float, slack_s: float) -> ValueFunction:
    """Worth until the slack after the announced arrival; 0 from twice the slack on."""
    due_s, end_s = round(lead_s + slack_s, _TIME_DIGITS), round(lead_s + 2 * slack_s, _TIME_DIGITS)
    match draws.form:
        case "deadline":
            return ValueFunction(Shape.STEPS, (due_s,), (worth,))
        case "step":
            return ValueFunction(Shape.STEPS, (due_s, end_s), (worth, round(worth / 2, _WORTH_DIGITS)))
        case "linear":
            return ValueFunction(Shape.LINES, (due_s, end_s), (worth, 0.0))
        case _:
            return ValueFunction(Shape.SIGMOID, (due_s, end_s), (worth, 0.0), _SIGMOID_STEEPNESS / slack_s)


_SIGMOID_STEEPNESS = 4.0
"""Rate of a drawn sigmoid times its slack: 98 % of the worth are left at the arrival, 2 % at the end."""


def _outlook_texts(arrival_us: IntArray, durations: Durations) -> list[str]:
    """Outlooks with independent arrival and duration; equal arrivals are one point."""
    seconds = [short_text(us / US_PER_S) for us in durations.duration_us.tolist()]
    points = list(zip(seconds, durations.probability.tolist(), strict=True))
    ptr = durations.ptr.tolist()
    return [
        " ".join(
            f"{after}:{duration}:{short_text(round(share * probability, _SHARE_DIGITS))}"
            for after, share in _arrival_shares(arrivals)
            for duration, probability in points[begin:end]
        )
        for arrivals, begin, end in zip(arrival_us.tolist(), ptr[:-1], ptr[1:], strict=True)
    ]


def _arrival_shares(arrival_us: Sequence[int]) -> list[tuple[str, float]]:
    """Distinct arrivals in order, in seconds, and their probabilities."""
    shares: dict[int, float] = {}
    for us, share in zip(arrival_us, ARRIVAL_WEIGHTS.tolist(), strict=True):
        shares[us] = shares.get(us, 0.0) + share
    return [(short_text(us / US_PER_S), share) for us, share in shares.items()]
