"""First in, first out."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.class_first import ClassFirst
from ray_sim.policy_api import PolicyContext


class Fifo(ClassFirst):
    """Start jobs in the order of submission; ties in trace order."""

    name: ClassVar[str] = "fifo"
    section: ClassVar[str] = "docs/models/baselines.md#fifo-sjf-and-srtf"
    summary: ClassVar[str] = "first in, first out; strict, or with backfill"

    def keys_in_class(self, world: PolicyContext) -> IntArray:
        """Return the submission time; the job index breaks ties."""
        return world.jobs.submit_us
