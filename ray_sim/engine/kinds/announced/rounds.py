"""Statements of a workload in whole rounds, true and reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import Outlook
from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.units import US_PER_S, FloatArray, IntArray, seconds_to_us
from ray_sim.model.value_function import Shape, ValueFunction

MOST_WORTHS = 250_000_000
"""Numbers in the table of values: 2 GB."""


@dataclass(frozen=True, slots=True)
class RoundedJobs:
    """What announces itself, and what comes. Jobs are in order of birth."""

    true: Statements
    reported: Statements
    arrival: IntArray
    """(J,) round of the true arrival, >= birth."""
    duration: IntArray
    """(J,) rounds, >= 1."""
    signal: IntArray
    """(J,) signal of the duration at the arrival."""


def rounds_up(time_us: IntArray, slot_us: int) -> IntArray:
    """Whole rounds that hold these times."""
    return -(-time_us // slot_us)


def signals(kind: str, duration: IntArray) -> IntArray:
    """(n,) signals of these durations, in rounds, that the platform gets when the job comes.

    Parameters
    ----------
    kind : ``none``: 0; ``full``: the duration; ``partial``: how many binary digits it has
    """
    if kind == "none":
        return np.zeros_like(duration)
    return duration.copy() if kind == "full" else np.frexp(duration.astype(np.float64))[1].astype(np.int64)


def longest_rounds(kind: str, signal: IntArray, most: int) -> IntArray:
    """(n,) longest durations that these signals allow, at most ``most``; ``kind`` as in `signals`."""
    if kind == "none":
        return np.full_like(signal, most)
    return signal.copy() if kind == "full" else np.minimum((1 << signal) - 1, most)


def rounded_jobs(
    table: JobTable, statements: StatementProfile, slot_us: int, signal: str, gpus: IntArray
) -> RoundedJobs:
    """Round the statements of jobs in order of birth; ``gpus`` (J,) are those that they truly need."""
    values, outlooks = statements.values, statements.outlooks
    true = statements_in_rounds(statements.birth_us, gpus, values, outlooks, slot_us, signal)
    true = replace(true, value_row=statements.value_row, outlook_row=statements.outlook_row)
    reported = replace(
        true,
        concurrency=statements.reported_gpus.astype(np.int64),
        value_row=statements.reported_value_row,
        outlook_row=statements.reported_outlook_row,
    )
    duration = np.maximum(rounds_up(table.work_us, slot_us), 1)
    arrival = true.birth + rounds_up(statements.arrival_us - statements.birth_us, slot_us)
    return RoundedJobs(true, reported, arrival, duration, signals(signal, duration))


def statements_in_rounds(
    birth_us: IntArray,
    gpus: IntArray,
    values: Sequence[ValueFunction],
    outlooks: Sequence[Outlook],
    slot_us: int,
    signal: str,
) -> Statements:
    """Statements of J jobs in order of birth, which count from the first one; a value and an outlook each."""
    row = np.arange(len(birth_us))
    return Statements(
        birth=rounds_up(birth_us - birth_us.min(initial=0), slot_us),
        concurrency=gpus,
        value_row=row,
        outlook_row=row,
        values=_worths(values, slot_us),
        outlooks=_outlooks(outlooks, slot_us, signal),
    )


def _worths(values: Sequence[ValueFunction], slot_us: int) -> IntArray:
    """(V, S + 1) worth of each function k rounds after the birth; the last column is 0."""
    slot_s = slot_us / US_PER_S
    rounds = max((int(np.ceil(each.end_s / slot_s)) for each in values), default=0) + 2
    if rounds * len(values) > MOST_WORTHS:
        raise InvalidScenarioError(
            f"value: {len(values):,} value functions of up to {rounds:,} rounds are more than "
            f"{MOST_WORTHS:,} numbers: choose longer slots (-w slot_s), or values that end earlier"
        )
    delay_s: FloatArray = np.arange(rounds, dtype=np.float64) * slot_s
    worth = np.zeros((len(values), rounds), dtype=np.int64)
    steps = [row for row, each in enumerate(values) if each.shape is Shape.STEPS]
    _add_steps(worth, steps, values, delay_s)
    for row, each in enumerate(values):
        if each.shape is not Shape.STEPS:
            worth[row] = np.rint(each.at(delay_s) * NANO)
    return worth


def _add_steps(
    worth: IntArray, rows: Sequence[int], values: Sequence[ValueFunction], delay_s: FloatArray
) -> None:
    """Fill rows of ``worth``, all 0, with functions that are steps: O(V S), without a call per function."""
    time_s = np.array([time_s for row in rows for time_s in values[row].time_s])
    nano = np.rint(np.array([v for row in rows for v in values[row].worth]) * NANO).astype(np.int64)
    sizes = [len(values[row].time_s) for row in rows]
    row = np.repeat(np.array(rows, dtype=np.int64), sizes)
    first = np.append(True, row[1:] != row[:-1])[: len(row)]
    worth[row[first], 0] = nano[first]
    # A worth holds up to its time and the next one after it, 0 after the last.
    after = np.append(np.where(first[1:], 0, nano[1:]), 0)[: len(row)]
    np.add.at(worth, (row, np.searchsorted(delay_s, time_s, side="right")), after - nano)
    np.cumsum(worth, axis=1, out=worth)


def _outlooks(outlooks: Sequence[Outlook], slot_us: int, signal: str) -> Outlooks:
    """The distributions in rounds."""
    row = np.repeat(np.arange(len(outlooks)), [len(each.probability) for each in outlooks])
    after_s, duration_s, probability = (
        np.concatenate([np.empty(0), *(getattr(each, name) for each in outlooks)])
        for name in ("arrival_after_s", "duration_s", "probability")
    )
    arrival = rounds_up(seconds_to_us(after_s), slot_us)
    duration = np.maximum(rounds_up(seconds_to_us(duration_s), slot_us), 1)
    return merged(row, arrival, duration, probability, signal, len(outlooks))


def merged(
    row: IntArray, arrival: IntArray, duration: IntArray, probability: FloatArray, signal: str, rows: int
) -> Outlooks:
    """Distributions of points, (n,) each, in rounds; points that fall together are one.

    ``row`` is the number of each point's distribution, ascending, below ``rows``. A signal never falls as
    the duration grows: points in order of (arrival, duration) are in order of (arrival, signal, duration).
    """
    keys = np.stack([row, arrival, duration])
    step = np.diff(keys)
    if not ((step[0] > 0) | (step[1] > 0) | ((step[1] == 0) & (step[2] >= 0))).all():
        order = np.lexsort(keys[::-1])
        keys, probability = keys[:, order], probability[order]
    first = np.flatnonzero(np.append(True, (np.diff(keys) != 0).any(axis=0))[: len(row)])
    row, arrival, duration = keys[:, first]
    return Outlooks(
        ptr=np.searchsorted(row, np.arange(rows + 1)).astype(np.int64),
        arrival=arrival,
        duration=duration,
        probability=np.add.reduceat(probability, first) if len(first) else probability,
        signal=signals(signal, duration),
    )
