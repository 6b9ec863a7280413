"""Queues by attained service, as in Tiresias: levels, keys and when they change.

Source: Gu et al., Tiresias, NSDI 2019 (discretised two-dimensional LAS).
"""

from __future__ import annotations

from ray_sim.kernels.arrays import I64, NEVER
from ray_sim.kernels.compile import kernel

LEVEL_SPAN = 2**57
"""Keys of one level: first start times in microseconds, `LEVEL_SPAN` - 1 for never started."""

MAX_LEVELS = 16


@kernel
def level_of(service: int, limits: I64) -> int:
    """Queue of a job: the number of limits its attained service has reached."""
    level = 0
    while level < len(limits) and service >= limits[level]:
        level += 1
    return level


@kernel
def level_key(level: int, first_start: int) -> int:
    """Key that orders by level, then by first start, never started last."""
    return level * LEVEL_SPAN + min(first_start, LEVEL_SPAN - 1)


@kernel
def crossing_us(service: int, gpus: int, limits: I64) -> int:
    """Microseconds of running until the next limit is reached, -1 below the last one."""
    level = level_of(service, limits)
    if level == len(limits):
        return -1
    return -((service - limits[level]) // gpus)


@kernel
def promotion_us(executed: int, knob: float) -> int:
    """Microseconds of waiting since the last run after which a job returns to the top queue."""
    wait = executed * knob
    if wait >= NEVER:
        return NEVER
    whole = int(wait)
    return whole if whole >= wait else whole + 1
