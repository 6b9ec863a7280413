"""The switch `priority` of fifo and sjf: jobs of a higher class go first; the order is still one key."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ray_sim.model.teams import classes_of
from ray_sim.model.units import QUANTA_PER_UNIT, IntArray
from ray_sim.policy_api import FASTEST, GPU_TYPE, Parameter, PolicyContext, PriorityPolicy

PRIORITY = Parameter(
    "priority",
    "bool",
    False,
    "whether jobs of a higher class start first; without classes in the cluster file each priority is one",
    source="docs/clusters.md#classes-and-teams",
)


class ClassFirst(PriorityPolicy):
    """Jobs start in the order of a fixed key, within their class where `priority` is set."""

    parameters: ClassVar[tuple[Parameter, ...]] = (*PriorityPolicy.parameters, PRIORITY, GPU_TYPE)

    def __init__(
        self,
        placement: str = "consolidate",
        backfill: bool = False,
        no_room: str = "wait",
        priority: bool = False,
        type: str = FASTEST,  # noqa: A002 (the name that users know)
    ) -> None:
        super().__init__(placement, backfill, no_room)
        self._gpu_type = type
        self._priority = priority
        if priority:
            self.sees = self.sees | {"priority"}

    @abstractmethod
    def keys_in_class(self, world: PolicyContext) -> IntArray:
        """(J,) whole numbers, smaller first within a class."""

    def keys(self, world: PolicyContext) -> IntArray:
        """Return `keys_in_class`, or their rank after all higher classes."""
        keys = self.keys_in_class(world)
        if not self._priority:
            return keys
        job_class, classes = classes_of(world.cluster, world.jobs.priority, len(keys))
        rank = np.unique(keys, return_inverse=True)[1]
        in_order: IntArray = (len(classes) - 1 - job_class) * max(len(keys), 1) + rank
        return in_order


def gpu_count(world: PolicyContext) -> IntArray:
    """(J,) GPUs of each job, rounded up, at least 1."""
    return -(-world.gang_gpus() // QUANTA_PER_UNIT["gpu"])
