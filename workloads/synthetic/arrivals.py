"""Arrival processes: when the jobs of a synthetic workload are submitted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from ray_sim.model.errors import UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

HOUR_S = 3_600
DAY_S = 86_400
WEEK_S = 7 * DAY_S

_ROUNDS = 20
"""Rounds of the fit of hours and days. The error falls geometrically; ten rounds are enough in practice."""


MAX_JOBS = 100_000_000
"""Largest number of jobs in one draw; they take about 10 GB of memory."""


class ArrivalKind(StrEnum):
    """Arrival processes that a user may name."""

    POISSON = "poisson"
    """A constant rate."""
    ALTERNATING = "alternating"
    """Pairs of slots: the first has 1/3 of the pair's arrivals, the second 2/3."""
    DIURNAL = "diurnal"
    """A rate that follows the hour of the day and the day of the week."""
    RESAMPLED = "resampled"
    """Whole days of another workload's arrivals, drawn with replacement."""


def parse_arrivals(name: str | None) -> ArrivalKind | None:
    """The kind of that name, which must be one of `ArrivalKind`; None for None."""
    if name is None:
        return None
    try:
        return ArrivalKind(name)
    except ValueError as error:
        raise UnknownNameError("arrival process", name, [kind.value for kind in ArrivalKind]) from error


class Arrivals(Protocol):
    """A process that submits jobs from time 0 on."""

    @property
    def arrivals_per_s(self) -> float:
        """Mean rate, > 0."""
        ...

    def submit_s(self, jobs: int, streams: Streams, load_scale: float) -> FloatArray:
        """Submissions of the first ``jobs`` jobs, (J,), non-decreasing; more jobs begin with the same."""
        ...


@dataclass(frozen=True, slots=True)
class PeriodicPoisson:
    """A Poisson process whose rate repeats; ``load_scale`` multiplies the rate and keeps the period."""

    arrivals_per_s: float
    """Mean over a period, > 0."""
    time_s: FloatArray
    """(G,) rising from 0 to the period's end."""
    share: FloatArray
    """(G,) of a period's expected arrivals that come before, from 0 to 1; linear in between."""

    def submit_s(self, jobs: int, streams: Streams, load_scale: float) -> FloatArray:
        """Unit-rate arrivals mapped through the inverse of the integrated rate."""
        expected = np.cumsum(streams.generator("synth-arrivals").standard_exponential(jobs))
        return self._at(expected, self.arrivals_per_s * load_scale * self.time_s[-1])

    def among(self, uniform: FloatArray, until_s: float) -> FloatArray:
        """Arrival times in [0, ``until_s``], given their number, independent of each other.

        Parameters
        ----------
        uniform : (J,) in [0, 1), one for each arrival
        until_s : >= 0

        Returns
        -------
        (J,) in [0, until_s], in the order of ``uniform``
        """
        periods, rest_s = divmod(until_s, float(self.time_s[-1]))
        expected = periods + np.interp(rest_s, self.time_s, self.share)
        return self._at(uniform * expected, 1.0)

    def _at(self, expected: FloatArray, per_period: float) -> FloatArray:
        """Times at which the integrated rate reaches ``expected`` arrivals, ``per_period`` in each period."""
        periods, rest = np.divmod(expected, per_period)
        at_s: FloatArray = periods * self.time_s[-1] + np.interp(rest / per_period, self.share, self.time_s)
        return at_s


@dataclass(frozen=True, slots=True)
class ResampledDays:
    """Days drawn with replacement; ``load_scale`` divides all times, so days get shorter with it."""

    time_s: FloatArray
    """(A,) time of day of each arrival, day after day."""
    first: IntArray
    """(D + 1,) index of each day's first arrival, and A."""

    @property
    def arrivals_per_s(self) -> float:
        """Mean over the days, > 0."""
        return len(self.time_s) / ((len(self.first) - 1) * DAY_S)

    def submit_s(self, jobs: int, streams: Streams, load_scale: float) -> FloatArray:
        """Concatenate drawn days until they hold enough arrivals."""
        counts, generator = np.diff(self.first), streams.generator("synth-days")
        drawn = np.empty(0, np.int64)
        while (missing := jobs - int(counts[drawn].sum())) > 0:
            more = 1 + int(missing / counts.mean())
            uniform = generator.random(more)
            drawn = np.concatenate([drawn, np.floor(uniform * len(counts)).astype(np.int64)])
        sizes = counts[drawn]
        before = np.cumsum(sizes) - sizes
        arrival = np.arange(sizes.sum()) + np.repeat(self.first[drawn] - before, sizes)
        day = np.repeat(np.arange(len(drawn)), sizes)
        submit_s: FloatArray = (day * DAY_S + self.time_s[arrival])[:jobs] / load_scale
        return submit_s


def poisson(arrivals_per_s: float) -> PeriodicPoisson:
    """A constant rate."""
    return PeriodicPoisson(arrivals_per_s, np.array([0.0, HOUR_S]), np.array([0.0, 1.0]))


def alternating(arrivals_per_s: float, slot_s: float) -> PeriodicPoisson:
    """The first, third, ... slot takes 1/3 of the arrivals of a pair, the second, fourth, ... 2/3."""
    return PeriodicPoisson(arrivals_per_s, np.array([0.0, slot_s, 2 * slot_s]), np.array([0.0, 1 / 3, 1.0]))


@dataclass(frozen=True, slots=True)
class ObservedInterval:
    """Interval in which all submissions were recorded, in seconds of the workload's own time."""

    begin_s: float
    end_s: float

    @property
    def span_s(self) -> float:
        """Length of the interval in seconds."""
        return self.end_s - self.begin_s

    @property
    def days(self) -> range:
        """Numbers of the days, counted from second 0, that lie completely in the interval."""
        return range(int(-(-self.begin_s // DAY_S)), int(self.end_s // DAY_S))


def observed(first_s: float, last_s: float) -> ObservedInterval:
    """Estimate the interval in which a workload was recorded from its first and last submission.

    In a record of whole days the first submission comes shortly after the first day begins, and the last one
    shortly before the last day ends. So each end is moved to the day's limit if that is less than an hour
    away; then a span that is less than an hour short of whole days is extended to whole days.
    """
    begin_s = first_s - first_s % DAY_S if first_s % DAY_S < HOUR_S else first_s
    end_s = last_s + (-last_s) % DAY_S if (-last_s) % DAY_S < HOUR_S else last_s
    lacking_s = (begin_s - end_s) % DAY_S
    return ObservedInterval(begin_s, end_s + lacking_s if lacking_s < HOUR_S else end_s)


def fit_diurnal(submit_s: FloatArray) -> PeriodicPoisson | None:
    """The rate by hour of the day and, over a week or more, by day of the week; None below a day.

    Hours and days count from second 0. The rate of an hour is the product of a factor of its hour of the
    day and a factor of its day of the week: the maximum-likelihood factors of a Poisson process in the
    `observed` interval.

    Parameters
    ----------
    submit_s : (J,) seconds, non-decreasing
    """
    seen = observed(float(submit_s[0]), float(submit_s[-1]))
    if seen.span_s < DAY_S:
        return None
    hour = (submit_s % WEEK_S // HOUR_S).astype(np.int64)
    counts = np.bincount(hour, minlength=7 * 24).reshape(7, 24)
    seen_s = _exposure_s(seen)
    of_day = np.ones(7)
    for _ in range(_ROUNDS):
        of_hour = counts.sum(axis=0) / (seen_s * of_day[:, None]).sum(axis=0)
        if seen.span_s >= WEEK_S:
            of_day = counts.sum(axis=1) / (seen_s * of_hour).sum(axis=1)
    per_hour = (of_day[:, None] * of_hour).ravel() * HOUR_S
    before = np.concatenate([[0.0], np.cumsum(per_hour)])
    return PeriodicPoisson(before[-1] / WEEK_S, np.arange(0.0, WEEK_S + 1, HOUR_S), before / before[-1])


def _exposure_s(seen: ObservedInterval) -> FloatArray:
    """(7, 24) seconds of each hour of the week that were observed."""
    weeks = seen.span_s // WEEK_S
    begin_s = seen.begin_s % WEEK_S
    end_s = begin_s + seen.span_s - weeks * WEEK_S
    hours_s = np.arange(2 * 7 * 24) * float(HOUR_S)
    overlap_s = np.minimum(hours_s + HOUR_S, end_s) - np.maximum(hours_s, begin_s)
    partial_s = np.maximum(overlap_s, 0.0).reshape(2, 7, 24).sum(axis=0)
    seen_s: FloatArray = weeks * HOUR_S + partial_s
    return seen_s


def fit_days(submit_s: FloatArray) -> ResampledDays | None:
    """The days that were `observed` whole; None where they hold no job.

    Parameters
    ----------
    submit_s : (J,) seconds, non-decreasing; days count from second 0
    """
    days = observed(float(submit_s[0]), float(submit_s[-1])).days
    if not days:
        return None
    day = (submit_s // DAY_S).astype(np.int64)
    first = np.searchsorted(day, np.arange(days.start, days.stop + 1))
    if first[0] == first[-1]:
        return None
    inside = slice(first[0], first[-1])
    return ResampledDays((submit_s - day * DAY_S)[inside], first - first[0])
