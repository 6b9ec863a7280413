"""Shortest job first."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.class_first import ClassFirst
from ray_sim.policy_api import PolicyContext


class Sjf(ClassFirst):
    """Start jobs in the order of run time, without preemption; ties by earlier arrival."""

    name: ClassVar[str] = "sjf"
    section: ClassVar[str] = "docs/models/baselines.md#fifo-sjf-and-srtf"
    summary: ClassVar[str] = "shortest run time first, not preemptive; knows run times"
    sees: frozenset[str] = frozenset({"duration_s"})

    def keys_in_class(self, world: PolicyContext) -> IntArray:
        """Return the run time at speed 1."""
        return world.jobs.work_us
