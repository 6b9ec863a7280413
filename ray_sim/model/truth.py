"""Progress rules: the rate of a job as a function of placements. Policies cannot change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ray_sim.kernels.core.arrays import Pool
from ray_sim.kernels.core.placement_rows import rigid_rates
from ray_sim.model.units import FloatArray, IntArray

NOBODY: IntArray = np.empty(0, dtype=np.int64)


class PlacementRows(Protocol):
    """Placements as progress rules read them."""

    @property
    def pool(self) -> Pool:
        """The linked rows themselves, for kernels."""

    def rows(self, jobs: IntArray) -> IntArray:
        """(rows, 4) integers job, server, role, count, sorted, of the given jobs."""


class Truth(Protocol):
    """A pure function of placements and of one record per job."""

    @property
    def disturbing(self) -> bool:
        """Whether what one job holds can change the rate of others; else `touched` is never asked."""

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Work per microsecond of each of ``jobs``, all of which hold something, >= 0."""

    def touched(self, servers: IntArray) -> IntArray:
        """Jobs, sorted, whose rate may change when placements on ``servers`` change; beside the changed."""


@dataclass(frozen=True, slots=True)
class RigidTruth:
    """A gang runs at the speed of its slowest server while all its tasks are placed."""

    speed: FloatArray
    """(S,) progress per microsecond on each server."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Speed factor of the slowest GPU type held: synchronous training waits for it."""
        rates = np.empty(len(jobs))
        rigid_rates(self.speed, placements.pool, jobs, rates)
        return rates

    def touched(self, servers: IntArray) -> IntArray:
        """Nobody."""
        return NOBODY
