"""Query: best worker and cost increment of each undispatched chunk of a job.

Workers are independent of each other, and a chunk changes the increment of its own worker only. So each
site tells where it would send all of them, one after another; merging these rows by who is first gives
where they go when all workers are asked.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.placements import State
from ray_sim.kernels.chunked import increments
from ray_sim.kernels.chunked.increments import Candidates
from ray_sim.model.units import IntArray


class Rule(IntEnum):
    """To which worker each chunk goes; ties to the lowest number."""

    CHEAPEST = increments.CHEAPEST
    """The smallest increment."""
    LEAST_LOADED = increments.LEAST_LOADED
    """The least work left, in time on the worker."""
    GIVEN_ORDER = increments.GIVEN_ORDER
    """To the given workers, in their order."""


@dataclass(frozen=True, slots=True)
class IncrementQuery:
    """Query of `ChunkedView.increments`: which workers would take ``count`` chunks of one job?

    V is the number of different speeds of servers, in ascending order.
    """

    count: int
    partition: int
    """Partition of the job, whose workers are asked."""
    memory_level: int
    """Level of memory that a worker must offer: `world.eligible.workers_need[job]`."""
    ready_us: int
    """When the uploads end: `world.ready_us`."""
    length_us: IntArray
    """(V,) microseconds of a chunk on servers of each speed: `world.chunk_us_by_speed(job)`."""
    key: IntArray
    """(V,) key of a chunk in the queue of a worker of each speed; the smallest is served first."""
    inverse_rate: IntArray
    """(V,) D p: all chunks of the job, `view.jobs.chunks[job]`, times `length_us`."""
    rule: Rule
    preempt: bool
    """Whether chunks with a smaller key overtake the one that is served."""
    exact: bool
    """Whether increments are exact, or follow from the four terms."""
    given_workers: IntArray
    """(count,) workers for `Rule.GIVEN_ORDER`, else empty."""
    dispatched: IntArray
    """(n, 5) rows worker, key, D p, ready, work of chunks that were dispatched at this instant, in order."""

    def arrays(self) -> State:
        """Arguments of a `Query`."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> IncrementQuery:
        """Read from the arguments of a `Query`."""
        values: dict[str, Any] = {
            name: array.item() if array.ndim == 0 else array for name, array in arrays.items()
        }
        return cls(**values)


def sites_choice(
    query: IncrementQuery,
    queues: ChunkQueues,
    workers: IntArray,
    speed_kind: IntArray,
    first: int,
    now_us: int,
) -> State:
    """Workers of a site that would take all of them.

    Parameters
    ----------
    workers : those that may have them, by number at the site
    speed_kind : (W,) of all the site's workers
    first : number in the cluster of the site's first worker

    Returns
    -------
    rows : (n, 4) worker, rank, increment, which of the site's own it is
    """
    here = (query.dispatched[:, 0] >= first) & (query.dispatched[:, 0] < first + len(speed_kind))
    dispatched = query.dispatched[here] - np.array([first, 0, 0, 0, 0])
    before = np.zeros(len(workers), dtype=np.int64)
    rank = np.zeros(len(workers), dtype=np.int64)
    if query.rule == Rule.LEAST_LOADED:
        load = queues.loads(now_us)[0]
        np.add.at(load, dispatched[:, 0], dispatched[:, 4])
        rank = load[workers]
    elif query.rule == Rule.GIVEN_ORDER:
        rank = np.flatnonzero(np.isin(query.given_workers - first, workers))
        workers = query.given_workers[rank] - first
        before = _earlier_equal(workers)
    kind = speed_kind[workers]
    candidates = Candidates(
        worker=workers,
        length=query.length_us[kind],
        key=query.key[kind],
        inverse_rate=query.inverse_rate[kind],
        before=before,
        rank=rank,
        heap=np.empty(len(workers), dtype=np.int64),
        position=np.empty(len(workers), dtype=np.int64),
    )
    most = len(workers) if query.rule == Rule.GIVEN_ORDER or len(workers) == 0 else query.count
    rows = queues.send(
        candidates, dispatched, most, int(query.rule), now_us, query.ready_us, query.preempt, query.exact
    )
    rows[:, 0] += first
    return {"rows": np.column_stack([rows, np.arange(len(rows))])}


def _earlier_equal(workers: IntArray) -> IntArray:
    """(n,) number of equal elements before each."""
    order = np.argsort(workers, kind="stable")
    _, first, counts = np.unique(workers[order], return_index=True, return_counts=True)
    earlier = np.empty_like(workers)
    earlier[order] = np.arange(len(workers)) - np.repeat(first, counts)
    return earlier


def merged(rows: IntArray, count: int) -> IntArray:
    """The first ``count`` rows of all sites, by (rank, worker) of those that are next at their site."""
    bounds = np.append(np.flatnonzero(rows[:, 3] == 0), len(rows)).tolist()
    of_sites = [rows[a:b].tolist() for a, b in pairwise(bounds)]
    best = heapq.merge(*of_sites, key=itemgetter(1, 0))
    return np.array([row for row, _ in zip(best, range(count), strict=False)], dtype=np.int64).reshape(-1, 4)
