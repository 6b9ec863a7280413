"""Bounds that every statement keeps, and the check of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ray_sim.engine.kinds.announced.rounds import RoundedJobs, merged
from ray_sim.model.errors import InvalidWorkloadError, problems_text
from ray_sim.model.parameters import Value, microseconds
from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.text import shown
from ray_sim.model.units import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class StatementBounds:
    """Bounds on statements: known to the platform before the run."""

    concurrency: int
    """C_m, most GPUs of a job."""
    duration: int
    """D_m, most rounds of a job."""
    value: float
    """H: positive values are from 1 to H."""
    delay: int
    """S_m: a finish this number of rounds after the birth, or later, is worth nothing."""
    undeclared: tuple[str, ...] = ()
    """World parameters that are not declared, so that their bounds come from the reports."""


_DECLARED = ("most_gpus", "most_duration_s", "most_value", "most_delay_s")


def bounds_of(reported: Statements, values: Mapping[str, Value], slot_us: int) -> StatementBounds:
    """Bounds that the world parameters declare; where one is None the least that holds for all reports.

    The longest duration is rounded up to rounds, as durations of jobs are; S_m is the first round after the
    birth without value.
    """
    duration_us, delay_us = microseconds(values["most_duration_s"]), microseconds(values["most_delay_s"])
    longest = _per_row(reported.outlooks)[reported.outlook_row]
    worth = reported.values[np.unique(reported.value_row)]
    highest = max(1.0, float(worth.max(initial=NANO)) / NANO)
    return StatementBounds(
        concurrency=int(str(values["most_gpus"] or reported.concurrency.max(initial=1))),
        duration=int(longest.max(initial=1)) if duration_us is None else max(1, -(-duration_us // slot_us)),
        value=float(str(values["most_value"] or highest)),
        delay=int((worth > 0).sum(axis=1).max(initial=1)) if delay_us is None else delay_us // slot_us + 1,
        undeclared=tuple(name for name in _DECLARED if values[name] is None),
    )


def check_bounds(reported: Statements, bounds: StatementBounds, job_id: pl.Series) -> None:
    """Refuse statements beyond the bounds.

    Raises
    ------
    InvalidWorkloadError : names for each bound the first row beyond it, its value and what to do
    """
    problems = list(_problems(reported, bounds, job_id))
    if problems:
        raise InvalidWorkloadError(problems_text("statements of work", problems))


def check_durations(duration: IntArray, bounds: StatementBounds, job_id: pl.Series) -> None:
    """Refuse jobs that truly run for more rounds than the bound: a job may outlast its report, but not D_m.

    Raises
    ------
    InvalidWorkloadError : names the first such job
    """
    limit = (
        f"at most {bounds.duration} rounds (most_duration_s), also where the report is shorter; raise -w "
        "most_duration_s, or leave such jobs out"
    )
    problems = list(_beyond("duration_s", duration > bounds.duration, duration, limit, job_id))
    if problems:
        raise InvalidWorkloadError(problems_text("announced jobs", problems))


def _problems(reported: Statements, bounds: StatementBounds, job_id: pl.Series) -> Iterator[str]:
    gpus = reported.concurrency
    limit = (
        f"at most {bounds.concurrency} (most_gpus; num_gpus where none are reported); raise -w most_gpus, as "
        "GPUs are never cut"
    )
    yield from _beyond("reported_gpus", gpus > bounds.concurrency, gpus, limit, job_id)
    longest = _per_row(reported.outlooks)[reported.outlook_row]
    limit = f"at most {bounds.duration} rounds (most_duration_s); -w clip_statements=true cuts them"
    yield from _beyond("outlook", longest > bounds.duration, longest, limit, job_id)
    worth = reported.values
    highest = worth.max(axis=1, initial=0)[reported.value_row] / NANO
    limit = f"at most {bounds.value:g} (most_value); -w clip_statements=true cuts them"
    yield from _beyond("value", highest > bounds.value, highest, limit, job_id)
    last = (worth > 0).sum(axis=1)[reported.value_row] - 1
    limit = f"0 later than {bounds.delay - 1} rounds after the birth (most_delay_s); "
    limit += "-w clip_statements=true cuts it"
    yield from _beyond("value", last >= bounds.delay, last, limit, job_id)
    small = np.where(worth > 0, worth, 2**62).min(axis=1, initial=2**62)[reported.value_row] / NANO
    limit = "0 or at least 1 unit in every round; -w clip_statements=true makes smaller ones 0"
    yield from _beyond("value", small < 1, small, limit, job_id)


def _beyond(column: str, wrong: BoolArray, found: np.ndarray, limit: str, job_id: pl.Series) -> Iterator[str]:
    rows = np.flatnonzero(wrong)
    if len(rows):
        first = int(rows[0])
        where = f"for job {shown(job_id[first])} ({len(rows)} such jobs)"
        yield f"{column}: must be {limit}, is {found[first]:g} {where}"


def _per_row(outlooks: Outlooks) -> IntArray:
    """(O,) longest duration of each distribution."""
    first = outlooks.ptr[:-1]
    return np.maximum.reduceat(outlooks.duration, first) if len(first) else first


def clipped(jobs: RoundedJobs, bounds: StatementBounds, signal: str) -> tuple[RoundedJobs, int]:
    """The same jobs with statements cut to the bounds, true ones too, and how many reports that changes.

    Values above H become H, those below 1 or later than S_m become 0; durations above D_m become D_m.
    """
    reported = jobs.reported
    worth = np.minimum(reported.values, int(bounds.value * NANO))
    worth[worth < NANO] = 0
    worth[:, bounds.delay :] = 0
    duration = np.minimum(reported.outlooks.duration, bounds.duration)
    changed = (worth != reported.values).any(axis=1)[reported.value_row]
    changed |= (_per_row(reported.outlooks) > bounds.duration)[reported.outlook_row]
    told, rows = reported.outlooks, len(reported.outlooks.ptr) - 1
    row = np.repeat(np.arange(rows), np.diff(told.ptr))
    outlooks = merged(row, told.arrival, duration, told.probability, signal, rows)
    true = replace(jobs.true, values=worth, outlooks=outlooks)
    reported = replace(reported, values=worth, outlooks=outlooks)
    return replace(jobs, true=true, reported=reported), int(changed.sum())
