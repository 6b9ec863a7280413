"""What policies share that send each chunk of a job to a worker when the job arrives."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ray_sim.engine.contract import GrantedWorld, Policy, View, Wake
from ray_sim.engine.decision import Decision, Dispatch
from ray_sim.kernels.arrays import PARAMETER_SERVER
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray

Chunk = tuple[int, int, int, int]
"""Job, unit, worker, microseconds on it."""


class LeastLoaded(Policy):
    """Each chunk goes to the worker with the least work left; a cloud is for jobs without any other worker.

    Jobs are sent off in the slot in which they come.

    Jobs keep their parameter server while they are active; others take the idle one of the lowest
    server, in job order, in the cloud for jobs that are there.
    """

    wake_on: ClassVar[Wake] = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION
    sees: ClassVar[frozenset[str]] = frozenset({"chunk_profile", "worker_load"})
    chunked: ClassVar[bool] = True
    slotted: ClassVar[bool] = True

    overtake = True
    """Whether chunks take the worker from those behind them in the queue."""

    @abstractmethod
    def key(self, length_us: int) -> int:
        """What a worker's queue is ordered by, for a chunk of this length there."""

    def start(self, world: GrantedWorld, streams: Streams) -> None:
        """Which partitions have worker slots, and what their cloud is where they have none."""
        self._world = world
        slots = world.workers
        assert slots is not None, "a policy for chunks runs where jobs are chunked"
        of_worker = world.server_partition[slots.server]
        n_partitions = int(world.server_partition.max()) + 1
        self._has_slots = np.zeros(n_partitions, dtype=np.bool_)
        self._has_slots[of_worker[~slots.on_demand]] = True
        self._cloud = np.full(n_partitions, -1, dtype=np.int64)
        """(P,) worker number of the first server of each partition's cloud."""
        self._cloud[of_worker[slots.on_demand][::-1]] = np.flatnonzero(slots.on_demand)[::-1]
        self._is_cloud = np.zeros(len(world.server_partition), dtype=np.bool_)
        self._is_cloud[slots.server[slots.on_demand]] = True
        _, self._of_each_speed, self._speed_of = np.unique(
            world.cluster.speed[slots.server], return_index=True, return_inverse=True
        )

    def decide(self, view: View) -> Decision:
        """Send off the chunks of jobs that have come, and give parameter servers to active jobs."""
        chunks = list(self._chunks(view))
        dispatch = None
        if chunks:
            columns = np.array(chunks, dtype=np.int64).T
            key = np.array([self.key(length_us) for length_us in columns[3].tolist()], dtype=np.int64)
            dispatch = Dispatch(columns[0], columns[1], columns[2], key, overtake=self.overtake)
        return Decision.of(self._parameter_servers(view), dispatch=dispatch)

    def _chunks(self, view: View) -> Iterator[Chunk]:
        """Chunks of the jobs that have come, with their workers, in the order of dispatch."""
        partition = view.jobs.partition[view.arrived]
        for p in np.unique(partition).tolist():
            jobs = view.arrived[partition == p]
            if self._has_slots[p]:
                yield from self._to_slots(view, jobs, p)
            else:
                yield from self._to_cloud(view, jobs, int(self._cloud[p]))

    def _to_slots(self, view: View, jobs: IntArray, partition: int) -> Iterator[Chunk]:
        chunks = view.jobs.chunks[jobs]
        best = view.least_loaded(np.array([partition]), np.array([chunks.sum()]))
        workers = best[:, 0]
        queue = list(zip(best[:, 1].tolist(), workers.tolist(), strict=True))
        heapq.heapify(queue)
        # Workers on servers of one speed take equally long.
        lengths_us = self._world.chunk_us(jobs[:, None], self._of_each_speed[None, :]).tolist()
        speed_of = dict(zip(workers.tolist(), self._speed_of[workers].tolist(), strict=True))
        for job, n, length_us in zip(jobs.tolist(), chunks.tolist(), lengths_us, strict=True):
            for unit in range(n):
                load, worker = queue[0]
                length = length_us[speed_of[worker]]
                heapq.heapreplace(queue, (load + length, worker))
                yield job, unit, worker, length

    def _to_cloud(self, view: View, jobs: IntArray, worker: int) -> Iterator[Chunk]:
        length_us = self._world.chunk_us(jobs, np.array([worker]), in_cloud=True)
        for job, n, length in zip(
            jobs.tolist(), view.jobs.chunks[jobs].tolist(), length_us.tolist(), strict=True
        ):
            for unit in range(n):
                yield job, unit, worker, length

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
