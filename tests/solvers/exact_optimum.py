"""Rigid jobs of one pool: their bounds, and their least total flow time by trying every schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.solvers.jct_bound import JctBounds, jct_bounds

ROUNDED = 2e-9
"""Bounds are rounded down by a relative 1e-9."""


def gang_bounds(
    release: Sequence[int], run: Sequence[float], gpus: Sequence[int], total: float, cells: int | None = None
) -> JctBounds:
    """Bounds for gangs of GPUs in one pool; that of the programme only with ``cells``."""
    shortest = np.asarray(run, dtype=np.float64)
    offered, pool = np.array([[total]], dtype=np.float64), np.zeros(len(shortest), dtype=np.int64)
    at = np.asarray(release, dtype=np.int64)
    bounds = jct_bounds(at, shortest, (shortest * gpus)[:, None], offered, pool, cells=cells)
    assert bounds is not None
    return bounds


def small_instances(count: int) -> Iterator[tuple[list[int], list[int], list[int], int]]:
    """Release times, run times and GPUs of up to four jobs, and the GPUs of the pool."""
    for seed in range(count):
        draw = Streams(seed).generator("small-instance")
        total, n = int(draw.integers(1, 5)), int(draw.integers(1, 5))
        release = sorted(draw.integers(0, 6, n).tolist())
        yield release, draw.integers(1, 5, n).tolist(), draw.integers(1, total + 1, n).tolist(), total


def least_total_flow(release: Sequence[int], run: Sequence[int], gpus: Sequence[int], total: int) -> int:
    """Sum of completion minus release under the best preemptive schedule on ``total`` GPUs.

    In each unit of time a set of jobs runs that fits and to which no other can be added: running one
    more job never hurts, since it can be suspended for free.
    """
    jobs = range(len(release))
    last = max(release)

    @cache
    def best(now: int, left: tuple[int, ...]) -> int:
        present = [j for j in jobs if left[j] > 0 and release[j] <= now]
        if not present:
            later = [release[j] for j in jobs if left[j] > 0]
            return best(min(later), left) if later else 0
        following = min(now + 1, last)  # after the last release only the work left matters
        return len(present) + min(
            best(following, tuple(left[j] - (j in running) for j in jobs))
            for running in _full_sets(tuple(present), tuple(gpus), total)
        )

    return best(min(release), tuple(run))


@cache
def _full_sets(present: tuple[int, ...], gpus: tuple[int, ...], total: int) -> tuple[frozenset[int], ...]:
    sets = [
        frozenset(j for i, j in enumerate(present) if choice >> i & 1)
        for choice in range(1, 1 << len(present))
    ]
    fitting = [each for each in sets if sum(gpus[j] for j in each) <= total]
    return tuple(each for each in fitting if not any(each < other for other in fitting))
