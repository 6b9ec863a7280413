"""Chunks in order of dispatch."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.policies.shared.chunk_dispatch import LeastLoaded


class ChunkFifo(LeastLoaded):
    """Workers train chunks in the order of dispatch, each to its end."""

    name: ClassVar[str] = "chunk_fifo"
    section: ClassVar[str] = "docs/models/baselines.md#chunk-fifo-and-chunk-spt"
    summary: ClassVar[str] = "each chunk to the least loaded worker, served in order of dispatch"

    overtake = False

    def key(self, length_us: int) -> int:
        """Return equal keys, so that the order of dispatch decides."""
        return 0
