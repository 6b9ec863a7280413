"""How unevenly the parameters of elastic jobs stood on their parameter servers, booked along a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.holdings import State
from ray_sim.kernels.arrays import Ledger
from ray_sim.kernels.progress import executed_of
from ray_sim.model.parameter_blocks import ServerSkew
from ray_sim.model.units import FloatArray, IntArray


class Imbalance:
    """The skew of each job's parameter servers, added up over the time in which it trained with them."""

    def __init__(self, jobs: int, skew: ServerSkew | None) -> None:
        self._of_servers = skew
        self._skew: FloatArray = np.zeros(jobs)
        """(J,) with what each job holds now; 0 without parameter servers."""
        self._booked_us: IntArray = np.zeros(jobs, dtype=np.int64)
        self.with_ps_us: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) in which each job trained with parameter servers, as booked."""
        self.skewed_us: FloatArray = np.zeros(jobs)
        """(J,) the same, each microsecond times the skew in it."""

    def book(self, now_us: int, ledger: Ledger, jobs: IntArray) -> None:
        """Book the time that the jobs have trained; call it before their holdings change."""
        ran_us = np.empty(len(jobs), dtype=np.int64)
        executed_of(ledger, jobs, now_us, ran_us)
        passed_us, skew = ran_us - self._booked_us[jobs], self._skew[jobs]
        self.with_ps_us[jobs] += np.where(skew > 0.0, passed_us, 0)
        self.skewed_us[jobs] += skew * passed_us
        self._booked_us[jobs] = ran_us

    def replace(self, jobs: IntArray, ps: IntArray) -> None:
        """The jobs now hold so many parameter servers."""
        skew = np.ones(len(jobs)) if self._of_servers is None else self._of_servers.of(jobs, ps)
        self._skew[jobs] = np.where(ps > 0, skew, 0.0)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            "skew": self._skew.copy(),
            "booked_us": self._booked_us.copy(),
            "with_ps_us": self.with_ps_us.copy(),
            "skewed_us": self.skewed_us.copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._skew[:] = state["skew"]
        self._booked_us[:] = state["booked_us"]
        self.with_ps_us[:] = state["with_ps_us"]
        self.skewed_us[:] = state["skewed_us"]
