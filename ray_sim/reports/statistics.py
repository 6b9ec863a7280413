"""Is a paired difference real, and how large: intervals, a test and effect sizes of plain arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ray_sim.model.units import FloatArray

LEVEL = 0.05
"""How often a difference may be called real that is not; intervals hold the rest, 95 %."""

RESAMPLES = 10_000
PERMUTATIONS = 9_999
"""Sign flips drawn at random; where all of them are no more (13 pairs), all are taken instead."""

Statistic = Callable[..., FloatArray]
"""Called with one array per sample and ``axis``, the axis of the pairs."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval, and the bootstrap that gave it."""

    low: float
    high: float
    method: Literal["bca", "percentile"]


def paired_difference(sample: FloatArray, baseline: FloatArray) -> FloatArray:
    """Sample minus baseline, pair by pair.

    Parameters
    ----------
    sample, baseline : shape (N,), in the same unit; entries at one index belong together

    Raises
    ------
    ValueError : the shapes differ
    """
    if sample.shape != baseline.shape or sample.ndim != 1:
        raise ValueError(f"sample has shape {sample.shape}, baseline {baseline.shape}; want (N,) and (N,)")
    difference: FloatArray = sample - baseline
    return difference


def mean(sample: FloatArray, axis: int = -1) -> FloatArray:
    """Mean along an axis, as a `Statistic`."""
    return np.asarray(np.mean(sample, axis=axis), dtype=np.float64)


def ratio_of_means(sample: FloatArray, baseline: FloatArray, axis: int = -1) -> FloatArray:
    """Mean of the sample over mean of the baseline, nan where that is 0, as a `Statistic`."""
    above, below = mean(sample, axis), mean(baseline, axis)
    ratio: FloatArray = np.divide(above, below, out=np.full(below.shape, np.nan), where=below != 0)
    return ratio


def bootstrap_interval(
    samples: Sequence[FloatArray],
    statistic: Statistic,
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """95 % bootstrap interval of a statistic of paired samples, whose pairs are drawn anew.

    Bias-corrected and accelerated (BCa); percentiles where that is undefined, as it is when all
    pairs are alike. It is too narrow for few pairs: see docs/compare.md for its coverage.

    Parameters
    ----------
    samples : arrays of shape (N,) each, paired by index
    statistic : vectorised, e.g. `mean` for one sample or `ratio_of_means` for two

    Returns
    -------
    None for fewer than two pairs, and where the statistic is not finite in every resample

    Source: Efron, Better bootstrap confidence intervals, JASA 1987.
    """
    from scipy.stats import bootstrap

    if len(samples[0]) < 2:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a BCa that is undefined says so; percentiles take its place
        result = bootstrap(
            tuple(samples),
            statistic,
            n_resamples=resamples,
            paired=len(samples) > 1,
            vectorized=True,
            confidence_level=1 - LEVEL,
            method="BCa",
            rng=generator,
        )
    drawn = np.asarray(result.bootstrap_distribution)
    if not np.isfinite(drawn).all():
        return None
    low, high = (float(end) for end in result.confidence_interval)
    if math.isfinite(low) and math.isfinite(high):
        return Interval(low, high, "bca")
    low, high = (float(end) for end in np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2]))
    return Interval(low, high, "percentile")


def sign_flip_p_value(difference: FloatArray, generator: np.random.Generator) -> float:
    """Two-sided p-value of "the differences are symmetric about 0", by flipping their signs.

    Exact up to 13 pairs; beyond that `PERMUTATIONS` flips are drawn, and the least value is 0.0002.

    Parameters
    ----------
    difference : shape (N,), N >= 1

    Source: Fisher, The Design of Experiments, 1935, section 21.
    """
    from scipy.stats import permutation_test

    result = permutation_test(
        (difference,),
        mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=PERMUTATIONS,
        rng=generator,
    )
    return float(result.pvalue)


def holm(p_values: FloatArray) -> FloatArray:
    """P-values adjusted for being several, so that any below 5 % is wrong in 5 % of cases at most.

    Parameters
    ----------
    p_values : shape (M,), in [0, 1]

    Returns
    -------
    shape (M,), in the order given

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Stat. 1979.
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


def pairs_needed(comparisons: int) -> int:
    """The fewest pairs with which the exact test can reach 5 %, after Holm over so many comparisons.

    All N differences of one sign give the least p-value there is, 2 / 2^N.
    """
    return math.ceil(1 + math.log2(comparisons / LEVEL))


def cohens_d_z(difference: FloatArray) -> float | None:
    """Mean difference in standard deviations of the differences; None where these do not vary.

    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, section 2.3.5.
    """
    if len(difference) < 2 or not np.ptp(difference):
        return None
    return float(np.mean(difference) / np.std(difference, ddof=1))


def superiority(difference: FloatArray) -> float:
    """Share of pairs in which the difference is below 0; a tie counts one half."""
    return float(np.mean((difference < 0) + 0.5 * (difference == 0)))
