"""Cover of the intervals and error rates of the verdicts of `ray-sim compare`, as in docs/compare.md.

    python -m benchmarks.cover

takes three minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.reports.statistics import (
    LEVEL,
    SEEDS,
    ConfidenceInterval,
    ValueRange,
    mean_interval,
    ratio_interval,
    sign_flip_p_value,
)

Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]
"""Function that draws differences of a shape."""

DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda stream, shape: stream.normal(size=shape),
    "Student's t, 3 degrees of freedom": lambda stream, shape: stream.standard_t(3, size=shape),
    "exponential": lambda stream, shape: stream.exponential(size=shape) - 1,
    "log-normal": lambda stream, shape: stream.lognormal(size=shape) - np.exp(1 / 2),
    "Pareto with tail index 2.5": lambda stream, shape: stream.pareto(2.5, size=shape) - 1 / 1.5,
}
"""Differences of mean 0; the log-normal's logarithm has standard deviation 1."""

VALUES = {
    "normal": ("normal", 5.0, 1.0),
    "exponential": ("exponential", 1.0, 1.0),
    "exponential, half 0": ("exponential", 1.0, 0.5),
    "log-normal": ("log-normal", float(np.exp(1 / 2)), 1.0),
    "Pareto with tail index 2.5": ("Pareto with tail index 2.5", 1 / 1.5, 1.0),
}
"""Values that are not negative: differences plus a mean, and the share of the values that is not 0."""

SAMPLES = 20_000
"""Samples per cell: the standard error of a share of 95 % is 0.15 %, of 80 % 0.28 %."""

_RATIO = 1.2
"""True ratio of the means in samples of pairs."""


def cover_of_difference(distribution: str, seeds: int, samples: int = SAMPLES) -> float:
    """Share of intervals of a mean difference that hold the true mean."""
    drawn = DISTRIBUTIONS[distribution](_stream(distribution, seeds), (samples, seeds))
    return _share_with(0.0, (mean_interval(each, fewest=2) for each in drawn))


def cover_of_mean(
    kind: str, seeds: int, samples: int = SAMPLES, values: ValueRange = ValueRange.NOT_NEGATIVE
) -> float:
    """Share of intervals of a mean of `VALUES` that hold the true mean."""
    drawn, mean = _values(kind, _stream(f"values {kind}", seeds), (samples, seeds))
    return _share_with(mean, (mean_interval(each, values, 2) for each in drawn))


def cover_of_bootstrap_t(kind: str, seeds: int, samples: int = 1_000, resamples: int = 999) -> float:
    """Share of studentised bootstrap intervals that hold the true mean, for comparison."""
    stream = _stream(f"bootstrap-t {kind}", seeds)
    drawn, mean = _values(kind, stream, (samples, seeds))
    return _share_with(mean, (_bootstrap_t(sample, stream, resamples) for sample in drawn))


def cover_of_ratio(kind: str, seeds: int, samples: int = SAMPLES) -> float:
    """Share of intervals of a ratio that hold the true ratio, among those that have bounds.

    The baseline is one of `VALUES`, and each run's ratio to it varies by 10 %.
    """
    stream = _stream(f"ratio {kind}", seeds)
    baseline, _ = _values(kind, stream, (samples, seeds))
    sample = _RATIO * baseline * stream.normal(1.0, 0.1, baseline.shape)
    return _share_with(_RATIO, map(partial(ratio_interval, fewest=2), sample, baseline))


def _values(kind: str, stream: np.random.Generator, shape: tuple[int, int]) -> tuple[FloatArray, float]:
    """Draw `VALUES`, and their true mean."""
    distribution, mean, share = VALUES[kind]
    drawn = DISTRIBUTIONS[distribution](stream, shape) + mean
    return drawn * (stream.random(shape) < share), mean * share


def false_alarms(distribution: str, seeds: int, samples: int = 2_000) -> float:
    """Share of samples without a true difference that get a verdict at 5 % from the test and the interval."""
    stream = _stream(f"test {distribution}", seeds)
    drawn = DISTRIBUTIONS[distribution](stream, (samples, seeds))
    return float(np.mean([_is_found(sample, stream) for sample in drawn]))


def _is_found(sample: FloatArray, stream: np.random.Generator) -> bool:
    interval = mean_interval(sample)
    assert interval is not None, "two values at least"
    return not interval.low <= 0 <= interval.high and sign_flip_p_value(sample, stream) <= LEVEL


def _bootstrap_t(sample: FloatArray, stream: np.random.Generator, resamples: int) -> ConfidenceInterval:
    """Interval by the quantiles of resampled t statistics (Efron, 1981)."""
    drawn = sample[stream.integers(0, len(sample), (resamples, len(sample)))]
    with np.errstate(divide="ignore", invalid="ignore"):  # all values alike: an infinite statistic, or none
        statistics = (drawn.mean(axis=1) - sample.mean()) / drawn.std(axis=1, ddof=1)
    statistics[np.isnan(statistics)] = 0.0
    low, high = np.quantile(statistics, [LEVEL / 2, 1 - LEVEL / 2], method="inverted_cdf")
    return ConfidenceInterval(
        sample.mean() - high * sample.std(ddof=1), sample.mean() - low * sample.std(ddof=1)
    )


def _share_with(
    value: float, intervals: Iterator[ConfidenceInterval] | Iterator[ConfidenceInterval | None]
) -> float:
    return float(np.mean([each.low <= value <= each.high for each in intervals if each]))


def _stream(purpose: str, seeds: int) -> np.random.Generator:
    return Streams(seed=seeds).generator(f"cover {purpose}")


def _print_table(title: str, seeds: Sequence[int], rows: dict[str, Callable[[int], float]]) -> None:
    print(f"\n| {title} | {' | '.join(map(str, seeds))} |\n|---|{'---|' * len(seeds)}")
    for label, share in rows.items():
        print(f"| {label} | {' | '.join(f'{100 * share(each):.0f} %' for each in seeds)} |", flush=True)


def _main() -> None:
    def of_each(
        share: Callable[[str, int], float], names: Iterable[str]
    ) -> dict[str, Callable[[int], float]]:
        return {name: partial(share, name) for name in names}

    plain = partial(cover_of_mean, values=ValueRange.ANY)
    _print_table("cover of differences, seeds", SEEDS, of_each(cover_of_difference, DISTRIBUTIONS))
    _print_table("cover of means, seeds", SEEDS, of_each(cover_of_mean, VALUES))
    _print_table("cover of means by t, seeds", SEEDS, of_each(plain, VALUES))
    _print_table("cover of means by bootstrap-t, seeds", SEEDS[2:7], of_each(cover_of_bootstrap_t, VALUES))
    _print_table("cover of ratios, seeds", SEEDS, of_each(cover_of_ratio, VALUES))
    _print_table("false alarms, seeds", (7, 10, 20), of_each(false_alarms, DISTRIBUTIONS))


if __name__ == "__main__":
    _main()
