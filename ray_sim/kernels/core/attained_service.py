"""Queues by attained service (LAS): levels, keys, and the times at which they change.

A job is in queue ``level`` = number of limits that its attained service, GPUs or cores x time of progress,
has reached. Keys order jobs by level, then within a level by first start or by place. Every function is O(1)
but `level_of`, which is O(limits).

Source: Gu et al., Tiresias, NSDI 2019 (discretised two-dimensional LAS);
docs/models/baselines.md#las-tiresias-2dlas.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, NEVER

LEVEL_SPAN = 2**57
"""Keys per level: first start in microseconds, `LEVEL_SPAN` - 1 for never started, or a place."""

_FIRST_WAITING = LEVEL_SPAN // 4
_MIDDLE_WAITING = LEVEL_SPAN // 2

MAX_LEVELS = 16

MOST_SERVICE = 2**62
"""Upper end of the count of attained service, beyond every limit, so that no product overflows."""


@kernel
def attained_service(rate: int, ran_us: int) -> int:
    """Return the service of a gang of ``rate`` (>= 1) after ``ran_us`` of progress, see `Order.rate`."""
    return rate * min(ran_us, MOST_SERVICE // rate)


@kernel
def level_of(service: int, limits: I64) -> int:
    """Return the queue of a job: the number of limits that its attained service has reached."""
    level = 0
    while level < len(limits) and service >= limits[level]:
        level += 1
    return level


@kernel
def level_key(level: int, within: int) -> int:
    """Return the key that orders by level, then by first start (never started last) or by place."""
    return level * LEVEL_SPAN + min(within, LEVEL_SPAN - 1)


@kernel
def running_place(turn: int) -> int:
    """Return a place after all running jobs of the queue, before all waiting ones; turns count up from 1."""
    return turn


@kernel
def front_place(turn: int) -> int:
    """Return a place before all waiting jobs of the queue, after all running ones."""
    return _MIDDLE_WAITING - turn


@kernel
def end_place(turn: int) -> int:
    """Return a place after all jobs of the queue."""
    return _MIDDLE_WAITING + turn


@kernel
def among_running(place: int) -> bool:
    """Whether a place is one of `running_place`."""
    return place < _FIRST_WAITING


@kernel
def crossing_us(service: int, rate: int, limits: I64) -> int:
    """Return microseconds of progress until the next limit is reached, rounded up; -1 if none is left."""
    level = level_of(service, limits)
    if level == len(limits):
        return -1
    return -((service - limits[level]) // rate)


@kernel
def promotion_us(executed: int, knob: float) -> int:
    """Return microseconds of waiting since the last run, rounded up, after which a job is promoted."""
    wait = executed * knob
    if wait >= NEVER:
        return NEVER
    whole = int(wait)
    return whole if whole >= wait else whole + 1
