"""Measured cover of 95 % intervals where differences are not normal."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

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


def shortfall(seeds: int) -> Cover | None:
    """Distributions for which intervals over this number of seeds fall short; None if there are none.

    Parameters
    ----------
    seeds : at least 3; rounded down to a number of `SEEDS`
    """
    column = bisect_right(SEEDS, seeds) - 1
    short = {name: row[column] for name, row in MEASURED.items() if row[column] < PROMISED}
    ordered = dict(sorted(short.items(), key=lambda item: -item[1]))
    return Cover(seeds, ordered) if ordered else None
