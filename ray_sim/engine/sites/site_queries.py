"""Queries of a policy to all sites before it dispatches: arrays in, arrays out.

A kind of question is a function in `ANSWERS`; neither fleet nor transport know which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.placements import State
from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.kinds.chunked.new_chunks import NewChunks, sites_choice
from ray_sim.model.units import IntArray

LEAST_LOADED = "least_loaded"
INCREMENTS = "increments"
BETAS = "betas"
TIME_LEFT = "time_left"


@dataclass(frozen=True, slots=True)
class Query:
    """A question to all sites at one instant. Asking changes nothing."""

    kind: str
    now_us: int
    arrays: Mapping[str, np.ndarray]
    """Arguments of the kind, by name."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a site, as answers see them."""

    queues: ChunkQueues
    first: int
    """Number in the cluster of the site's first worker."""
    speed_kind: IntArray
    """(W,) which of the different speeds of the cluster's servers its own has, in ascending order."""
    partition: IntArray
    """(W,) of each worker slot of the site; -1 where there is none now: its server is away, or it stands for
    a cloud's workers on demand."""
    offer: IntArray
    """(W,) level of memory, see `Eligibility`."""

    def that_may_train(self, partition: int, need: int) -> IntArray:
        """Worker slots of a partition that may train chunks of a job that needs such a level."""
        return np.flatnonzero((self.partition == partition) & (self.offer >= need))


def answer(workers: Workers, query: Query) -> State:
    """A site's answer: arrays by name, whose rows are joined over the sites in server order."""
    return ANSWERS[query.kind](workers, query)


def join(answers: Sequence[State]) -> State:
    """The answers of all sites, in server order, as one."""
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}


def _least_loaded(workers: Workers, query: Query) -> State:
    """For each of ``partitions`` the ``units`` least loaded worker slots that may train what ``needs`` such
    a level, or all if they are fewer.

    Returns
    -------
    rows : (n, 3) worker, microseconds of work left on it, chunks on it that are not done; by load, ties
        by worker, for one partition and level after another
    """
    load, chunks = workers.queues.loads(query.now_us)
    rows = []
    asked = (query.arrays[name].tolist() for name in ("partitions", "units", "needs"))
    for partition, units, need in zip(*asked, strict=True):
        slots = workers.that_may_train(partition, need)
        best = slots[np.argsort(load[slots], kind="stable")[:units]]
        rows.append(np.stack([best + workers.first, load[best], chunks[best]], axis=1))
    return {"rows": np.concatenate(rows)}


def _increments(workers: Workers, query: Query) -> State:
    """Workers to which the site would send chunks of a job, see `sites_choice`."""
    new = NewChunks.of(query.arrays)
    mine = workers.that_may_train(new.partition, new.need)
    return sites_choice(new, workers.queues, mine, workers.speed_kind, workers.first, query.now_us)


def _betas(workers: Workers, query: Query) -> State:
    """Beta of each worker slot that is there, in order, see `ray_sim.kernels.chunked.increments.betas`."""
    return {"betas": workers.queues.betas(query.now_us)[workers.partition >= 0]}


def _time_left(workers: Workers, query: Query) -> State:
    """Jobs of ``jobs`` with chunks here, and the least time they need, see `ChunkQueues.time_left`."""
    return {"rows": workers.queues.time_left(query.arrays["jobs"], query.now_us)}


ANSWERS: dict[str, Callable[[Workers, Query], State]] = {
    LEAST_LOADED: _least_loaded,
    INCREMENTS: _increments,
    BETAS: _betas,
    TIME_LEFT: _time_left,
}
