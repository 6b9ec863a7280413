"""Base classes: each chunk where it finishes earliest; queues whose order changes from slot to slot."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from ray_sim.model.units import NEVER_US, IntArray
from ray_sim.policies.shared.chunk_dispatch import Chunk
from ray_sim.policies.shared.increment_dispatch import IncrementDispatch
from ray_sim.policy_api import (
    ChunkedContext,
    ChunkedDecision,
    ChunkedView,
    ChunkWork,
    NewKeys,
    Streams,
    Wake,
)


class EarliestFinish(IncrementDispatch):
    """Dispatch by the finish of a chunk behind all that its worker has when its upload ends.

    With t0 the end of the upload, rest' what is left at t0 of each chunk that is on the worker and uploaded
    by then, and p the length of the chunk there:

        finish = t0 + sum of rest' + p at an edge,  t0 + p in the cloud

    This is the increment D Q of A_online with all other chunks in A1, docs/models/a_online.md#increment.
    """

    def query_keys(self, job: int, length_us: IntArray) -> IntArray:
        """Sort a chunk behind all others."""
        return np.full_like(length_us, NEVER_US)


class ReorderedQueues(EarliestFinish):
    """Queues sorted by a number of the job that changes as it trains, computed anew in every slot.

    All chunks of a job on workers have this key; the smallest is served, ties by dispatch, and preempts.
    Chunks are dispatched in slots, like the keys.
    """

    wake_on: Wake = EarliestFinish.wake_on | Wake.SLOT

    @abstractmethod
    def job_keys(self, work: ChunkWork) -> IntArray:
        """(n,) keys of jobs with this work on workers."""

    @abstractmethod
    def key_when_sent(self, key: int, length_us: IntArray) -> int:
        """Return the key of a job that dispatches chunks of these lengths; ``key`` is that without them."""

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        """Begin with equal keys."""
        super().start(world, streams)
        self._key = np.zeros(len(world.jobs.submit_us), dtype=np.int64)

    def keys(self, job: int, length_us: IntArray, ready_us: int) -> IntArray:
        """Return one key for all chunks of the job."""
        self._key[job] = self.key_when_sent(int(self._key[job]), length_us)
        return np.full_like(length_us, self._key[job])

    def places(self, view: ChunkedView, jobs: IntArray, partition: int) -> list[Chunk]:
        """Wait for the next slot: keys change there only."""
        return super().places(view, jobs, partition) if view.at_slot else []

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        """Dispatch, assign parameter servers, and give jobs their keys of this slot where they changed."""
        if not view.at_slot:
            return super().decide(view)
        before = self._key.copy()
        jobs = np.union1d(view.waiting, view.running)
        self._key[jobs] = self.job_keys(view.chunk_work(jobs))
        decision = super().decide(view)
        changed = np.flatnonzero(self._key != before)
        return replace(decision, keys=NewKeys(changed, self._key[changed])) if len(changed) else decision
