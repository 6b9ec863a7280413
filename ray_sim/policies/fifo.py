"""First in, first out."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.engine.policy_context import PolicyContext
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.priority_order import KeyOrder


class Fifo(KeyOrder):
    """Jobs start in the order of submission; ties in trace order."""

    name: ClassVar[str] = "fifo"
    section: ClassVar[str] = "docs/models/baselines.md#fifo-sjf-and-srtf"
    summary: ClassVar[str] = "first in, first out; strict, or with backfill"

    def keys(self, world: PolicyContext) -> IntArray:
        """The submission time; the job index breaks ties."""
        return world.jobs.submit_us
