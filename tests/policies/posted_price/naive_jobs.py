"""Jobs of the slow mechanism, made in one line."""

from __future__ import annotations

from collections.abc import Sequence

from tests.policies.posted_price.naive_mechanism import NANO, Job, Point


def nano(*units: float) -> tuple[int, ...]:
    return tuple(round(unit * NANO) for unit in units)


def job(
    points: Sequence[Point], value: Sequence[float], *, birth: int = 0, concurrency: int = 1, comes: int = 0
) -> Job:
    """A job whose point number ``comes`` truly comes."""
    arrival, duration, _ = points[comes]
    return Job(birth, concurrency, nano(*value), tuple(points), arrival, duration)


def free(_: int, __: int) -> int:
    return 0
