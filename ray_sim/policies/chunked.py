"""What policies share that send each chunk of a job to a worker when the job arrives."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ray_sim.engine.contract import GrantedWorld, Policy, View, Wake
from ray_sim.engine.decision import NO_JOBS, Decision, Dispatch
from ray_sim.kernels.arrays import PARAMETER_SERVER
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray

Chunk = tuple[int, int, int, int]
"""Job, unit, worker, microseconds on it."""


class LeastLoaded(Policy):
    """Each chunk goes to the worker with the least work left; a cloud is for jobs without any other worker.

    Jobs are sent off in the slot in which they come, and so are chunks that were lost with their server. If
    no server is there that may have them they wait until one comes back.

    Jobs keep their parameter server while they are active; others take the idle one of the lowest
    server, in job order, in the cloud for jobs that are there.
    """

    wake_on: ClassVar[Wake] = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE
    sees: ClassVar[frozenset[str]] = frozenset({"chunk_profile", "worker_load"})
    chunked: ClassVar[bool] = True
    slotted: ClassVar[bool] = True

    overtake = True
    """Whether chunks take the worker from those behind them in the queue."""

    @abstractmethod
    def key(self, length_us: int) -> int:
        """What a worker's queue is ordered by, for a chunk of this length there."""

    def start(self, world: GrantedWorld, streams: Streams) -> None:
        """Which partitions have worker slots, and what the workers of clouds are."""
        self._world = world
        slots = world.workers
        assert slots is not None, "a policy for chunks runs where jobs are chunked"
        of_worker = world.server_partition[slots.server]
        self._has_slots = np.zeros(int(world.server_partition.max()) + 1, dtype=np.bool_)
        self._has_slots[of_worker[~slots.on_demand]] = True
        self._clouds = np.flatnonzero(slots.on_demand)
        self._cloud_server, self._cloud_partition = slots.server[self._clouds], of_worker[self._clouds]
        self._unsent = NO_JOBS
        """Jobs that have come and have chunks for which no server was there."""
        self._is_cloud = np.zeros(len(world.server_partition), dtype=np.bool_)
        self._is_cloud[slots.server[slots.on_demand]] = True
        _, self._of_each_speed, self._speed_of = np.unique(
            world.cluster.speed[slots.server], return_index=True, return_inverse=True
        )

    def decide(self, view: View) -> Decision:
        """Send off the chunks of jobs that have come, and give parameter servers to active jobs."""
        chunks = self._chunks(view)
        dispatch = None
        if chunks:
            columns = np.array(chunks, dtype=np.int64).T
            key = np.array([self.key(length_us) for length_us in columns[3].tolist()], dtype=np.int64)
            dispatch = Dispatch(columns[0], columns[1], columns[2], key, overtake=self.overtake)
        return Decision.of(self._parameter_servers(view), dispatch=dispatch)

    def _chunks(self, view: View) -> list[Chunk]:
        """Chunks that can be sent off, with their workers, in the order of dispatch."""
        waiting = np.union1d(self._unsent, view.arrived) if len(self._unsent) else view.arrived
        self._unsent = NO_JOBS
        partition = view.jobs.partition[waiting]
        chunks: list[Chunk] = []
        for p in np.unique(partition).tolist():
            jobs = waiting[partition == p]
            choose = self._to_slots if self._has_slots[p] else self._to_cloud
            chosen = choose(view, jobs, p)
            if not chosen:
                self._unsent = np.union1d(self._unsent, jobs)
            chunks += chosen
        return chunks

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
            chosen.append((job, unit, worker, length))
        return chosen

    def _to_cloud(self, view: View, jobs: IntArray, partition: int) -> list[Chunk]:
        there = self._clouds[(self._cloud_partition == partition) & view.available[self._cloud_server]]
        if len(there) == 0:
            return []
        worker = int(there[0])
        lengths_us = self._world.chunk_us(jobs, there[:1], in_cloud=True).tolist()
        length_of = dict(zip(jobs.tolist(), lengths_us, strict=True))
        return [(job, unit, worker, length_of[job]) for job, unit in view.undispatched(jobs).tolist()]

    def _parameter_servers(self, view: View) -> dict[int, list[tuple[int, int, int]]]:
        """New holdings: none for those that are not active, an idle one for those that are without."""
        leaving, wanting = view.idle_holders, view.stalled
        idle = view.free[:, PARAMETER_SERVER].copy()
        np.add.at(idle, view.holdings.rows(leaving)[:, 1], 1)
        holdings: dict[int, list[tuple[int, int, int]]] = {job: [] for job in leaving.tolist()}
        partition = view.jobs.partition[wanting]
        for p in np.unique(partition).tolist():
            side = self._is_cloud != self._has_slots[p]
            servers = np.flatnonzero(side & (self._world.server_partition == p) & (idle > 0))
            jobs = wanting[partition == p]
            taken = np.repeat(servers, np.minimum(idle[servers], len(jobs)))[: len(jobs)]
            for job, server in zip(jobs.tolist(), taken.tolist(), strict=False):
                holdings[job] = [(server, PARAMETER_SERVER, 1)]
        return holdings
