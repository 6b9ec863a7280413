"""Bounds of several runs and the gap to them: one definition for tables, comparisons, MLflow and the arena.

The gap of several runs is a ratio of means, not the mean of their gaps: a run with almost no bound, or that
earned almost nothing, would dominate a mean of ratios.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from ray_sim.model.figures.announced import AnnouncedFigures
from ray_sim.model.result import Summary
from ray_sim.model.units import FloatArray
from ray_sim.reports.compare import JCT, WELFARE, lower_is_better
from ray_sim.reports.statistics import ConfidenceInterval, ratio_interval, ratio_of_means


def share_of_means(above: FloatArray, below: FloatArray) -> float | None:
    """Mean of ``above`` over that of ``below``; None without runs, or if the latter is not above 0."""
    if not len(below) or np.mean(below) <= 0:
        return None
    return ratio_of_means(above, below)


def gap_of_means(values: FloatArray, bounds: FloatArray, *, lower: bool) -> float | None:
    """Gap of N runs: mean value / mean bound - 1 where lower is better, else mean bound / mean value - 1.

    Parameters
    ----------
    values, bounds : shape (N,), of the N runs that have both, in one unit
    lower : whether lower values are better, as of completion times, so that bounds are below the values

    Returns
    -------
    None where that divides by 0 or by less; of bounds below the values it is 0 where both are 0 everywhere.
    For one run it is the gap of the run's certificate up to rounding.
    """
    above, below = (values, bounds) if lower else (bounds, values)
    share = share_of_means(above, below)
    if share is not None:
        return share - 1
    return 0.0 if lower and len(values) and not values.any() and not bounds.any() else None


@dataclass(frozen=True, slots=True)
class Gap:
    """The columns of a gap in a table of runs."""

    value: str
    bound: str
    lower: bool
    """Whether lower values are better, so that bounds are below the values."""

    def of(self, runs: pl.DataFrame) -> float | None:
        """`gap_of_means` of the runs that have both columns."""
        return gap_of_means(*self._pairs(runs), lower=self.lower)

    def interval(self, runs: pl.DataFrame) -> ConfidenceInterval | None:
        """95 % interval of that gap; None where `ratio_interval` has none.

        Where no run is beyond its bound, so is no end: only a run that was sped up can be.
        """
        values, bounds = self._pairs(runs)
        above, below = (values, bounds) if self.lower else (bounds, values)
        found = None if share_of_means(above, below) is None else ratio_interval(above, below)
        if found is None:
            return None
        least = 0.0 if (above >= below).all() else -1.0
        return ConfidenceInterval(max(found.low - 1, least), found.high - 1)

    def _pairs(self, runs: pl.DataFrame) -> tuple[FloatArray, FloatArray]:
        both = runs.drop_nulls([self.value, self.bound])
        return both[self.value].cast(pl.Float64).to_numpy(), both[self.bound].cast(pl.Float64).to_numpy()


UTILITY = "utility"


@dataclass(frozen=True, slots=True)
class PolicyBound:
    """The certificates of a policy's runs at one place; docs/certificates.md says what the bounds are."""

    policy: str
    runs: int
    """Number of runs with a bound."""
    bound: float
    """Mean bound of these runs: below their values for completion times, above for utility and welfare."""
    gap: float | None
    """See `gap_of_means`."""
    largest: str | None
    """The bound that counts, with its resource and partition, e.g. ``B2 of gpu``, in most runs."""


class _Bounded(NamedTuple):
    value: float
    bound: float
    largest: str | None


def policy_bounds(runs: Iterable[tuple[str, Summary]], metric: str) -> tuple[PolicyBound, ...]:
    """Bounds of the policies in the runs of one place, by label; none where the metric has no bound."""
    found: dict[str, list[_Bounded]] = {}
    for policy, summary in runs:
        if (bounded := _bounded(summary, metric)) is not None:
            found.setdefault(policy, []).append(bounded)
    return tuple(_of_policy(policy, found[policy], lower_is_better(metric)) for policy in sorted(found))


def _of_policy(policy: str, runs: list[_Bounded], lower: bool) -> PolicyBound:
    values, bounds = np.array([run.value for run in runs]), np.array([run.bound for run in runs])
    names = Counter(run.largest for run in runs if run.largest is not None)
    largest = min(names, key=lambda name: (-names[name], name)) if names else None
    gap = gap_of_means(values, bounds, lower=lower)
    return PolicyBound(policy, len(runs), float(np.mean(bounds)), gap, largest)


def _bounded(summary: Summary, metric: str) -> _Bounded | None:
    """Value and bound of a run; None where the metric has none."""
    jct, utility = summary.certificate, summary.utility_certificate
    announced = summary.figures_as(AnnouncedFigures)
    if metric == JCT and jct is not None and summary.jct_s.mean is not None:
        return _Bounded(summary.jct_s.mean, jct.bound_s, jct.binding_text)
    if metric == UTILITY and utility is not None and summary.utility is not None:
        return _Bounded(summary.utility, utility.bound, None)
    if metric == WELFARE and announced is not None:
        return _Bounded(announced.welfare.welfare, announced.welfare.bound, None)
    return None
