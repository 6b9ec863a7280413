"""The least total JCT of a few chunked jobs on edge servers, by trying every schedule on the slot grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple


class Parts(NamedTuple):
    """A job whose chunks are on their workers from ``ready`` on; ``lengths`` by worker, in slots."""

    submit: int
    ready: int
    chunks: int
    lengths: tuple[int, ...]


def least_total_jct(jobs: Sequence[Parts], ps: int) -> int:
    """Sum of completion minus submission; at most ``ps`` jobs make progress in a slot."""
    owner = tuple(number for number, job in enumerate(jobs) for _ in range(job.chunks))
    workers = range(len(jobs[0].lengths))
    return min(
        _best_on(tuple(jobs), owner, chosen, ps) for chosen in product(workers, repeat=len(owner))
    ) - sum(job.submit for job in jobs)


def _best_on(jobs: tuple[Parts, ...], owner: tuple[int, ...], worker: tuple[int, ...], ps: int) -> int:
    """Sum of completions if every chunk goes to its worker."""
    chunks = range(len(owner))

    @cache
    def best(now: int, left: tuple[int, ...]) -> int:
        """What is left to add: each slot adds one for every job not yet done, from time 0 on."""
        open_jobs = {owner[chunk] for chunk in chunks if left[chunk] > 0}
        if not open_jobs:
            return 0
        there = [chunk for chunk in chunks if left[chunk] > 0 and jobs[owner[chunk]].ready <= now]
        present = sorted({owner[chunk] for chunk in there})
        served = combinations(present, min(ps, len(present)))
        return len(open_jobs) + min(
            best(now + 1, tuple(left[chunk] - (chunk in running) for chunk in chunks))
            for having in served
            for running in _choices([chunk for chunk in there if owner[chunk] in having], worker)
        )

    return best(0, tuple(jobs[owner[chunk]].lengths[worker[chunk]] for chunk in chunks))


def _choices(there: Sequence[int], worker: tuple[int, ...]) -> list[frozenset[int]]:
    """Sets of chunks that run in a slot: one on each worker that has any."""
    queues = [[chunk for chunk in there if worker[chunk] == w] for w in sorted({worker[c] for c in there})]
    return [frozenset(chosen) for chosen in product(*queues)]
