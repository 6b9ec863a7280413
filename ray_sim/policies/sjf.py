"""Shortest job first."""

from __future__ import annotations

from typing import Any, ClassVar

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.class_first import ClassFirst, gpu_count
from ray_sim.policy_api import KEY, Parameter, PolicyContext


class Sjf(ClassFirst):
    """Start jobs in the order of run time, without preemption; ties by earlier arrival."""

    name: ClassVar[str] = "sjf"
    section: ClassVar[str] = "docs/models/baselines.md#fifo-sjf-and-srtf"
    summary: ClassVar[str] = "shortest run time first, not preemptive; knows run times"
    parameters: ClassVar[tuple[Parameter, ...]] = (*ClassFirst.parameters, KEY)
    sees: frozenset[str] = frozenset({"duration_s"})

    def __init__(self, key: str = "time", **options: Any) -> None:
        super().__init__(**options)
        self._by_area = key == "area"

    def keys_in_class(self, world: PolicyContext) -> IntArray:
        """Return the run time at speed 1, or that times the GPUs."""
        work_us = world.jobs.work_us
        return work_us * gpu_count(world) if self._by_area else work_us
