"""Base classes: send each chunk to a worker when its job arrives."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.parameter_servers import Pick, PsServers, lowest, parameter_servers
from ray_sim.policy_api import (
    NO_JOBS,
    ChunkedContext,
    ChunkedDecision,
    ChunkedPolicy,
    ChunkedView,
    Dispatch,
    Parameter,
    Streams,
    Wake,
)

Chunk = tuple[int, int, int, int]
"""Job, unit, worker, key."""


PREEMPT = Parameter(
    "preempt",
    "bool",
    False,
    "whether a chunk takes the worker from one behind it in the order, which continues later, or waits for "
    "its end",
    source="docs/models/a_online.md#our-choices, C5",
)


class ChunkPolicy(ChunkedPolicy):
    """Dispatch the chunks of a job in the slot of its arrival, and chunks that were lost with their server.

    Chunks wait if no available server may train them. An active job keeps its parameter server; an active job
    without one takes an idle one, in job order, in the cloud if all its workers are there, else at an edge.
    """

    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE
    sees: frozenset[str] = frozenset({"chunk_profile", "worker_load"})
    slotted: ClassVar[bool] = True

    unchanging: ClassVar[frozenset[str]] = frozenset(
        {"_worker_partition", "_worker_offer", "_clouds", "_cloud_server", "_best_slot"}
    )

    overtake = True
    """Whether chunks preempt those behind them in the queue."""

    @abstractmethod
    def places(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        """Choose workers for all chunks, or none, of each job of one partition, in dispatch order."""

    def pick_ps(self, view: ChunkedView) -> Pick:
        """Choose among the idle parameter servers on the job's side."""
        return lowest

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Find the workers in clouds and the servers with slots for parameter servers."""
        self._world = world
        slots = world.workers
        self._worker_partition = world.server_partition[slots.server]
        self._worker_offer = world.eligible.workers_offer[slots.server]
        self._clouds = np.flatnonzero(slots.on_demand)
        self._cloud_server = slots.server[self._clouds]
        self._ps_servers = PsServers.of(world)
        self._unsent = NO_JOBS
        """Jobs that have arrived and have chunks that no available server may train."""

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        """Dispatch chunks of jobs that have arrived, and give parameter servers to active jobs."""
        chunks = self._chunks(view)
        dispatch = None
        if chunks:
            columns = np.array(chunks, dtype=np.int64).T
            dispatch = Dispatch(columns[0], columns[1], columns[2], columns[3], overtake=self.overtake)
        given = parameter_servers(view, self._ps_servers, self._world.eligible.ps_need, self.pick_ps(view))
        return ChunkedDecision.of(given, dispatch=dispatch)

    def _chunks(self, view: ChunkedView) -> list[Chunk]:
        """Chunks that can be dispatched now, with their workers, in dispatch order."""
        waiting = np.union1d(self._unsent, view.arrived) if len(self._unsent) else view.arrived
        if len(waiting) == 0:
            return []
        partition = view.jobs.partition[waiting]
        chunks: list[Chunk] = []
        for p in np.unique(partition).tolist():
            chunks += self.places(view, waiting[partition == p], p)
        self._unsent = np.setdiff1d(waiting, [job for job, _, _, _ in chunks])
        return chunks

    def clouds_there(self, view: ChunkedView, partition: int) -> IntArray:
        """Workers that stand for the available clouds of the partition, without a check of eligibility."""
        mine = self._worker_partition[self._clouds] == partition
        there: IntArray = self._clouds[mine & view.available[self._cloud_server]]
        return there


class LeastLoaded(ChunkPolicy):
    """Each chunk goes to the least loaded worker slot; only jobs that no slot may train go to the cloud.

    The sites are queried once for all jobs of a slot. `dispatch=least_loaded` of a_online queries them per
    job, since it compares each chunk's increment with the cloud's. A job takes an idle parameter server on
    the server with the lowest index.
    """

    @abstractmethod
    def key(self, length_us: int) -> int:
        """Return the key in a worker's queue of a chunk of this length."""

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Find the partitions with worker slots."""
        super().start(world, streams)
        slots = world.workers
        self._best_slot = np.full(int(world.server_partition.max()) + 1, -1)
        """Highest memory level of each partition's slots, -1 where it has no slots."""
        edge = ~slots.on_demand
        np.maximum.at(self._best_slot, self._worker_partition[edge], self._worker_offer[edge])

    def places(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        """Choose slots of the partition if any may train the job, else the cloud."""
        to_slots = self._world.eligible.workers_need[jobs] <= self._best_slot[partition]
        on_slots = self._to_slots(view, jobs[to_slots], partition)
        return on_slots + self._to_cloud(view, jobs[~to_slots], partition)

    def _to_slots(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        if len(jobs) == 0:
            return []
        chunks = view.undispatched(jobs)
        needs, kind = np.unique(self._world.eligible.workers_need[jobs], return_inverse=True)
        asked = np.full(len(needs), partition), np.full(len(needs), len(chunks.job))
        loads = view.least_loaded(*asked, needs)
        workers, first = np.unique(loads.worker, return_index=True)
        load = dict(zip(workers.tolist(), loads.work_left_us[first].tolist(), strict=True))
        # A worker with enough memory for several needs is in several queues; its load there may be stale.
        may_train = [workers[self._worker_offer[workers] >= need].tolist() for need in needs.tolist()]
        queues = [sorted((load[worker], worker) for worker in those) for those in may_train]
        slots = self._world.workers
        lengths_us = self._world.chunk_us(jobs[:, None], slots.of_kind[None, :]).tolist()
        length_of = dict(zip(jobs.tolist(), lengths_us, strict=True))
        queue_of = dict(zip(jobs.tolist(), (queues[k] for k in kind.tolist()), strict=True))
        kind_of = dict(zip(workers.tolist(), slots.kind[workers].tolist(), strict=True))
        chosen = []
        for job, unit in zip(chunks.job.tolist(), chunks.unit.tolist(), strict=True):
            queue = queue_of[job]
            while queue and queue[0][0] < load[queue[0][1]]:
                heapq.heapreplace(queue, (load[queue[0][1]], queue[0][1]))
            if not queue:
                continue
            worker = queue[0][1]
            length = length_of[job][kind_of[worker]]
            load[worker] += length
            heapq.heapreplace(queue, (load[worker], worker))
            chosen.append((job, unit, worker, self.key(length)))
        return chosen

    def _to_cloud(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        there = self.clouds_there(view, partition)
        may_train = self._worker_offer[there] >= self._world.eligible.workers_need[jobs][:, None]
        jobs, may_train = jobs[may_train.any(axis=1)], may_train[may_train.any(axis=1)]
        if len(jobs) == 0:
            return []
        workers = there[may_train.argmax(axis=1)]
        lengths_us = self._world.chunk_us(jobs, workers, self._world.cloud_serves(jobs))
        keys = [self.key(length) for length in lengths_us.tolist()]
        to = dict(zip(jobs.tolist(), zip(workers.tolist(), keys, strict=True), strict=True))
        chunks = view.undispatched(jobs)
        pairs = zip(chunks.job.tolist(), chunks.unit.tolist(), strict=True)
        return [(job, unit, *to[job]) for job, unit in pairs]
