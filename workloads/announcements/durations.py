"""Distributions of the durations of many jobs: their construction from a trace, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.units import MAX_TIME_S, US_PER_S, FloatArray, IntArray, seconds_to_us
from workloads.announcements.profile import History
from workloads.training.draws import choose

SHORTEST_S = 1.0
"""Shorter durations count as this long in logarithms and deadlines."""

_MOST_US = MAX_TIME_S * US_PER_S
_DIGITS = 15
"""Digits of nodes and weights, so that they do not hang on the last bit of a solver."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Distributions of J durations; that of job j has points ``ptr[j]`` to ``ptr[j + 1] - 1``, increasing."""

    ptr: IntArray
    """(J + 1,)"""
    duration_us: IntArray
    """(n,) >= 0."""
    probability: FloatArray
    """(n,) > 0; those of a job sum to 1."""

    @property
    def job(self) -> IntArray:
        """(n,) job of each point."""
        return np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))

    def mean_s(self) -> FloatArray:
        """(J,) expected durations."""
        weighted = self.duration_us / US_PER_S * self.probability
        means: FloatArray = np.bincount(self.job, weighted, minlength=len(self.ptr) - 1).astype(np.float64)
        return means


def error_points(points: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of Gauss-Hermite quadrature: a standard normal variable with so many values.

    Its moments up to ``2 points - 1`` are those of the normal distribution.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    rounded = np.round(weights / weights.sum(), _DIGITS)
    return np.round(nodes, _DIGITS), rounded / rounded.sum()


def around_realised(
    duration_us: IntArray, error: float, points: int, uniform: FloatArray
) -> tuple[Durations, IntArray]:
    """Lognormal distributions of which each realised duration is a draw.

    Of the points ``m exp(error z_k)`` with probability ``p_k``, the realised duration is number k with
    probability ``p_k``, which determines the median m. Points that coincide, after rounding to microseconds
    or at the longest possible time, are one.

    Parameters
    ----------
    duration_us : (J,) realised durations
    uniform : (J,) in [0, 1), which draw k

    Returns
    -------
    the distributions, and (J,) the drawn k

    Source: ours, see docs/engine.md#announced-jobs; the paper takes the distribution as given.
    """
    nodes, weights = error_points(points)
    drawn, _ = choose(weights.tolist(), uniform)
    factor = np.exp(error * (nodes[None, :] - nodes[drawn, None]))
    exact = duration_us[:, None] * factor
    durations = np.minimum(np.rint(exact), _MOST_US).astype(np.int64)
    durations[np.arange(len(drawn)), drawn] = duration_us
    jobs = np.repeat(np.arange(len(drawn)), points)
    return _merged(jobs, durations.ravel(), np.tile(weights, len(drawn)), len(drawn)), drawn


def _merged(job: IntArray, duration_us: IntArray, probability: FloatArray, jobs: int) -> Durations:
    """Distributions of points in order of job and duration; equal points of a job become one."""
    new = np.ones(len(job), dtype=np.bool_)
    new[1:] = (job[1:] != job[:-1]) | (duration_us[1:] != duration_us[:-1])
    ptr = np.searchsorted(job[new], np.arange(jobs + 1))
    summed = np.bincount(np.cumsum(new) - 1, probability).astype(np.float64)
    return Durations(ptr, duration_us[new], summed)


def own_history(frame: pl.DataFrame, birth_us: IntArray, history: History) -> Durations:
    """Empirical distribution, for each job, of the durations of the owner's jobs that ended before its birth.

    The ``history.jobs`` of them that ended last count. Sorted and divided into ``history.points`` groups of
    nearly equal size, each group is a point at its mean. Jobs without an owner or
    without such jobs have no points.

    Parameters
    ----------
    frame : columns of `SCHEMA`; a job ends `wait_s` (0 where null) and `duration_s` after its submission
    birth_us : (J,) in the trace's own time
    """
    duration_us = seconds_to_us(frame["duration_s"].to_numpy())
    wait_us = seconds_to_us(frame["wait_s"].fill_null(0).to_numpy())
    end_us = seconds_to_us(frame["submit_s"].to_numpy()) + wait_us + duration_us
    owner = frame.select(pl.col(history.of).rank("dense").fill_null(0).cast(pl.Int64)).to_series().to_numpy()
    by_end = np.lexsort((np.arange(len(owner)), frame["trace_order"].to_numpy(), end_us, owner))
    begin = np.searchsorted(owner[by_end], owner)
    known = _ended_before(owner, end_us, by_end, birth_us)
    groups: list[tuple[IntArray, FloatArray]] = []
    for job in range(len(owner)):
        first = max(int(begin[job]), int(known[job]) - history.jobs)
        past = by_end[first : known[job]] if owner[job] > 0 else by_end[:0]
        groups.append(_grouped(np.sort(duration_us[past]), history.points))
    return _joined(groups)


def _ended_before(owner: IntArray, end_us: IntArray, by_end: IntArray, birth_us: IntArray) -> IntArray:
    """(J,) position in ``by_end`` after the owner's last job that ended before the birth of each job."""
    known = np.empty(len(owner), dtype=np.int64)
    ptr = np.searchsorted(owner[by_end], np.arange(int(owner.max(initial=0)) + 2))
    for begin, end in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
        jobs = by_end[begin:end]
        known[jobs] = begin + np.searchsorted(end_us[jobs], birth_us[jobs], side="left")
    return known


def _grouped(past_us: IntArray, points: int) -> tuple[IntArray, FloatArray]:
    """Points of sorted durations, and their probabilities."""
    n = len(past_us)
    if n == 0:
        return past_us, np.empty(0)
    cuts = np.unique(np.arange(min(points, n)) * n // min(points, n))
    size = np.diff(np.append(cuts, n))
    means = np.rint(np.add.reduceat(past_us.astype(np.float64), cuts) / size).astype(np.int64)
    values, of_value = np.unique(means, return_inverse=True)
    return values, np.bincount(of_value, size) / n


def _joined(groups: Sequence[tuple[IntArray, FloatArray]]) -> Durations:
    sizes = [len(values) for values, _ in groups]
    return Durations(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([values for values, _ in groups]).astype(np.int64),
        np.concatenate([shares for _, shares in groups]),
    )


def filled_up(durations: Durations, others: Durations) -> Durations:
    """The distributions, with those of ``others`` for the jobs that have no points."""
    groups = []
    for job in range(len(durations.ptr) - 1):
        of = durations if durations.ptr[job] < durations.ptr[job + 1] else others
        points = slice(of.ptr[job], of.ptr[job + 1])
        groups.append((of.duration_us[points], of.probability[points]))
    return _joined(groups)


@dataclass(frozen=True, slots=True)
class Scores:
    """How well distributions predicted durations; logarithms are natural, of durations of at least 1 s."""

    covered: float
    """Share of jobs whose duration is between the least and the largest point."""
    mean_log_error: float
    """Average of log(expected duration / duration)."""
    mean_absolute_log_error: float
    crps_log: float
    """Average continuous ranked probability score of log(duration), E|X - y| - E|X - X'| / 2; a proper score,
    0 for the truth without error."""


def scores(durations: Durations, realised_us: IntArray) -> Scores:
    """Scores of the distributions of J >= 1 jobs for their realised durations, (J,).

    Source: Gneiting and Raftery, Strictly Proper Scoring Rules, Prediction, and Estimation (2007), eq. 21.
    """
    begin, last, job = durations.ptr[:-1], durations.ptr[1:] - 1, durations.job
    inside = (durations.duration_us[begin] <= realised_us) & (realised_us <= durations.duration_us[last])
    points, realised = _log_s(durations.duration_us / US_PER_S), _log_s(realised_us / US_PER_S)
    error = _log_s(durations.mean_s()) - realised
    distance = durations.probability @ np.abs(points - realised[job])
    crps = (distance - _half_spread(points, durations)) / len(realised_us)
    return Scores(
        float(inside.mean()), float(error.mean()), float(np.abs(error).mean()), max(float(crps), 0.0)
    )


def _half_spread(points: FloatArray, durations: Durations) -> float:
    """Sum over jobs of E|X - X'| / 2, which is the integral of F (1 - F) over the steps between points."""
    cumulative = np.cumsum(durations.probability) - durations.job
    step = np.diff(points)
    within = durations.job[1:] == durations.job[:-1]
    below = np.clip(cumulative[:-1], 0.0, 1.0)
    return float((step * below * (1 - below))[within].sum())


def _log_s(duration_s: FloatArray) -> FloatArray:
    logarithm: FloatArray = np.log(np.maximum(duration_s, SHORTEST_S))
    return logarithm
