"""The least total flow time of a few rigid jobs, by trying every schedule on the integer grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


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
