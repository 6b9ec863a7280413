"""Query: best worker and cost increment of each undispatched chunk of a job.

Workers are independent of each other, and a chunk changes the increment of its own worker only. So each
site answers where it would send all of them, one after another; merging these offers by rank gives where
they go among all workers.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.states import State, section
from ray_sim.kernels.chunked import increments
from ray_sim.kernels.chunked.increments import Candidates, DispatchedChunks
from ray_sim.model.units import IntArray

_DISPATCHED = "dispatched"


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

    V is the number of kinds of workers, see `WorkerSlots`.
    """

    count: int
    partition: int
    """Partition of the job, whose workers are asked."""
    memory_level: int
    """Level of memory that a worker must offer: `world.eligible.workers_need[job]`."""
    ready_us: IntArray
    """(V,) when uploads to each kind end: `world.ready_us(view.now_us, jobs, world.workers.of_kind)`."""
    length_us: IntArray
    """(V,) microseconds of a chunk on each kind: `world.chunk_us(jobs, world.workers.of_kind)`."""
    key: IntArray
    """(V,) key of a chunk in the queue of a worker of each kind; the smallest is served first."""
    inverse_rate: IntArray
    """(V,) D p: all chunks of the job, `view.jobs.chunks[job]`, times `length_us`."""
    rule: Rule
    preempt: bool
    """Whether chunks with a smaller key overtake the one that is served."""
    exact: bool
    """Whether increments are exact, or follow from the four terms."""
    given_workers: IntArray
    """(count,) workers for `Rule.GIVEN_ORDER`, else empty."""
    dispatched: DispatchedChunks
    """Chunks that were dispatched at this instant."""
    counted: bool = True
    """Whether the four terms count earlier chunks whose uploads end after this one's."""

    def arrays(self) -> State:
        """Arguments of a `Query`."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != _DISPATCHED}
        sent = {f"{_DISPATCHED}.{name}": column for name, column in self.dispatched._asdict().items()}
        return {name: np.asarray(value) for name, value in (own | sent).items()}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> IncrementQuery:
        """Read from the arguments of a `Query`."""
        values: dict[str, Any] = {
            name: array.item() if array.ndim == 0 else array
            for name, array in arrays.items()
            if "." not in name
        }
        return cls(**values, dispatched=DispatchedChunks(**section(arrays, _DISPATCHED)))


class Offers(NamedTuple):
    """Workers that chunks of one job would go to, in the order of dispatch."""

    worker: IntArray
    increment: IntArray
    """D Q, see `ChunkedView.increments`."""


class SiteOffers(NamedTuple):
    """Workers that each site would send all chunks to, one site after another."""

    worker: IntArray
    rank: IntArray
    increment: IntArray
    turn: IntArray
    """Place in the order of the site, from 0."""


def sites_choice(
    query: IncrementQuery,
    queues: ChunkQueues,
    workers: IntArray,
    kind: IntArray,
    first: int,
    now_us: int,
) -> State:
    """Workers of a site that would take all of them.

    Parameters
    ----------
    workers : those that may have them, by number at the site
    kind : (W,) of all the site's workers
    first : number in the cluster of the site's first worker

    Returns
    -------
    Columns of `SiteOffers`.
    """
    of_all = query.dispatched
    here = (of_all.worker >= first) & (of_all.worker < first + len(kind))
    dispatched = DispatchedChunks(*(column[here] for column in of_all))
    dispatched = dispatched._replace(worker=dispatched.worker - first)
    before = np.zeros(len(workers), dtype=np.int64)
    rank = np.zeros(len(workers), dtype=np.int64)
    if query.rule == Rule.LEAST_LOADED:
        load = queues.loads(now_us)[0]
        np.add.at(load, dispatched.worker, dispatched.work_us)
        rank = load[workers]
    elif query.rule == Rule.GIVEN_ORDER:
        rank = np.flatnonzero(np.isin(query.given_workers - first, workers))
        workers = query.given_workers[rank] - first
        before = _earlier_equal(workers)
    of = kind[workers]
    candidates = Candidates(
        worker=workers,
        length=query.length_us[of],
        key=query.key[of],
        inverse_rate=query.inverse_rate[of],
        ready=query.ready_us[of],
        before=before,
        rank=rank,
        heap=np.empty(len(workers), dtype=np.int64),
        position=np.empty(len(workers), dtype=np.int64),
    )
    most = len(workers) if query.rule == Rule.GIVEN_ORDER or len(workers) == 0 else query.count
    asked = int(query.rule), now_us, query.preempt, query.exact, query.counted
    chosen = queues.send(candidates, dispatched, most, *asked)
    offers = SiteOffers(chosen.worker + first, chosen.rank, chosen.increment, np.arange(most))
    return offers._asdict()


def _earlier_equal(workers: IntArray) -> IntArray:
    """(n,) number of equal elements before each."""
    order = np.argsort(workers, kind="stable")
    _, first, counts = np.unique(workers[order], return_index=True, return_counts=True)
    earlier = np.empty_like(workers)
    earlier[order] = np.arange(len(workers)) - np.repeat(first, counts)
    return earlier


def merged_offers(offers: SiteOffers, count: int) -> Offers:
    """The first ``count`` offers of all sites, by (rank, worker) of those that are next at their site."""
    starts = np.append(np.flatnonzero(offers.turn == 0), len(offers.turn)).tolist()
    rows = list(zip(offers.rank.tolist(), offers.worker.tolist(), offers.increment.tolist(), strict=True))
    best = heapq.merge(*(rows[a:b] for a, b in pairwise(starts)), key=itemgetter(0, 1))
    first = np.array([row for row, _ in zip(best, range(count), strict=False)], dtype=np.int64).reshape(-1, 3)
    _, worker, increment = first.T
    return Offers(worker, increment)
