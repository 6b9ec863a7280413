"""Earliest finish: each chunk goes where it is done first, at an edge or in the cloud.

List scheduling on unrelated machines (minimum completion time; Ibarra and Kim, Heuristic Algorithms for
Scheduling Independent Tasks on Nonidentical Processors, J. ACM 24(2), 1977), with uploads and a cloud.
`EarliestFinish` has the equation; O(log n) per worker and job for n chunks on the worker, then O(log W)
per chunk for W workers (`ray_sim/kernels/chunked/increments.py`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.earliest_finish import EarliestFinish


class ChunkEarliestFinish(EarliestFinish):
    """Workers train chunks in the order in which their uploads end, each to its end; ties by dispatch.

    In this order the finish of a chunk is exact unless a later dispatch is uploaded before it, its job has to
    wait for a parameter server, or a server is lost.
    """

    name: ClassVar[str] = "chunk_earliest_finish"
    section: ClassVar[str] = "docs/models/baselines.md#chunk-earliest-finish-chunk-las-and-chunk-srpt"
    summary: ClassVar[str] = "each chunk where it finishes earliest, edge or cloud; in order of upload"

    overtake = False

    def keys(self, job: int, length_us: IntArray, ready_us: int) -> IntArray:
        """Sort by the end of the upload, in microseconds."""
        return np.full_like(length_us, ready_us)
