"""Values of a figure by series, x and seed, and comparisons of them as statements about means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray
from ray_sim.reports.statistics import (
    ConfidenceInterval,
    ValueRange,
    mean_interval,
    ratio_interval,
    ratio_of_means,
)

X = bool | int | float | str | None
"""A value of x: a number, or the name of a category."""

Places = tuple[X, ...]
"""Values of x; a value at several is the mean over them."""

Ends = tuple[float | None, float | None]
"""Range of a number; None is an open end."""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a comparison: the statement says that the mean of these values is above 0."""

    values: FloatArray
    """Shape (N,), by seed."""
    interval: ConfidenceInterval | None
    """95 % interval of the mean."""

    @classmethod
    def of(cls, values: FloatArray) -> Test:
        """Test of differences, with the t interval of their mean."""
        return cls(values, mean_interval(values))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of means within a check."""

    text: str
    estimate: float | None
    """The difference, ratio or mean that is compared; None without values."""
    interval: ConfidenceInterval | None
    """95 % interval of the estimate; None for too few seeds."""
    means: tuple[float, ...]
    """Means of the values that enter."""
    tests: tuple[Test, ...]
    untested: bool = False
    """Whether it has values but no test, since a mean that it divides by is not above 0."""
    exact: bool = False
    """Whether no run in it depends on a seed, so that one value each is all there is to know."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Values by (series, x), and by seed in these; the seed of a run that depends on none is None."""

    values: Mapping[tuple[str, X], Mapping[int | None, float]]
    range: ValueRange = ValueRange.ANY

    def exact(self, *cells: tuple[str, Places]) -> bool:
        """Whether all cells have runs, and none depends on a seed."""
        parts = [self.values.get((series, x), {}) for series, xs in cells for x in xs]
        return all(set(part) == {None} for part in parts)

    def paired(self, *cells: tuple[str, Places]) -> tuple[FloatArray, ...]:
        """Values of each cell over the seeds that all cells have.

        Parameters
        ----------
        cells : series and values of x, over which the values are averaged seed by seed

        Returns
        -------
        for each cell shape (N,), ordered by seed; N is 1 if no run depends on a seed, 0 if a cell has no run
        """
        found = [[self.values.get((series, x), {}) for x in xs] for series, xs in cells]
        seeds = _common_seeds([part for cell in found for part in cell])
        return tuple(np.array([_mean_at(seed, cell) for seed in seeds], np.float64) for cell in found)


def _mean_at(seed: int | None, parts: Sequence[Mapping[int | None, float]]) -> float:
    """Mean over the parts of a cell of the value with this seed, or of the only value."""
    return float(np.mean([part[seed] if seed in part else part[None] for part in parts]))


def _common_seeds(parts: Sequence[Mapping[int | None, float]]) -> list[int | None]:
    if not all(parts):
        return []
    seeded = [set(part) for part in parts if None not in part]
    return sorted(set.intersection(*seeded), key=lambda seed: seed or 0) if seeded else [None]


def difference(text: str, better: FloatArray, worse: FloatArray, sign: float = 1.0) -> Comparison:
    """The first mean is above the second; with sign -1, below it."""
    change = better - worse
    return Comparison(
        text, _mean(change), mean_interval(change), _means(better, worse), (Test.of(sign * change),)
    )


def mean_within(text: str, value: FloatArray, ends: Ends, values: ValueRange) -> Comparison:
    """The mean is from one end to the other. The tests are by the interval of the mean."""
    (low, high), found = ends, mean_interval(value, values)
    above = [] if low is None else [Test(value - low, _shifted(found, 1.0, -low))]
    below = [] if high is None else [Test(high - value, _shifted(found, -1.0, high))]
    return Comparison(text, _mean(value), found, _means(value), (*above, *below))


def _shifted(interval: ConfidenceInterval | None, sign: float, by: float) -> ConfidenceInterval | None:
    """Interval of the quantity times a sign, plus a number."""
    if interval is None:
        return None
    low, high = sorted([sign * interval.low + by, sign * interval.high + by])
    return ConfidenceInterval(low, high)


def ratio_within(text: str, above: FloatArray, below: FloatArray, ends: Ends) -> Comparison:
    """The ratio of the means is from one end to the other; not tested unless mean `below` is above 0."""
    positive = len(below) > 0 and float(np.mean(below)) > 0
    over, under = (above, below) if positive else (above[:0], below[:0])
    low, high = ends
    tests = [*([] if low is None else [over - low * under]), *([] if high is None else [high * under - over])]
    return Comparison(
        text,
        ratio_of_means(above, below) if positive else None,
        ratio_interval(above, below) if positive else None,
        _means(above, below),
        tuple(map(Test.of, tests)),
        untested=len(below) > 0 and not positive,
    )


def ratio_change(
    text: str, before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray], sign: float
) -> Comparison:
    """The ratio of means of the second pair is above that of the first; with sign -1, below it.

    The change is linearised in the means, so that it has one number per seed whose mean is the change.

    Source: Casella and Berger, Statistical Inference, 2002, section 5.5.4 (delta method).
    """
    means = _means(*after, *before)
    if not means or min(float(np.mean(below)) for _, below in (before, after)) <= 0:
        return Comparison(text, None, None, means, (Test.of(after[0][:0]),), untested=bool(means))
    change = _linear_ratio(*after) - _linear_ratio(*before)
    return Comparison(text, _mean(change), mean_interval(change), means, (Test.of(sign * change),))


def _linear_ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Ratio of the means plus each seed's effect on it."""
    centre = np.mean(above) / np.mean(below)
    values: FloatArray = centre + (above - centre * below) / np.mean(below)
    return values


def _mean(values: FloatArray) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _means(*cells: FloatArray) -> tuple[float, ...]:
    return tuple(float(np.mean(cell)) for cell in cells if len(cell))
