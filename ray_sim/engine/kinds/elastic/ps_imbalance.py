"""Imbalance of parameters over the parameter servers of elastic jobs, accumulated along a run."""

from __future__ import annotations

from ray_sim.engine.kinds.elastic.weighted_time import WeightedTime
from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.units import IntArray


class PsImbalance(WeightedTime):
    """By how much the skew of each job's parameter servers was above 1, times the time of training."""

    def __init__(self, jobs: int, loads: DealtLoads) -> None:
        super().__init__(jobs)
        self._loads = loads

    def replace(self, jobs: IntArray, ps: IntArray) -> None:
        """Note that the jobs now hold ``ps``, (n,), parameter servers."""
        self.weigh(jobs, self._loads.of(jobs, ps).skew - 1.0)
