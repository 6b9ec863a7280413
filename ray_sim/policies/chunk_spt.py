"""Shortest chunk first, each chunk on the least loaded worker.

Listed in `BUILT_IN` of `ray_sim/policies/registry.py`; `LeastLoaded` calls `key`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.policies.shared.chunk_dispatch import PREEMPT, LeastLoaded
from ray_sim.policy_api import Parameter


class ChunkSpt(LeastLoaded):
    """Workers train the shortest of their chunks first; ties by the order of dispatch."""

    name: ClassVar[str] = "chunk_spt"
    section: ClassVar[str] = "docs/models/baselines.md#chunk-fifo-and-chunk-spt"
    summary: ClassVar[str] = "each chunk to the least loaded worker, shortest first"
    parameters: ClassVar[tuple[Parameter, ...]] = (PREEMPT,)

    def __init__(self, preempt: bool = False) -> None:
        self.overtake = preempt

    def key(self, length_us: int) -> int:
        """Return the chunk's whole length on its worker, in microseconds; the smallest key is first."""
        return length_us

    def warnings(self) -> list[str]:
        """Warn if all chunks of two or more jobs are as long on every worker slot."""
        jobs, slots = np.arange(len(self._world.jobs.submit_us)), self._world.workers
        lengths_us = self._world.chunk_us(jobs[:, None], slots.of_kind[None, :])
        if len(jobs) < 2 or len(np.unique(lengths_us)) > 1:
            return []
        return [f"all {len(jobs):,} jobs rank equal: the policy's order put no job before another"]
