"""Cover of the intervals of rank correlations in `ray-sim diff --trace`, as in docs/running.md.

    python -m benchmarks.rank_cover

takes a minute of one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.reports.rank_correlation import Estimate, RankAgreement, rank_agreement

GROUPS = (20, 50, 100)

SAMPLES = 300
"""Samples per cell: the standard error of a share of 95 % is 1.3 %."""

_POPULATION = 100_000
"""Groups of the sample that gives the true values."""

Sizes = Callable[[np.random.Generator, int], IntArray]
"""Function that draws the number of jobs of each group."""

DESIGNS: dict[str, Sizes] = {
    "single jobs": lambda stream, groups: np.ones(groups, np.int64),
    "ten jobs each": lambda stream, groups: np.full(groups, 10),
    "Pareto sizes, tail index 1.5": lambda stream, groups: np.ceil(
        np.minimum(1 + stream.pareto(1.5, groups), 1_000)
    ).astype(np.int64),
}
"""Sizes of groups; a Pareto size is at most 1,000, and the few largest groups have most of the jobs."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Shares of intervals that hold the true value."""

    simulated: float
    difference: float


def cover(design: str, groups: int, samples: int = SAMPLES) -> Cover:
    """Share of intervals that hold the correlation, and the difference to the constant, of the population."""
    truth = _truth(design)
    stream = Streams(groups).generator(f"rank cover {design}")
    drawn = [_draw(design, groups, stream) for _ in range(samples)]
    return Cover(
        float(np.mean([_holds(each.simulated, truth.simulated) for each in drawn])),
        float(np.mean([_holds(each.difference, truth.difference) for each in drawn])),
    )


def _holds(estimate: Estimate, truth: Estimate) -> bool:
    interval = estimate.interval
    assert interval is not None, "as many groups at least"
    return interval.low <= truth.value <= interval.high


@cache
def _truth(design: str) -> RankAgreement:
    return _draw(design, _POPULATION, Streams(0).generator(f"rank cover truth {design}"), intervals=False)


def _draw(design: str, groups: int, stream: np.random.Generator, *, intervals: bool = True) -> RankAgreement:
    """Agreement of log-normal delays; two thirds of the variance of their logarithm are the group's.

    The simulated delay shares half of the group's part. Three classes differ by 0.5 in the logarithm.
    """
    group = np.repeat(np.arange(groups), DESIGNS[design](stream, groups))
    jobs = len(group)
    classes = stream.integers(0, 3, groups)[group]
    common, own, other = (stream.normal(size=groups)[group] for _ in range(3))
    real = np.exp(common + own + stream.normal(size=jobs) + 0.5 * classes)
    simulated = np.exp(common + other + stream.normal(size=jobs))
    independent = group if intervals else np.zeros(jobs, np.int64)
    return rank_agreement(real, simulated, classes, independent, stream)


def _main() -> None:
    print(f"| cover, groups | {' | '.join(map(str, GROUPS))} |\n|---|{'---|' * len(GROUPS)}")
    for design in DESIGNS:
        shares = [cover(design, groups) for groups in GROUPS]
        for name in ("simulated", "difference"):
            cells = (f"{100 * getattr(share, name):.0f} %" for share in shares)
            print(f"| {design}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    _main()
