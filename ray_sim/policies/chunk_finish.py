"""Each chunk where it finishes earliest: the policies chunk_earliest_finish, chunk_las and chunk_srpt.

List scheduling on unrelated machines (minimum completion time; Ibarra and Kim, Heuristic Algorithms for
Scheduling Independent Tasks on Nonidentical Processors, J. ACM 24(2), 1977), with uploads and a cloud.
`ReorderedQueues` computes keys in every slot in O(rows) for the chunks on workers, and sorts them into the
queues in O(rows log n).
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.chunk_dispatch import PREEMPT, Chunk
from ray_sim.policies.shared.greedy_dispatch import GreedyDispatch
from ray_sim.policy_api import (
    ChunkedContext,
    ChunkedDecision,
    ChunkedView,
    ChunkWork,
    DispatchedChunks,
    NewKeys,
    Offers,
    Parameter,
    Streams,
    Wake,
)


class EarliestFinish(GreedyDispatch):
    """Dispatch by the finish of a chunk behind all chunks of its worker.

    With u the time of the upload, L the work left on the worker, of chunks in upload too, and p the length of
    the chunk there, it takes from now on

        max(u, L) + p at an edge,  u + p in the cloud

    Ties go to the smaller L, then to the lowest worker.
    """

    def offers(self, view: ChunkedView, job: int, units: IntArray, sent: DispatchedChunks) -> Offers:
        """Take for each chunk the worker of the earliest finish; O((W + n) log W) for W workers, n chunks."""
        need = int(self._world.eligible.workers_need[job])
        slots, this = self._world.workers, np.array([job])
        of = (np.array([int(value)]) for value in (view.jobs.partition[job], len(slots), need))
        loads = view.least_loaded(*of)
        left_us = np.zeros(len(slots), dtype=np.int64)
        left_us[loads.worker] = loads.work_left_us
        np.add.at(left_us, sent.worker, sent.work_us)
        ready_us = self._world.ready_us(view.now_us, this, slots.of_kind)
        upload_us = (ready_us - view.now_us)[slots.kind].tolist()
        length_us = self._world.chunk_us(this, slots.of_kind)[slots.kind].tolist()
        workers = loads.worker.tolist()
        queue = [
            (max(upload_us[w], left) + length_us[w], left, w)
            for w, left in zip(workers, left_us[workers].tolist(), strict=True)
        ]
        heapq.heapify(queue)
        found = []
        for _ in units if queue else ():
            finish, left, worker = queue[0]
            found.append((worker, finish))
            left += length_us[worker]
            heapq.heapreplace(queue, (max(upload_us[worker], left) + length_us[worker], left, worker))
        columns = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return Offers(columns[0], columns[1])


class ReorderedQueues(EarliestFinish):
    """Queues sorted by a number of the job that changes as it trains, computed anew in every slot.

    All chunks of a job on workers have this key; the smallest is served, ties by dispatch. Chunks are
    dispatched in slots, like the keys.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (PREEMPT,)
    wake_on: Wake = EarliestFinish.wake_on | Wake.SLOT

    def __init__(self, preempt: bool = False) -> None:
        self.overtake = preempt

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

    def keys(self, job: int, length_us: IntArray) -> IntArray:
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


class ChunkEarliestFinish(EarliestFinish):
    """Workers train chunks in the order of dispatch, each to its end.

    On workers of one speed without a cloud this is chunk_fifo.
    """

    name: ClassVar[str] = "chunk_earliest_finish"
    section: ClassVar[str] = "docs/models/baselines.md#chunks-by-their-finish"
    summary: ClassVar[str] = "each chunk where it finishes earliest, edge or cloud; order of dispatch"

    overtake = False

    def keys(self, job: int, length_us: IntArray) -> IntArray:
        """Return equal keys, so that the order of dispatch decides."""
        return np.zeros_like(length_us)


class ChunkLas(ReorderedQueues):
    """Least attained service: order by the worker time of training that all chunks of the job have had.

    The order uses no length, the dispatch does: each chunk goes where it would finish earliest behind all
    others. A chunk that is lost counts from 0 again.

    Source: Nuyens and Wierman, The Foreground-Background Queue: A Survey, Performance Evaluation 65, 2008,
    for one server; Gu et al., Tiresias, NSDI 2019, for jobs of several GPUs.
    """

    name: ClassVar[str] = "chunk_las"
    section: ClassVar[str] = "docs/models/baselines.md#chunks-by-their-finish"
    summary: ClassVar[str] = "earliest finish, edge or cloud; job with least training done first"

    def job_keys(self, work: ChunkWork) -> IntArray:
        """Sort by training done, in microseconds."""
        return work.trained_us

    def key_when_sent(self, key: int, length_us: IntArray) -> int:
        """Leave the key as it is: a dispatch trains nothing."""
        return key


class ChunkSrpt(ReorderedQueues):
    """Order by remaining computation: worker time that all chunks of the job still need, uploads left out.

    Each chunk goes where it would finish earliest behind all others.

    Source: Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline,
    Operations Research 16(3), 1968, for one server and jobs of one chunk; for jobs on several workers it is
    a heuristic.
    """

    name: ClassVar[str] = "chunk_srpt"
    section: ClassVar[str] = "docs/models/baselines.md#chunks-by-their-finish"
    summary: ClassVar[str] = "earliest finish, edge or cloud; job with least work left first"

    def job_keys(self, work: ChunkWork) -> IntArray:
        """Sort by work left, in microseconds."""
        return work.left_us

    def key_when_sent(self, key: int, length_us: IntArray) -> int:
        """Add the chunks that are dispatched."""
        return key + int(length_us.sum())
