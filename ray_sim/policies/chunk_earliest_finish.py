"""Earliest finish: each chunk goes where it is done first, at an edge or in the cloud.

List scheduling on unrelated machines (minimum completion time; Ibarra and Kim, Heuristic Algorithms for
Scheduling Independent Tasks on Nonidentical Processors, J. ACM 24(2), 1977), with uploads and a cloud.
`EarliestFinish` has the equation and the cost.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.earliest_finish import EarliestFinish


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
