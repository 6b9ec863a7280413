"""Base class: send each chunk where it costs least, at an edge or in the cloud.

The dispatch is A_greedy of Wang et al. (JSAC 2022), docs/models/a_online.md#dispatch; C1 and C2 number our
choices (#our-choices there). Subclasses say what a chunk costs at an edge (`offers`), in microseconds; in the
cloud it costs its upload and its training.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.chunk_dispatch import Chunk, ChunkPolicy
from ray_sim.policy_api import ChunkedContext, ChunkedView, DispatchedChunks, Offers, Streams

_DESTINATIONS = ("to_edge", "to_cloud", "mixed")


class CloudOffer(NamedTuple):
    """Available cloud worker that may train a job and ends first, and the cost of a chunk there."""

    worker: int
    zeta: bool
    """Whether the job trains without communication if all its chunks go to the cloud."""
    cost_all_in_cloud: int
    """Cost of a chunk if all chunks of the job go there, in microseconds."""
    cost_mixed: int
    """Cost of a chunk if other chunks are at an edge, in microseconds."""


class GreedyDispatch(ChunkPolicy):
    """Dispatch jobs one after another; each job sees the chunks of those before it."""

    mixed = True
    """Whether later chunks of a job may go to the cloud after its first went to an edge (C2)."""

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Begin to count jobs by destination."""
        super().start(world, streams)
        self._jobs_sent = np.zeros(len(_DESTINATIONS), dtype=np.int64)

    @abstractmethod
    def keys(self, job: int, length_us: IntArray) -> IntArray:
        """(n,) queue keys of the chunks that a job dispatches now, by their lengths on their workers."""

    @abstractmethod
    def offers(self, view: ChunkedView, job: int, units: IntArray, sent: DispatchedChunks) -> Offers:
        """Edge workers that these chunks of a job would go to, one after another, and their costs.

        Costs never fall from one chunk to the next. Without a worker that may train the job both are empty.

        Parameters
        ----------
        sent : chunks that this decision has dispatched to workers of the partition
        """

    def places(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        """Run A_greedy for one job after another."""
        cloud_workers = self.clouds_there(view, partition)
        chunks: list[Chunk] = []
        dispatched = DispatchedChunks.none()
        for job in jobs.tolist():
            units = view.undispatched(np.array([job])).unit
            edge = self.offers(view, job, units, dispatched)
            cloud = self._cloud(view.now_us, job, cloud_workers)
            workers, in_cloud = self._greedy(len(units), len(units) == view.jobs.chunks[job], edge, cloud)
            if len(workers) == 0:
                continue
            length = self._world.chunk_us(np.array([job]), workers, in_cloud)
            key = self.keys(job, length)
            chunks += zip([job] * len(units), units.tolist(), workers.tolist(), key.tolist(), strict=True)
            self._jobs_sent[self._destination(workers)] += 1
            ready_us = self._world.ready_us(view.now_us, np.array([job]), workers)
            inverse_rate = length * view.jobs.chunks[job]
            dispatched = dispatched.plus(DispatchedChunks(workers, key, inverse_rate, ready_us, length))
        return chunks

    def _greedy(
        self, count: int, whole: bool, edge: Offers, cloud: CloudOffer | None
    ) -> tuple[IntArray, bool]:
        """Worker of each chunk, empty if the chunks have to wait, and zeta.

        The first chunk decides zeta while zeta is open (C1), that is, while no chunk of the job is on a
        worker or done. It is open again after chunks in the cloud were lost, since they all train at once.
        """
        all_to_cloud = np.full(count, -1 if cloud is None else cloud.worker)
        if cloud is None:
            return edge.worker, False
        if whole and (len(edge.worker) == 0 or cloud.cost_all_in_cloud < edge.increment[0]):
            return all_to_cloud, cloud.zeta
        if len(edge.worker) == 0:
            return all_to_cloud, False
        if not self.mixed:
            return edge.worker, False
        # Costs at the edge grow with each chunk, the cloud's is constant: once cheaper it stays so.
        at_edge = np.logical_and.accumulate(edge.increment <= cloud.cost_mixed)
        return np.where(at_edge, edge.worker, cloud.worker), False

    def _cloud(self, now_us: int, job: int, cloud_workers: IntArray) -> CloudOffer | None:
        """First to end of the cloud workers that may train the job, ties to the lowest; None if none may."""
        of, zeta = np.array([job]), self._world.cloud_serves(np.array([job]))
        memory_level = self._world.eligible.workers_need[job]
        cloud_workers = cloud_workers[self._worker_offer[cloud_workers] >= memory_level]
        if len(cloud_workers) == 0:
            return None
        upload_us = self._world.ready_us(now_us, of, cloud_workers) - now_us
        cost_us = upload_us + self._world.chunk_us(of, cloud_workers, zeta)
        best = int(np.argmin(cost_us))
        mixed_us = self._world.chunk_us(of, cloud_workers[best : best + 1])
        return CloudOffer(
            int(cloud_workers[best]),
            bool(zeta[0]),
            int(cost_us[best]),
            int(upload_us[best] + mixed_us[0]),
        )

    def _destination(self, workers: IntArray) -> int:
        """Index into `_DESTINATIONS`."""
        in_cloud = np.isin(workers, self._clouds)
        return 1 if in_cloud.all() else 2 if in_cloud.any() else 0

    def counts(self) -> dict[str, int]:
        """Jobs by destination, counted again when they lose chunks."""
        return dict(zip(_DESTINATIONS, self._jobs_sent.tolist(), strict=True))
