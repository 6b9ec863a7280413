"""Gap of several runs to their bounds: one definition for tables, comparisons, MLflow and the arena.

The gap of several runs is a ratio of means, not the mean of their gaps: a run with almost no bound, or that
earned almost nothing, would dominate a mean of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray
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
