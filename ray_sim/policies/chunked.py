"""What policies share that send each chunk of a job to a worker when the job arrives."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ray_sim.engine.contract import GrantedWorld, Policy, View, Wake
from ray_sim.engine.decision import NO_JOBS, Decision, Dispatch
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.policies.parameter_servers import Pick, lowest, parameter_servers

Chunk = tuple[int, int, int, int]
"""Job, unit, worker, key."""


class ChunkPolicy(Policy):
    """Sends jobs off in the slot in which they come, and so chunks that were lost with their server.

    If no server is there that may have them they wait until one comes back. Jobs keep their parameter server
    while they are active; others take an idle one, in job order, on the side of their workers: cloud or not.
    """

    wake_on: ClassVar[Wake] = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE
    sees: ClassVar[frozenset[str]] = frozenset({"chunk_profile", "worker_load"})
    chunked: ClassVar[bool] = True
    slotted: ClassVar[bool] = True

    overtake = True
    """Whether chunks take the worker from those behind them in the queue."""

    @abstractmethod
    def places(self, view: View, jobs: IntArray, partition: int) -> list[Chunk]:
        """Where chunks of these jobs of a partition go, in the order of dispatch; of each job all or none."""

    def pick_ps(self, view: View) -> Pick:
        """Which of the idle parameter servers on its side a job takes."""
        return lowest

    def start(self, world: GrantedWorld, streams: Streams) -> None:
        """What the workers of clouds are."""
        self._world = world
        slots = world.workers
        assert slots is not None, "a policy for chunks runs where jobs are chunked"
        self._worker_partition = world.server_partition[slots.server]
        self._clouds = np.flatnonzero(slots.on_demand)
        self._cloud_server = slots.server[self._clouds]
        self._is_cloud = np.zeros(len(world.server_partition), dtype=np.bool_)
        self._is_cloud[self._cloud_server] = True
        self._unsent = NO_JOBS
        """Jobs that have come and have chunks for which no server was there."""

    def decide(self, view: View) -> Decision:
        """Send off the chunks of jobs that have come, and give parameter servers to active jobs."""
        chunks = self._chunks(view)
        dispatch = None
        if chunks:
            columns = np.array(chunks, dtype=np.int64).T
            dispatch = Dispatch(columns[0], columns[1], columns[2], columns[3], overtake=self.overtake)
        given = parameter_servers(view, self._world.server_partition, self._is_cloud, self.pick_ps(view))
        return Decision.of(given, dispatch=dispatch)

    def _chunks(self, view: View) -> list[Chunk]:
        """Chunks that can be sent off, with their workers, in the order of dispatch."""
        waiting = np.union1d(self._unsent, view.arrived) if len(self._unsent) else view.arrived
        if len(waiting) == 0:
            return []
        partition = view.jobs.partition[waiting]
        chunks: list[Chunk] = []
        for p in np.unique(partition).tolist():
            chunks += self.places(view, waiting[partition == p], p)
        self._unsent = np.setdiff1d(waiting, [job for job, _, _, _ in chunks])
        return chunks

    def clouds_there(self, view: View, partition: int) -> IntArray:
        """The workers that stand for those of the partition's clouds that are there."""
        mine = self._worker_partition[self._clouds] == partition
        there: IntArray = self._clouds[mine & view.available[self._cloud_server]]
        return there


class LeastLoaded(ChunkPolicy):
    """Each chunk goes to the worker with the least work left; a cloud is for jobs without any other worker.

    A job takes the idle parameter server of the lowest server.
    """

    @abstractmethod
    def key(self, length_us: int) -> int:
        """What a worker's queue is ordered by, for a chunk of this length there."""

    def start(self, world: GrantedWorld, streams: Streams) -> None:
        """Which partitions have worker slots."""
        super().start(world, streams)
        slots = world.workers
        assert slots is not None, "a policy for chunks runs where jobs are chunked"
        self._has_slots = np.zeros(int(world.server_partition.max()) + 1, dtype=np.bool_)
        self._has_slots[self._worker_partition[~slots.on_demand]] = True
        _, self._of_each_speed, self._speed_of = np.unique(
            world.cluster.speed[slots.server], return_index=True, return_inverse=True
        )

    def places(self, view: View, jobs: IntArray, partition: int) -> list[Chunk]:
        """To the slots of the partition if it has any."""
        send = self._to_slots if self._has_slots[partition] else self._to_cloud
        return send(view, jobs, partition)

    def _to_slots(self, view: View, jobs: IntArray, partition: int) -> list[Chunk]:
        chunks = view.undispatched(jobs)
        best = view.least_loaded(np.array([partition]), np.array([len(chunks)]))
        workers = best[:, 0]
        queue = list(zip(best[:, 1].tolist(), workers.tolist(), strict=True))
        if not queue:
            return []
        heapq.heapify(queue)
        # Workers on servers of one speed take equally long.
        lengths_us = self._world.chunk_us(jobs[:, None], self._of_each_speed[None, :]).tolist()
        length_of = dict(zip(jobs.tolist(), lengths_us, strict=True))
        speed_of = dict(zip(workers.tolist(), self._speed_of[workers].tolist(), strict=True))
        chosen = []
        for job, unit in chunks.tolist():
            load, worker = queue[0]
            length = length_of[job][speed_of[worker]]
            heapq.heapreplace(queue, (load + length, worker))
            chosen.append((job, unit, worker, self.key(length)))
        return chosen

    def _to_cloud(self, view: View, jobs: IntArray, partition: int) -> list[Chunk]:
        there = self.clouds_there(view, partition)
        if len(there) == 0:
            return []
        worker = int(there[0])
        lengths_us = self._world.chunk_us(jobs, there[:1], in_cloud=True).tolist()
        key_of = {job: self.key(length) for job, length in zip(jobs.tolist(), lengths_us, strict=True)}
        return [(job, unit, worker, key_of[job]) for job, unit in view.undispatched(jobs).tolist()]
