"""Mean and quantiles of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and quantiles of a sample, in the unit of the field's name; null for an empty sample."""

    mean: float | None
    """Arithmetic mean."""
    median: float | None
    """Half of the sample is at most this."""
    p90: float | None
    """90 % of the sample is at most this."""
    p99: float | None
    """99 % of the sample is at most this."""


def distribution(sample: FloatArray) -> Distribution:
    """Compute mean and quantiles (linear interpolation between order statistics)."""
    if len(sample) == 0:
        return Distribution(None, None, None, None)
    median, p90, p99 = np.quantile(sample, [0.5, 0.9, 0.99])
    return Distribution(float(np.mean(sample)), float(median), float(p90), float(p99))
