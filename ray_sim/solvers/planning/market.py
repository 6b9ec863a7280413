"""Capacity of servers and slots, offered at prices.

PD-ORS and OASiS keep one `Market` (`ray_sim/policies/shared/sold_plans.py`); `schedule` plans
one job on it. ``price`` is to follow every change of ``load``; sums of integers keep loads exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.planning.prices import Constants, MarketCapacity
from ray_sim.solvers.planning.slot_job import SlotJob


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """Rows of a schedule, sorted by slot and server; each row holds at least one task."""

    slot: IntArray
    server: IntArray
    workers: IntArray
    ps: IntArray

    def quanta(self, job: SlotJob) -> IntArray:
        """(n, R) quanta of each row."""
        taken: IntArray = np.multiply.outer(self.workers, job.worker_demand)
        taken += np.multiply.outer(self.ps, job.ps_demand)
        return taken


@dataclass(frozen=True, slots=True)
class Market:
    """Loads and the prices that follow from them. The caller owns both and may change them between jobs."""

    cluster: MarketCapacity
    constants: Constants
    load: IntArray
    """(T, S, R) quanta, at most the capacity."""
    price: FloatArray
    """(T, S, R) per unit; always the prices of ``load``."""

    @classmethod
    def empty(cls, cluster: MarketCapacity, constants: Constants, slots: int) -> Market:
        """Create a market with no load."""
        load = np.zeros((slots, *cluster.capacity.shape), dtype=np.int64)
        return cls(cluster, constants, load, constants.prices(load, cluster.capacity))

    def sell(self, job: SlotJob, plan: SlotPlan) -> None:
        """Add a plan to the loads and raise the prices of its rows."""
        self._book(plan, plan.quanta(job))

    def take_back(self, job: SlotJob, plan: SlotPlan) -> None:
        """Undo `sell` of this plan, also after other sales."""
        self._book(plan, -plan.quanta(job))

    def _book(self, plan: SlotPlan, quanta: IntArray) -> None:
        rows = (plan.slot, plan.server)  # each pair occurs once
        self.load[rows] += quanta
        self.price[rows] = self.constants.prices(self.load[rows], self.cluster.capacity[plan.server])

    @property
    def dual(self) -> float:
        """Cost of all capacity at current prices."""
        return float((self.price * (self.cluster.capacity / self.cluster.quanta_per_unit)).sum())
