"""Base class: send each chunk to a worker when its job arrives."""

from __future__ import annotations

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
    """Dispatch the chunks of a job in the slot of its arrival, and chunks that were lost.

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
        waiting = view.arrived
        if len(self._unsent):
            unsent = self._unsent[np.isin(self._unsent, view.waiting) | np.isin(self._unsent, view.running)]
            waiting = np.union1d(unsent, waiting)  # without those that were killed
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
