"""Base class: send each chunk where its increment is smallest, at an edge or in the cloud.

The dispatch is A_greedy of Wang et al. (JSAC 2022), docs/models/a_online.md#dispatch; C1 and C2 number our
choices (#our-choices there). What an increment is follows from the query: its keys say which chunks on a
worker go before the new one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.chunk_dispatch import Chunk, ChunkPolicy
from ray_sim.policy_api import ChunkedContext, ChunkedView, DispatchedChunks, IncrementQuery, Rule, Streams

_NOTHING: IntArray = np.empty(0, dtype=np.int64)

_DESTINATIONS = ("to_edge", "to_cloud", "mixed")


class CloudOffer(NamedTuple):
    """Fastest available cloud worker that may train a job, and the increments of a chunk there."""

    worker: int
    zeta: bool
    """Whether the job trains without communication if all its chunks go to the cloud."""
    cost_all_in_cloud: int
    """D Q of a chunk if all chunks of the job go there, in microseconds."""
    cost_mixed: int
    """D Q of a chunk if other chunks are at an edge, in microseconds."""


class IncrementDispatch(ChunkPolicy):
    """Dispatch jobs one after another; each job sees the chunks of those before it."""

    rule = Rule.CHEAPEST
    """Edge worker that the cloud is compared with."""
    mixed = True
    """Whether later chunks of a job may go to the cloud after its first went to an edge (C2)."""
    exact = False
    """Whether increments are exact, or follow from the four terms (C4)."""

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Begin to count jobs by destination."""
        super().start(world, streams)
        self._jobs_sent = np.zeros(len(_DESTINATIONS), dtype=np.int64)

    @abstractmethod
    def keys(self, job: int, length_us: IntArray, ready_us: int) -> IntArray:
        """Return the queue key of each chunk that a job dispatches now.

        Parameters
        ----------
        length_us : (n,) on the worker of each chunk
        ready_us : when uploads to an edge end
        """

    @abstractmethod
    def query_keys(self, job: int, length_us: IntArray) -> IntArray:
        """(V,) keys by which an increment sorts a chunk among those on a worker of each speed."""

    def given_workers(self, view: ChunkedView, job: int, units: IntArray, partition: int) -> IntArray:
        """Edge worker of each chunk under `Rule.GIVEN_ORDER`; empty if no worker is available."""
        return _NOTHING

    def places(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        """Run A_greedy for one job after another."""
        cloud_workers = self.clouds_there(view, partition)
        chunks: list[Chunk] = []
        dispatched = DispatchedChunks.none()
        for job in jobs.tolist():
            units = view.undispatched(np.array([job])).unit
            query = self._increment_query(view, job, units, partition, dispatched)
            workers, in_cloud = self._greedy(view, job, query, self._cloud(view.now_us, job, cloud_workers))
            if len(workers) == 0:
                continue
            length = self._world.chunk_us(np.array([job]), workers, in_cloud)
            key = self.keys(job, length, query.ready_us)
            chunks += zip([job] * len(units), units.tolist(), workers.tolist(), key.tolist(), strict=True)
            self._jobs_sent[self._destination(workers)] += 1
            ready_us, inverse_rate = np.full_like(key, query.ready_us), length * view.jobs.chunks[job]
            dispatched = dispatched.plus(DispatchedChunks(workers, key, inverse_rate, ready_us, length))
        return chunks

    def _greedy(
        self, view: ChunkedView, job: int, query: IncrementQuery, cloud: CloudOffer | None
    ) -> tuple[IntArray, bool]:
        """Worker of each chunk, empty if the chunks have to wait, and zeta.

        The first chunk decides zeta while zeta is open (C1), that is, while no chunk of the job is on a
        worker or done. It is open again after chunks in the cloud were lost, since they all train at once.
        """
        all_to_cloud = np.full(query.count, -1 if cloud is None else cloud.worker)
        whole = query.count == view.jobs.chunks[job]
        edge = view.increments(query)
        if cloud is None:
            return edge.worker, False
        if whole and (len(edge.worker) == 0 or cloud.cost_all_in_cloud < edge.increment[0]):
            return all_to_cloud, cloud.zeta
        if len(edge.worker) == 0:
            return all_to_cloud, False
        if not self.mixed:
            return edge.worker, False
        # Increments at the edge grow with each chunk, the cloud's is constant: once cheaper it stays so.
        at_edge = np.logical_and.accumulate(edge.increment <= cloud.cost_mixed)
        return np.where(at_edge, edge.worker, cloud.worker), False

    def _increment_query(
        self, view: ChunkedView, job: int, units: IntArray, partition: int, dispatched: DispatchedChunks
    ) -> IncrementQuery:
        of = np.array([job])
        length_us = self._world.chunk_us_by_speed(job)
        return IncrementQuery(
            count=len(units),
            partition=partition,
            memory_level=int(self._world.eligible.workers_need[job]),
            ready_us=int(self._world.ready_us(view.now_us, of, np.array([False]))[0]),
            length_us=length_us,
            key=self.query_keys(job, length_us),
            inverse_rate=length_us * view.jobs.chunks[job],
            rule=self.rule,
            preempt=self.overtake,
            exact=self.exact,
            given_workers=self.given_workers(view, job, units, partition)
            if self.rule == Rule.GIVEN_ORDER
            else _NOTHING,
            dispatched=dispatched,
        )

    def _cloud(self, now_us: int, job: int, cloud_workers: IntArray) -> CloudOffer | None:
        """Fastest of the cloud workers that may train the job, ties to the lowest; None if none may."""
        of, to_cloud, zeta = np.array([job]), np.array([True]), self._world.cloud_serves(np.array([job]))
        memory_level = self._world.eligible.workers_need[job]
        cloud_workers = cloud_workers[self._worker_offer[cloud_workers] >= memory_level]
        if len(cloud_workers) == 0:
            return None
        upload_us = int(self._world.ready_us(now_us, of, to_cloud)[0]) - now_us
        length_us = self._world.chunk_us(of, cloud_workers, zeta)
        best = int(np.argmin(length_us))
        mixed_us = self._world.chunk_us(of, cloud_workers[best : best + 1])
        return CloudOffer(
            int(cloud_workers[best]),
            bool(zeta[0]),
            upload_us + int(length_us[best]),
            upload_us + int(mixed_us[0]),
        )

    def _destination(self, workers: IntArray) -> int:
        """Index into `_DESTINATIONS`."""
        in_cloud = np.isin(workers, self._clouds)
        return 1 if in_cloud.all() else 2 if in_cloud.any() else 0

    def counts(self) -> dict[str, int]:
        """Jobs by destination, counted again when they lose chunks."""
        return dict(zip(_DESTINATIONS, self._jobs_sent.tolist(), strict=True))
