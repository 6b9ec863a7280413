"""Statistics of paired differences, of plain arrays: intervals and their cover, a test, effect sizes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from ray_sim.model.readable import number
from ray_sim.model.units import FloatArray

_SIGNED = ("welfare.surplus", "policy_figures.")
_SHARES = ("utilisation.", "jain_index", "welfare.eviction_rate")


class ValueRange(Enum):
    """Values that a quantity can have."""

    ANY = auto()
    """Any number, such as a difference."""
    NOT_NEGATIVE = auto()
    """Numbers from 0 on, such as a time or a count."""
    SHARE = auto()
    """Numbers from 0 to 1."""


def metric_range(metric: str) -> ValueRange:
    """Range of a metric: a key of `Summary.flat`, of timing.json or of the scores of an arena."""
    if metric.startswith(_SIGNED):
        return ValueRange.ANY
    share = metric.startswith(_SHARES) or metric.endswith("share")
    return ValueRange.SHARE if share else ValueRange.NOT_NEGATIVE


LEVEL = 0.05
"""Error rate of the test; intervals have level 95 %."""

FEWEST_VALUES = 5
"""Fewest values that have an interval.

The rule: the least number from which intervals of means hold the true mean in more than 90 % of cases for
normal values, exponential values, and exponential values half of which are 0, as waits are (docs/compare.md).
"""

ROUNDING = 1e-12
"""Means whose relative difference is less are equal: sums of the same values in another order differ so."""

PERMUTATIONS = 9_999
"""Number of random sign flips; up to 13 pairs have fewer flips in all, and the test counts every one."""

BATCH_VALUES = 1_000_000
"""Differences with flipped signs that are held at a time, in copies of 8 MB; up to 100 pairs all at once."""

MOST_PAIRS = 100_000
"""Largest number that `pairs_to_decide` gives."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A 95 % confidence interval."""

    low: float
    high: float


def paired_difference(sample: FloatArray, baseline: FloatArray) -> FloatArray:
    """Differences sample minus baseline, (N,), pair by pair; `ValueError` where the shapes differ."""
    if sample.shape != baseline.shape or sample.ndim != 1:
        raise ValueError(f"sample has shape {sample.shape}, baseline {baseline.shape}; want (N,) and (N,)")
    difference: FloatArray = sample - baseline
    return difference


def mean_interval(
    sample: FloatArray, values: ValueRange = ValueRange.ANY, fewest: int = FEWEST_VALUES
) -> ConfidenceInterval | None:
    """95 % interval of a mean, within the range of the values; None for fewer than ``fewest`` of these.

    Student's t interval for any numbers. For numbers that are not negative it is that of the mean's
    logarithm, for shares that of its logit, by the delta method: they stay in the range, and hold the true
    mean of skewed values more often. docs/compare.md has the cover.

    Parameters
    ----------
    sample : shape (N,)
    fewest : at least 2

    Source: Student, The probable error of a mean, Biometrika 1908; Casella and Berger, Statistical Inference,
    2002, section 5.5.4 (delta method).
    """
    from scipy.special import expit, logit

    if len(sample) < fewest:
        return None
    centre, half = float(np.mean(sample)), math.sqrt(_squared_half_width(sample, sample))
    if values is ValueRange.NOT_NEGATIVE and centre > 0 <= np.min(sample):
        factor = math.exp(half / centre)
        return ConfidenceInterval(centre / factor, centre * factor)
    if values is ValueRange.SHARE and 0 < centre < 1 and half:
        low, high = expit(logit(centre) + np.array([-half, half]) / (centre * (1 - centre)))
        return ConfidenceInterval(float(low), float(high))
    return ConfidenceInterval(centre - half, centre + half)


def ratio_of_means(sample: FloatArray, baseline: FloatArray) -> float | None:
    """Mean of the sample divided by the mean of the baseline; None without values, or if that mean is 0."""
    if not len(baseline) or not np.mean(baseline):
        return None
    return float(np.mean(sample) / np.mean(baseline))


def ratio_interval(
    sample: FloatArray, baseline: FloatArray, fewest: int = FEWEST_VALUES
) -> ConfidenceInterval | None:
    """95 % interval of the ratio of the means of paired samples; cut at 0 where no value is negative.

    It holds the ratios r for which `mean_interval` of ``sample - r * baseline`` holds 0, so it holds 1 if and
    only if the interval of the difference holds 0.

    Parameters
    ----------
    sample, baseline : shape (N,), paired by index
    fewest : at least 2

    Returns
    -------
    None for fewer than ``fewest`` pairs, and if the baseline's mean does not differ significantly from 0,
    since the ratio then has no bounds

    Source: Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 1954.
    """
    ratio = ratio_of_means(sample, baseline)
    if len(sample) < fewest or ratio is None:
        return None
    # With r = ratio + x and e = sample - ratio * baseline, whose mean is 0, the ends solve
    # (mean(baseline)^2 - v_bb) x^2 + 2 v_be x - v_ee = 0, where v are squared half widths of intervals.
    rest = sample - ratio * baseline
    quadratic = float(np.mean(baseline)) ** 2 - _squared_half_width(baseline, baseline)
    if quadratic <= 0:
        return None
    linear, constant = _squared_half_width(baseline, rest), _squared_half_width(rest, rest)
    root = math.sqrt(linear**2 + quadratic * constant)
    low, high = ratio + (-linear - root) / quadratic, ratio + (-linear + root) / quadratic
    return ConfidenceInterval(max(low, 0.0) if min(sample.min(), baseline.min()) >= 0 else low, high)


def _squared_half_width(one: FloatArray, other: FloatArray) -> float:
    """Covariance of two means times the squared t quantile; for a sample with itself, (half width)^2."""
    from scipy.special import stdtrit

    pairs = len(one)
    covariance = float(np.dot(one - np.mean(one), other - np.mean(other))) / (pairs - 1)
    return float(stdtrit(pairs - 1, 1 - LEVEL / 2)) ** 2 * covariance / pairs


def sign_flip_p_value(difference: FloatArray, generator: np.random.Generator) -> float:
    """Two-sided p-value of "the differences are symmetric about 0", by flipping their signs.

    Exact up to 13 pairs; beyond that `PERMUTATIONS` random flips are drawn, and the least value is 0.0002.

    Parameters
    ----------
    difference : shape (N,), N >= 1

    Source: Fisher, The Design of Experiments, 1935, section 21.
    """
    from scipy.stats import permutation_test

    result = permutation_test(
        (difference,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=min(PERMUTATIONS, max(BATCH_VALUES // len(difference), 1)),
        rng=generator,
    )
    return float(result.pvalue)


def holm(p_values: FloatArray) -> FloatArray:
    """P-values adjusted for multiple tests, so that any false rejection at 5 % has probability at most 5 %.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Stat. 1979.
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


def pairs_needed(comparisons: int) -> int:
    """Least number of pairs with which the sign-flip test can reach 5 % after Holm.

    N differences of one sign give the least possible p-value, 2 / 2^N, and Holm multiplies it by the number
    of comparisons, >= 1.
    """
    return math.ceil(1 + math.log2(comparisons / LEVEL))


def cohens_d_z(difference: FloatArray) -> float | None:
    """Mean difference in standard deviations of the differences; None if these do not vary.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, section 2.3.5.
    """
    if len(difference) < 2 or not np.ptp(difference):
        return None
    return float(np.mean(difference) / np.std(difference, ddof=1))


def superiority(difference: FloatArray) -> float:
    """Share of pairs in which the difference is below 0; a tie counts one half."""
    return float(np.mean((difference < 0) + 0.5 * (difference == 0)))


def pairs_to_decide(difference: FloatArray, comparisons: int) -> int | None:
    """Least number of pairs with which these differences would be significant, if mean and spread stayed.

    Significant at 5 % after multiplying the t test's p-value by the number of comparisons, so that the
    95 % interval leaves out 0 too, and at least `pairs_needed`.

    Parameters
    ----------
    difference : shape (N,), N >= 2
    comparisons : number of tests that Holm's correction covers, >= 1

    Returns
    -------
    None if the mean is 0, or more than `MOST_PAIRS` would be needed
    """
    from scipy.special import stdtrit

    mean, spread = abs(float(np.mean(difference))), float(np.std(difference, ddof=1))
    pairs = np.unique(np.geomspace(2, MOST_PAIRS, 2_000).astype(np.int64))
    half_widths = stdtrit(pairs - 1, 1 - LEVEL / 2 / comparisons) * spread / np.sqrt(pairs)
    enough = pairs[half_widths < mean]
    return max(int(enough[0]), pairs_needed(comparisons)) if len(enough) else None


TOO_FEW = "too few seeds"
"""Text in place of an interval over 2 to `FEWEST_VALUES` - 1 seeds."""


def interval_text(
    interval: ConfidenceInterval | None, seeds: int, text: Callable[[float], str] = number
) -> str:
    """Ends such as ``3 to 5``; without an interval `TOO_FEW`, or a dash for one run or for no bounds."""
    if interval is None:
        return TOO_FEW if 1 < seeds < FEWEST_VALUES else "-"
    return f"{text(interval.low)} to {text(interval.high)}"


def bracketed(interval: ConfidenceInterval | None, seeds: int, text: Callable[[float], str] = number) -> str:
    """The same in brackets after an estimate, such as `` [3, 5]``; empty instead of a dash."""
    if interval is None:
        return f" [{TOO_FEW}]" if 1 < seeds < FEWEST_VALUES else ""
    return f" [{text(interval.low)}, {text(interval.high)}]"


PROMISED = 93
"""Percentage of intervals that hold the true value below which `ray-sim compare` prints a remark."""

SEEDS = (3, 4, 5, 7, 10, 15, 20, 40, 100, 200)

MEASURED = {
    "normal": (95, 95, 95, 95, 95, 95, 95, 95, 95, 95),
    "Student's t, 3 degrees of freedom": (96, 96, 96, 96, 96, 96, 96, 96, 95, 95),
    "exponential": (89, 88, 88, 89, 90, 91, 92, 93, 94, 95),
    "log-normal": (84, 82, 83, 83, 84, 86, 87, 89, 92, 93),
    "Pareto with tail index 2.5": (80, 77, 78, 79, 79, 82, 82, 85, 88, 90),
}
"""Percentage of intervals that hold the true mean, by distribution of the differences and number of `SEEDS`.

Source: ``python -m benchmarks.cover``.
"""


@dataclass(frozen=True, slots=True)
class Cover:
    """Distributions of differences for which intervals hold the true value too rarely."""

    seeds: int
    percent: dict[str, int]
    """Percentage of intervals that hold the true value by distribution, highest first; below `PROMISED`."""

    def __str__(self) -> str:
        shares = ", ".join(f"{percent} % if {name}" for name, percent in self.percent.items())
        return (
            f"intervals over {self.seeds} seeds hold the true value in 95 % of cases if the differences are "
            f"normal, {shares} (docs/compare.md, Cover)"
        )


def shortfall(seeds: int) -> Cover | None:
    """Distributions whose intervals cover too little at this number of seeds, >= 3; None if none does."""
    column = bisect_right(SEEDS, seeds) - 1
    short = {name: row[column] for name, row in MEASURED.items() if row[column] < PROMISED}
    ordered = dict(sorted(short.items(), key=lambda item: -item[1]))
    return Cover(seeds, ordered) if ordered else None
