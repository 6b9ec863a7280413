"""Least attained service for chunks: the job with the least training done is served first.

Nuyens and Wierman, The Foreground-Background Queue: A Survey, Performance Evaluation 65, 2008, for one
server; Gu et al., Tiresias, NSDI 2019, for jobs of several GPUs. `ReorderedQueues` computes keys in every
slot in O(rows) for the chunks on workers, and sorts them into the queues in O(rows log n).
"""

from __future__ import annotations

from typing import ClassVar

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.earliest_finish import ReorderedQueues
from ray_sim.policy_api import ChunkWork


class ChunkLas(ReorderedQueues):
    """Order by attained computation: worker time of training that all chunks of the job have had.

    The order uses no length, the dispatch does: each chunk goes where it would finish earliest behind all
    others. A chunk that was lost with its server counts from 0 again.
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
