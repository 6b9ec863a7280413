"""Rigid jobs of one pool: their bounds, and their least total flow time by trying every schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import compress, product

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
    """Sum of completion minus release under the best preemptive schedule on ``total`` GPUs."""
    return least_flow(release, run, lambda jobs: sum(gpus[job] for job in jobs) <= total)


def least_flow(release: Sequence[int], run: Sequence[int], fits: Callable[[frozenset[int]], bool]) -> int:
    """Sum of completion minus release under the best schedule of which each running set ``fits``.

    In each unit of time a set of jobs runs that fits and to which no other can be added: running one
    more job never hurts, since it can be suspended for free.
    """
    jobs = range(len(release))
    last = max(release)

    @cache
    def full_sets(present: tuple[int, ...]) -> tuple[frozenset[int], ...]:
        sets = [frozenset(compress(present, which)) for which in product((0, 1), repeat=len(present))]
        fitting = [each for each in sets if each and fits(each)]
        return tuple(each for each in fitting if not any(each < other for other in fitting))

    @cache
    def best(now: int, left: tuple[int, ...]) -> int:
        present = [j for j in jobs if left[j] > 0 and release[j] <= now]
        if not present:
            later = [release[j] for j in jobs if left[j] > 0]
            return best(min(later), left) if later else 0
        following = min(now + 1, last)  # after the last release only the work left matters
        return len(present) + min(
            best(following, tuple(left[j] - (j in running) for j in jobs))
            for running in full_sets(tuple(present))
        )

    return best(min(release), tuple(run))
