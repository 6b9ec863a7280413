"""Measured cover of 95 % intervals where differences are not normal."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

PROMISED = 93
"""Percentage of intervals that hold the true value below which `ray-sim compare` prints a remark."""

SEEDS = (2, 3, 5, 7, 10, 20, 40, 100, 200)

MEASURED = {
    "normal": (95, 95, 95, 95, 95, 95, 95, 95, 95),
    "Student's t, 3 degrees of freedom": (96, 96, 96, 96, 96, 96, 96, 95, 95),
    "exponential": (91, 89, 88, 89, 90, 92, 93, 94, 95),
    "log-normal": (90, 84, 83, 83, 84, 87, 89, 92, 93),
    "Pareto with tail index 2.5": (87, 80, 78, 79, 80, 83, 85, 89, 90),
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


def shortfall(seeds: int) -> Cover | None:
    """Distributions for which intervals over this number of seeds fall short; None if there are none.

    Parameters
    ----------
    seeds : at least 2; rounded down to a number of `SEEDS`
    """
    column = bisect_right(SEEDS, seeds) - 1
    short = {name: row[column] for name, row in MEASURED.items() if row[column] < PROMISED}
    ordered = dict(sorted(short.items(), key=lambda item: -item[1]))
    return Cover(seeds, ordered) if ordered else None
