"""Integer time and resources, and the conversions to and from them.

Simulated time is int64 microseconds. Resources are int64 quanta: milli-GPU, milli-CPU, MiB, or
millionths of a trace's largest machine where the trace has only relative sizes (``_norm``).
Demands round up and capacities round down once, at load, so integers decide what fits. Every layer uses this
module; a change of a rounding or of a constant changes results.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

US_PER_S = 1_000_000
NEVER_US = 2**62
"""Time after every event."""

MAX_TIME_S = 2**36
"""Longest time of any input (about 2,200 years); a longer one is refused."""

MAX_RUN_US = 2**61
"""Latest instant of a run (about 73,000 years); adding the longest time stays below `NEVER_US`."""

QUANTA_PER_UNIT: dict[str, int] = {
    "gpu": 1000,
    "cpu": 1000,
    "memory_gib": 1024,
    "disk_gib": 1024,
    "cpu_norm": 1_000_000,
    "memory_norm": 1_000_000,
    "disk_norm": 1_000_000,
}
"""Quanta in one unit of each resource that a cluster may offer."""

_TOLERANCE = 1e-9
"""Relative distance to an integer, absolute below 1, within which a number counts as that integer."""


def tolerant_ceil(x: float) -> int:
    """Smallest integer not below ``x``, tolerating a relative excess of 1e-9.

    ``0.07 * 100`` is 7.000000000000001 in floating point and means 7. Large values round to
    the nearest integer, where the tolerance exceeds one half.
    """
    nearest = round(x)
    if abs(x - nearest) <= _TOLERANCE * max(1.0, abs(x)):
        return nearest
    return math.ceil(x)


def tolerant_ceils(x: npt.ArrayLike) -> IntArray:
    """`tolerant_ceil` of every element."""
    values = np.asarray(x, dtype=np.float64)
    nearest = np.rint(values)
    close = np.abs(values - nearest) <= _TOLERANCE * np.maximum(1.0, np.abs(values))
    return np.where(close, nearest, np.ceil(values)).astype(np.int64)


def seconds_to_us(seconds: npt.ArrayLike) -> IntArray:
    """Seconds to the nearest microsecond; the caller refuses values beyond +-`MAX_TIME_S`."""
    return np.rint(np.asarray(seconds, dtype=np.float64) * US_PER_S).astype(np.int64)


def us_to_seconds(us: npt.NDArray[Any]) -> FloatArray:
    """Microseconds to seconds; whole seconds stay exact integers."""
    return np.asarray(us, dtype=np.float64) / US_PER_S


def demand_quanta(amount: npt.ArrayLike, resource: str) -> IntArray:
    """Amounts of a resource to quanta, rounded up (0.8101 GPU takes 811 milli-GPU)."""
    return tolerant_ceils(np.asarray(amount, dtype=np.float64) * QUANTA_PER_UNIT[resource])


def capacity_quanta(amount: npt.ArrayLike, resource: str) -> IntArray:
    """Amounts of a resource to quanta, rounded down."""
    return scaled_down(amount, QUANTA_PER_UNIT[resource])


def scaled_down(amount: npt.ArrayLike, factor: float) -> IntArray:
    """Amounts times a factor, rounded down, tolerating a relative lack of 1e-9."""
    scaled = np.asarray(amount, dtype=np.float64) * factor
    nearest = np.rint(scaled)
    close = np.abs(scaled - nearest) <= _TOLERANCE * np.maximum(1.0, np.abs(scaled))
    return np.where(close, nearest, np.floor(scaled)).astype(np.int64)
