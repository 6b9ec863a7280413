"""Cover of the intervals and error rates of the verdicts of `ray-sim compare`, as in docs/compare.md.

    python -m benchmarks.cover

takes two minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.reports.cover import SEEDS
from ray_sim.reports.statistics import (
    LEVEL,
    ConfidenceInterval,
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

SAMPLES = 20_000
"""Samples per cell: the standard error of a share of 95 % is 0.15 %, of 80 % 0.28 %."""

_RATIO = 1.2
"""True ratio of the means in samples of pairs."""


def cover_of_mean(distribution: str, seeds: int, samples: int = SAMPLES) -> float:
    """Share of intervals of a mean that hold the true mean."""
    drawn = DISTRIBUTIONS[distribution](_stream(distribution, seeds), (samples, seeds))
    return _share_with(0.0, map(mean_interval, drawn))


def cover_of_ratio(seeds: int, samples: int = SAMPLES) -> float:
    """Share of intervals of a ratio that hold the true ratio, among those that have bounds.

    The baseline is log-normal with a standard deviation of 0.5 in its logarithm, and each run's ratio to it
    varies by 10 %.
    """
    stream = _stream("ratio", seeds)
    baseline = stream.lognormal(8.0, 0.5, (samples, seeds))
    sample = _RATIO * baseline * stream.normal(1.0, 0.1, baseline.shape)
    return _share_with(_RATIO, map(ratio_interval, sample, baseline))


def cover_of_bootstrap_t(distribution: str, seeds: int, samples: int = 1_000, resamples: int = 999) -> float:
    """Share of studentised bootstrap intervals that hold the true mean, for comparison."""
    stream = _stream(f"bootstrap-t {distribution}", seeds)
    drawn = DISTRIBUTIONS[distribution](stream, (samples, seeds))
    return _share_with(0.0, (_bootstrap_t(sample, stream, resamples) for sample in drawn))


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
    with np.errstate(divide="ignore"):  # all values alike: an infinite statistic
        statistics = (drawn.mean(axis=1) - sample.mean()) / drawn.std(axis=1, ddof=1)
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
    def of_each(share: Callable[[str, int], float]) -> dict[str, Callable[[int], float]]:
        return {name: partial(share, name) for name in DISTRIBUTIONS}

    ratio = {"ratio of log-normal means": cover_of_ratio}
    _print_table("cover, seeds", SEEDS, of_each(cover_of_mean) | ratio)
    _print_table("cover of bootstrap-t, seeds", SEEDS[2:7], of_each(cover_of_bootstrap_t))
    _print_table("false alarms, seeds", (7, 10, 20), of_each(false_alarms))


if __name__ == "__main__":
    _main()
