"""Each chunk on the least loaded worker: the policies chunk_fifo and chunk_spt."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.chunk_dispatch import PREEMPT, Chunk, ChunkPolicy
from ray_sim.policy_api import ChunkedContext, ChunkedView, Parameter, Streams


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


class ChunkFifo(LeastLoaded):
    """Workers train chunks in the order of dispatch, each to its end."""

    name: ClassVar[str] = "chunk_fifo"
    section: ClassVar[str] = "docs/models/baselines.md#chunk-fifo-and-chunk-spt"
    summary: ClassVar[str] = "each chunk to the least loaded worker, served in order of dispatch"

    overtake = False

    def key(self, length_us: int) -> int:
        """Return equal keys, so that the order of dispatch decides."""
        return 0


class ChunkSpt(LeastLoaded):
    """Workers train the shortest of their chunks first; ties by the order of dispatch."""

    name: ClassVar[str] = "chunk_spt"
    section: ClassVar[str] = "docs/models/baselines.md#chunk-fifo-and-chunk-spt"
    summary: ClassVar[str] = "each chunk to the least loaded worker, shortest first"
    parameters: ClassVar[tuple[Parameter, ...]] = (PREEMPT,)

    def __init__(self, preempt: bool = False) -> None:
        self.overtake = preempt

    def key(self, length_us: int) -> int:
        """Return the chunk's whole length on its worker, in microseconds; the smallest key is first."""
        return length_us

    def warnings(self) -> list[str]:
        """Warn if all chunks of two or more jobs are as long on every worker slot."""
        jobs, slots = np.arange(len(self._world.jobs.submit_us)), self._world.workers
        lengths_us = self._world.chunk_us(jobs[:, None], slots.of_kind[None, :])
        if len(jobs) < 2 or len(np.unique(lengths_us)) > 1:
            return []
        return [f"all {len(jobs):,} jobs rank equal: the policy's order put no job before another"]
