"""The least total flow time of a few rigid jobs, by trying every schedule on the integer grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, product


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
