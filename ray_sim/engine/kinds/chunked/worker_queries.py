"""Questions to the workers of a site before chunks are dispatched. Asking changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.kinds.chunked.increment_query import IncrementQuery, sites_choice
from ray_sim.engine.states import State
from ray_sim.model.units import IntArray

Arguments = Mapping[str, np.ndarray]
"""Arrays by name."""

LEAST_LOADED = "least_loaded"
INCREMENTS = "increments"
BETAS = "betas"
TIME_LEFT = "time_left"
WORK = "work"


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a site, as answers see them."""

    queues: ChunkQueues
    first: int
    """Number in the cluster of the site's first worker."""
    kind: IntArray
    """(W,) see `WorkerSlots`."""
    partition: IntArray
    """(W,) of each worker slot of the site; -1 where there is none now: its server is away, or it stands for
    a cloud's workers on demand."""
    offer: IntArray
    """(W,) level of memory, see `Eligibility`."""

    def that_may_train(self, partition: int, memory_level: int) -> IntArray:
        """Worker slots of a partition that may train chunks of a job that needs such a level."""
        return np.flatnonzero((self.partition == partition) & (self.offer >= memory_level))


def _least_loaded(workers: Workers, now_us: int, arguments: Arguments) -> State:
    """For each of ``partitions`` the ``units`` least loaded worker slots that may train what ``needs`` such
    a level, or all if they are fewer.

    Returns
    -------
    worker, work_left_us, chunks : (n,) worker, microseconds of work left on it, chunks on it that are not
        done; by load, ties by worker, for one partition and level after another
    """
    load, chunks = workers.queues.loads(now_us)
    found = []
    columns = (arguments[name].tolist() for name in ("partitions", "units", "needs"))
    for partition, units, memory_level in zip(*columns, strict=True):
        slots = workers.that_may_train(partition, memory_level)
        best = slots[np.argsort(load[slots], kind="stable")[:units]]
        found.append(best)
    worker = np.concatenate(found)
    return {"worker": worker + workers.first, "work_left_us": load[worker], "chunks": chunks[worker]}


def _increments(workers: Workers, now_us: int, arguments: Arguments) -> State:
    """Workers to which the site would send chunks of a job, see `sites_choice`."""
    query = IncrementQuery.of(arguments)
    mine = workers.that_may_train(query.partition, query.memory_level)
    return sites_choice(query, workers.queues, mine, workers.kind, workers.first, now_us)


def _betas(workers: Workers, now_us: int, arguments: Arguments) -> State:
    """Beta of each worker slot that is there, in order, see `ray_sim.kernels.chunked.increments.betas`."""
    return {"betas": workers.queues.betas(now_us)[workers.partition >= 0]}


def _time_left(workers: Workers, now_us: int, arguments: Arguments) -> State:
    """Jobs of ``jobs`` with chunks here, and the least time they need, see `ChunkQueues.time_left`."""
    jobs, left_us = workers.queues.time_left(arguments["jobs"], now_us)
    return {"job": jobs, "time_left_us": left_us}


def _work(workers: Workers, now_us: int, arguments: Arguments) -> State:
    """Work of each of ``jobs``, with ``chunks`` in all, at this site, see `ChunkQueues.work`.

    Returns
    -------
    job, left_us, trained_us : (n,) jobs of which there is any
    """
    jobs = arguments["jobs"]
    left_us, trained_us = workers.queues.work(jobs, arguments["chunks"], now_us)
    here = (left_us > 0) | (trained_us > 0)
    return {"job": jobs[here], "left_us": left_us[here], "trained_us": trained_us[here]}


ANSWERS: dict[str, Callable[[Workers, int, Arguments], State]] = {
    LEAST_LOADED: _least_loaded,
    INCREMENTS: _increments,
    BETAS: _betas,
    TIME_LEFT: _time_left,
    WORK: _work,
}
