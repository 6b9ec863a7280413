"""Outlooks of announced jobs: joint distributions of arrival and duration with finite support.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
section 2. The text form is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.units import MAX_TIME_S, BoolArray, FloatArray, IntArray

MOST_POINTS = 1_000_000
"""Most points of an outlook."""

SUM_TOLERANCE = 1e-9
"""Largest distance of the sum of probabilities to 1; they are divided by their sum."""

OUTLOOK_FORM = (
    "points AFTER:DURATION:PROBABILITY such as 0:60:0.5 0:600:0.5, seconds from the birth to the arrival and "
    "of the run"
)
"""Form that `parse_outlook` reads, for messages."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Distribution of arrival and duration of a job; points differ and are sorted by (arrival, duration)."""

    arrival_after_s: FloatArray
    """(n,) seconds from the birth to the arrival, >= 0."""
    duration_s: FloatArray
    """(n,) seconds of the run, >= 0."""
    probability: FloatArray
    """(n,) > 0; they sum to 1."""


@dataclass(frozen=True, slots=True)
class _Points:
    """Points of many texts, those of one text together; NaN where a number cannot be read."""

    text: IntArray
    """(n,) index of the text."""
    written: pl.Series
    """(n,) the point as it is written."""
    after: FloatArray
    duration: FloatArray
    probability: FloatArray


def parse_outlook(text: str) -> Outlook:
    """Parse points ``AFTER:DURATION:PROBABILITY`` with blanks between.

    Raises
    ------
    ValueError : another form, numbers out of range, equal points, more than `MOST_POINTS`, or probabilities
        that do not sum to 1 within `SUM_TOLERANCE`; the text says which
    """
    return parse_outlooks(pl.Series([text], dtype=pl.String))[0]


def parse_outlooks(texts: pl.Series) -> tuple[Outlook, ...]:
    """`parse_outlook` of each text; 100,000 texts of 15 points take less than a second.

    Raises
    ------
    ValueError : as `parse_outlook`, for the first such text
    """
    points = _points(texts)
    if faults := _faults(points, len(texts)):
        raise ValueError(faults[min(faults)])
    ends = np.cumsum(np.bincount(points.text, minlength=len(texts)))
    total = np.bincount(points.text, points.probability, minlength=len(texts))
    columns = (points.after, points.duration, points.probability / total[points.text])
    for column in columns:
        column.setflags(write=False)
    after, duration, probability = columns
    spans = zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)
    return tuple(
        Outlook(after[begin:end], duration[begin:end], probability[begin:end]) for begin, end in spans
    )


def outlook_faults(texts: pl.Series) -> Mapping[int, str]:
    """What is wrong with each text that `parse_outlook` refuses, by its index."""
    return _faults(_points(texts), len(texts))


def _points(texts: pl.Series) -> _Points:
    """Points of the texts, sorted by (text, arrival, duration)."""
    written = pl.DataFrame({"point": texts.str.split(" ")}).with_row_index("text")
    written = written.explode("point").filter(pl.col("point").str.len_bytes() > 0)
    *parts, beyond = written["point"].str.split_exact(":", 3).struct.unnest().get_columns()
    numbers = [part.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() for part in parts]
    numbers[0] = np.where(beyond.is_null(), numbers[0], np.nan)  # a fourth number makes the point unreadable
    points = _Points(written["text"].cast(pl.Int64).to_numpy(), written["point"], *numbers)
    if bool(_ascending(points).all()):
        return points
    order = np.lexsort((points.duration, points.after, points.text))
    columns = (points.after, points.duration, points.probability)
    return _Points(points.text[order], points.written.gather(order), *(column[order] for column in columns))


def _ascending(points: _Points) -> BoolArray:
    """(n - 1,) whether each point is above the one before it, or of another text."""
    text, after, duration = points.text, points.after, points.duration
    above = (after[1:] > after[:-1]) | ((after[1:] == after[:-1]) & (duration[1:] > duration[:-1]))
    return np.asarray((text[1:] != text[:-1]) | above)


def _faults(points: _Points, texts: int) -> dict[int, str]:
    """The fault of each text that has one, by its index; a later rule here goes before an earlier one."""
    faults: dict[int, str] = {}
    total = np.bincount(points.text, points.probability, minlength=texts)
    count = np.bincount(points.text, minlength=texts)
    with np.errstate(invalid="ignore"):
        uneven = np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE)
        sound = (points.probability > 0) & (points.probability <= 1)
        for times_s in (points.after, points.duration):
            sound &= (times_s >= 0) & (times_s <= MAX_TIME_S)
    for k in uneven.tolist():
        faults[k] = f"probabilities sum to {total[k]:.12g}, must sum to 1; divide each by the sum"
    for k in (np.flatnonzero(~_ascending(points)) + 1).tolist():
        again = f"point {points.after[k]:.15g}:{points.duration[k]:.15g} is there twice"
        faults[int(points.text[k])] = f"{again}; add up the probabilities of equal points"
    for k in np.flatnonzero(~sound)[::-1].tolist():  # the first of each text is told
        faults[int(points.text[k])] = (
            f"point {str(points.written[k])[:40]!r} must be AFTER:DURATION:PROBABILITY with seconds in "
            f"0 .. {MAX_TIME_S:,} and a probability above 0 and at most 1"
        )
    for k in np.flatnonzero(count == 0).tolist():
        faults[k] = f"has no points; must be {OUTLOOK_FORM}"
    for k in np.flatnonzero(count > MOST_POINTS).tolist():
        faults[k] = f"has {count[k]:,} points, at most {MOST_POINTS:,} are possible; give it fewer points"
    return faults
