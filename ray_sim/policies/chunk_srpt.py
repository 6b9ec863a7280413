"""Shortest remaining work for chunks: the job with the least computation left is served first.

Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline, Operations Research
16(3), 1968, for one server and jobs of one chunk; for jobs on several workers it is a heuristic.
`ReorderedQueues` computes keys in every slot in O(rows) for the chunks on workers, and sorts them into the
queues in O(rows log n).
"""

from __future__ import annotations

from typing import ClassVar

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.earliest_finish import ReorderedQueues
from ray_sim.policy_api import ChunkWork


class ChunkSrpt(ReorderedQueues):
    """Order by remaining computation: worker time that all chunks of the job still need, uploads left out.

    Each chunk goes where it would finish earliest behind all others.
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
