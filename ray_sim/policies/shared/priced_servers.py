"""Markets on sets of servers of a run, and the plans that they have sold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.shared.booked_plans import JOB, BookedPlans
from ray_sim.solvers.planning.market import Market, SlotPlan
from ray_sim.solvers.planning.slot_job import SlotJob


@dataclass(frozen=True, slots=True)
class PricedServers:
    """Servers of one market, with their prices."""

    servers: IntArray
    """Sorted server indices of the run; the market numbers them 0, 1, ..."""
    market: Market

    def part_of(self, plan: SlotPlan) -> SlotPlan:
        """Select the rows of a plan on these servers, renumbered for the market."""
        rows = np.isin(plan.server, self.servers)
        server = np.searchsorted(self.servers, plan.server[rows])
        return SlotPlan(plan.slot[rows], server, plan.workers[rows], plan.ps[rows])

    def without(self, there: BoolArray, first: int) -> PricedServers:
        """Copy the market with nothing free, from slot ``first`` on, on servers that are unavailable."""
        gone = np.flatnonzero(~there[self.servers])
        if len(gone) == 0:
            return self
        market = replace(self.market, load=self.market.load.copy(), price=self.market.price.copy())
        market.load[first:, gone] = market.cluster.capacity[gone]
        _reprice(market)
        return PricedServers(self.servers, market)

    def restore(self, load: IntArray) -> None:
        """Set the load of the market; prices follow."""
        self.market.load[:] = load
        _reprice(self.market)


class SoldPlans:
    """Booked plans and the loads that they have on markets."""

    def __init__(self, markets: Sequence[PricedServers]) -> None:
        self.markets = markets
        self.booked = BookedPlans.nothing()

    def sell(self, job: SlotJob, plan: SlotPlan) -> None:
        """Book a plan and add it to the loads."""
        self.booked = self.booked.having(job.number, plan)
        for priced in self.markets:
            priced.market.sell(job, priced.part_of(plan))

    def take_back(self, job: SlotJob) -> SlotPlan:
        """Undo `sell` of what is left of the job's plan; returns that plan."""
        plan = self.booked.of(job.number)
        self.booked = self.booked.kept(self.booked.rows[:, JOB] != job.number)
        for priced in self.markets:
            priced.market.take_back(job, priced.part_of(plan))
        return plan


def _reprice(market: Market) -> None:
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)
