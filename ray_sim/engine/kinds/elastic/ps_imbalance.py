"""Imbalance of parameters over the parameter servers of elastic jobs, accumulated along a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.placements import State
from ray_sim.kernels.core.arrays import Ledger
from ray_sim.kernels.core.progress import executed_of
from ray_sim.model.parameter_blocks import DealtLoads
from ray_sim.model.units import FloatArray, IntArray


def trained_us(ledger: Ledger, jobs: IntArray, now_us: int) -> IntArray:
    """(n,) microseconds in which each job has trained so far."""
    ran = np.empty(len(jobs), dtype=np.int64)
    executed_of(ledger, jobs, now_us, ran)
    return ran


class Imbalance:
    """By how much the skew of each job's parameter servers was above 1, times the time of training."""

    def __init__(self, jobs: int, loads: DealtLoads) -> None:
        self._loads = loads
        self._beyond: FloatArray = np.zeros(jobs)
        """(J,) with what each job holds now."""
        self._booked_us: IntArray = np.zeros(jobs, dtype=np.int64)
        self.beyond_us: FloatArray = np.zeros(jobs)
        """(J,) as booked."""

    def book(self, now_us: int, ledger: Ledger, jobs: IntArray) -> None:
        """Book the time that the jobs have trained; call it before their placements change."""
        trained = trained_us(ledger, jobs, now_us)
        self.beyond_us[jobs] += self._beyond[jobs] * (trained - self._booked_us[jobs])
        self._booked_us[jobs] = trained

    def replace(self, jobs: IntArray, ps: IntArray) -> None:
        """Note that the jobs now hold ``ps``, (n,), parameter servers."""
        self._beyond[jobs] = self._loads.of(jobs, ps).skew - 1.0

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            "beyond": self._beyond.copy(),
            "booked_us": self._booked_us.copy(),
            "beyond_us": self.beyond_us.copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._beyond[:] = state["beyond"]
        self._booked_us[:] = state["booked_us"]
        self.beyond_us[:] = state["beyond_us"]
