"""Spearman's rank correlation of simulated with real values, against a constant per class, with intervals.

A correlation is 0 where one side is the same for all rows: such a prediction orders nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.reports.statistics import LEVEL, ConfidenceInterval

RESAMPLES = 1_000
"""Number of bootstrap resamples of an interval."""

LEAST_GROUPS = 20
"""Least number of groups with an interval; docs/running.md has the cover."""

_CELLS_AT_ONCE = 2**16
"""Largest number of weights in memory at once."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval, null for fewer than `LEAST_GROUPS` groups."""

    value: float
    interval: ConfidenceInterval | None


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Rank correlations with the real values."""

    simulated: Estimate
    """Of the simulated values."""
    constant: Estimate
    """Of the mean real value of each row's class."""
    difference: Estimate
    """`simulated` minus `constant`, on the same resamples."""


def rank_agreement(
    real: FloatArray,
    simulated: FloatArray,
    classes: IntArray,
    groups: IntArray,
    generator: np.random.Generator,
) -> RankAgreement:
    """Correlate simulated values, and class means of real values, with real values.

    Intervals are percentile bootstrap intervals. A resample draws as many groups as there are, with
    replacement, each with all of its rows, as rows of a group depend on each other. It computes the class
    means anew.

    Parameters
    ----------
    real, simulated : shape (N,), N >= 1, finite
    classes, groups : shape (N,), numbers from 0; a group stands for independent rows

    Source: Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 1979; groups:
    Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8.
    """
    cells = _Cells(real, simulated, classes, groups)
    count = int(groups.max()) + 1
    found = cells.agreements(np.ones((count, 1)))
    drawn = np.empty((3, 0))
    if count >= LEAST_GROUPS:
        at_once = max(1, _CELLS_AT_ONCE // (len(cells) + count))
        sizes = np.diff([*range(0, RESAMPLES, at_once), RESAMPLES]).tolist()
        draws = (generator.multinomial(count, np.full(count, 1 / count), size) for size in sizes)
        drawn = np.concatenate([cells.agreements(each.T.astype(np.float64)) for each in draws], axis=1)
    return RankAgreement(*map(_estimate, found[:, 0], drawn))


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    if not len(drawn):
        return Estimate(float(value), None)
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return Estimate(float(value), ConfidenceInterval(float(low), float(high)))


class _Key:
    """A number from 0 of each cell; weights of cells are summed by it, for B resamples at once."""

    def __init__(self, position: IntArray) -> None:
        from scipy.sparse import csr_array

        self.position = position
        cells = np.arange(len(position))
        self._matrix = csr_array((np.ones(len(position)), (position, cells)))

    def sums(self, weight: FloatArray) -> FloatArray:
        """(K, B) sum of the weights (C, B) of the cells with each number."""
        return np.asarray(self._matrix @ weight)


class _Cells:
    """Rows with equal values, class and group, counted; C cells of G groups."""

    def __init__(self, real: FloatArray, simulated: FloatArray, classes: IntArray, groups: IntArray) -> None:
        keys = [np.unique(each, return_inverse=True)[1] for each in (real, simulated)]
        columns = np.stack([*keys, classes, groups])
        order = np.lexsort(columns[::-1])
        ordered = columns[:, order]
        first = np.flatnonzero(np.append(True, (np.diff(ordered) != 0).any(axis=0)))
        self._real, self._simulated, self._class = map(_Key, ordered[:3, first])
        self._group = ordered[3, first]
        self._rows = np.diff(np.append(first, len(real)))[:, None]
        self._real_value = real[order[first], None]

    def __len__(self) -> int:
        return len(self._rows)

    def agreements(self, draws: FloatArray) -> FloatArray:
        """Correlation of the simulated values, of the class means, and their difference, for each resample.

        Parameters
        ----------
        draws : shape (G, B), number of times that each resample holds each group

        Returns
        -------
        shape (3, B)
        """
        weight = draws[self._group] * self._rows
        sums = self._real.sums(weight)
        ranks = _midranks(sums)
        variance = _products(sums, ranks, ranks)
        real = weight * ranks[self._real.position]

        def correlation(key: _Key, sums: FloatArray, ranks: FloatArray) -> FloatArray:
            scale = np.sqrt(_products(sums, ranks, ranks) * variance)
            product = np.einsum("kb,kb->b", ranks, key.sums(real))
            found: FloatArray = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
            return found

        sums = self._simulated.sums(weight)
        simulated = correlation(self._simulated, sums, _midranks(sums))
        sums = self._class.sums(weight)
        totals = self._class.sums(weight * self._real_value)
        constant = correlation(self._class, sums, _ranks_of_means(sums, totals))
        return np.stack([simulated, constant, simulated - constant])


def _midranks(sums: FloatArray) -> FloatArray:
    """(K, B) ranks about 0 of ascending values, of which there are `sums` (K, B); equal ones share a rank."""
    ranks: FloatArray = np.cumsum(sums, axis=0) - (sums + sums.sum(axis=0)) / 2
    return ranks


def _ranks_of_means(sums: FloatArray, totals: FloatArray) -> FloatArray:
    """(K, B) midranks about 0 of the means `totals / sums` of K classes."""
    with np.errstate(invalid="ignore"):  # a class that a resample lacks has no mean, and no weight
        mean = totals / sums
    above = (mean[:, None] > mean).astype(np.float64) - (mean[:, None] < mean)
    ranks: FloatArray = np.einsum("klb,lb->kb", above, sums) / 2
    return ranks


def _products(weight: FloatArray, one: FloatArray, other: FloatArray) -> FloatArray:
    """(B,) sums over K of the products."""
    found: FloatArray = np.einsum("kb,kb,kb->b", weight, one, other)
    return found
