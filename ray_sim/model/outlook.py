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

    def of(self, order: IntArray) -> _Points:
        """The points in another order."""
        return _Points(
            self.text[order],
            self.written.gather(order),
            self.after[order],
            self.duration[order],
            self.probability[order],
        )


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
    return points.of(np.lexsort((points.duration, points.after, points.text)))


def _ascending(points: _Points) -> BoolArray:
    """(n - 1,) whether each point is above the one before it, or of another text."""
    text, after, duration = points.text, points.after, points.duration
    above = (after[1:] > after[:-1]) | ((after[1:] == after[:-1]) & (duration[1:] > duration[:-1]))
    return np.asarray((text[1:] != text[:-1]) | above)


def _faults(points: _Points, texts: int) -> dict[int, str]:
    """The fault of each text that has one, by its index."""
    return {
        **_sum_faults(points, texts),
        **_repeat_faults(points),
        **_point_faults(points),
        **_count_faults(points, texts),
    }


def _count_faults(points: _Points, texts: int) -> dict[int, str]:
    count = np.bincount(points.text, minlength=texts)
    empty = {int(k): f"has no points; must be {OUTLOOK_FORM}" for k in np.flatnonzero(count == 0)}
    large = np.flatnonzero(count > MOST_POINTS)
    most = f"at most {MOST_POINTS:,} are possible; give it fewer points"
    return empty | {int(k): f"has {count[k]:,} points, {most}" for k in large}


def _point_faults(points: _Points) -> dict[int, str]:
    """Points that cannot be read or have numbers out of range; the first of each text."""
    with np.errstate(invalid="ignore"):
        sound = (points.probability > 0) & (points.probability <= 1)
        for times_s in (points.after, points.duration):
            sound &= (times_s >= 0) & (times_s <= MAX_TIME_S)
    wrong = np.flatnonzero(~sound)
    rule = (
        f"must be AFTER:DURATION:PROBABILITY with seconds in 0 .. {MAX_TIME_S:,} and a probability above 0 "
        "and at most 1"
    )
    return {
        int(points.text[k]): f"point {str(points.written[int(k)])[:40]!r} {rule}" for k in reversed(wrong)
    }


def _repeat_faults(points: _Points) -> dict[int, str]:
    again = np.flatnonzero(~_ascending(points)) + 1
    return {
        int(
            points.text[k]
        ): f"point {points.after[k]:.15g}:{points.duration[k]:.15g} is there twice; add up the "
        "probabilities of equal points"
        for k in again
    }


def _sum_faults(points: _Points, texts: int) -> dict[int, str]:
    total = np.bincount(points.text, points.probability, minlength=texts)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE)
    return {
        int(k): f"probabilities sum to {total[k]:.12g}, must sum to 1; divide each by the sum" for k in wrong
    }
