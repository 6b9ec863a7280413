"""Water filling: the levels of all jobs rise together, then those of the jobs that can get more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.needs import MaxMin, mean_speed
from ray_sim.policies.gavel.programme import Programme

_RISE = 1e-5
"""A job is closed if its level can rise by no more than this part of it."""
_BINDING = 1e-7
"""Tolerance of dual values."""


@dataclass(frozen=True, slots=True)
class Entities:
    """K groups of jobs: ``of`` has the group of each row of the workload, 0 to K - 1; ``weight`` is > 0.

    fifo: (K,) bool: a group's part is its first open job's, else that of all by their weights (fairness).
    """

    of: IntArray
    weight: FloatArray
    fifo: np.ndarray

    def gains(self, now: JobsNow, weight: FloatArray) -> FloatArray:
        """(J,) how fast each level rises, given the jobs' own weights, 0 of those that are closed."""
        entity, counts = self.of[now.job], weight.copy()
        for each in np.flatnonzero(self.fifo):
            counts[np.flatnonzero((entity == each) & (weight > 0))[1:]] = 0
        total = np.bincount(entity, counts, len(self.weight))[entity]
        return self.weight[entity] * counts / np.where(total > 0, total, 1)


class WaterFilling(MaxMin):
    """Max-min; then the levels q/e of the jobs that can be faster rise on."""

    name = "water_filling"

    def __init__(self, *, aware: bool, entities: Entities | None = None) -> None:
        """entities: None where jobs share by their own weights only."""
        super().__init__(aware=aware)
        self.entities = entities

    def need(self, programme: Programme) -> FloatArray:
        return self.levels(programme) * mean_speed(programme.now)

    def levels(self, programme: Programme) -> FloatArray:
        """(J,) largest q/e of each job; unique."""
        now, unit = programme.now, mean_speed(programme.now)
        level, weight = np.zeros(len(now.job)), now.weight.copy()
        while weight.any():  # of open jobs
            gain = (weight if self.entities is None else self.entities.gains(now, weight)) / now.gpus
            corner = programme.corner(per_level=gain * unit, floor=level * unit)
            level += corner.level * gain
            stuck = corner.binding > _BINDING
            while stuck.any():
                weight[stuck] = 0
                raised = (weight > 0) & (gain > 0)
                # Jobs can rise one by one if they can together, by convexity.
                rise, _, binding = programme.corner(per_level=raised * unit, floor=level * unit)
                stuck = (binding > _BINDING) & (rise <= _RISE * level + 1e-9)
        return level
