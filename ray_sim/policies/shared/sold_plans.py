"""Plans that markets have sold: tasks of each job by server and slot, and the loads that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policy_api import PARAMETER_SERVER, WORKER, Rows
from ray_sim.solvers.planning.market import Market, SlotPlan
from ray_sim.solvers.planning.slot_job import SlotJob

JOB, SLOT, SERVER, WORKERS, PS = range(5)


@dataclass(frozen=True, slots=True)
class BookedPlans:
    """Schedules of jobs, as sorted rows job, slot, server, workers, parameter servers."""

    rows: IntArray
    """(n, 5)."""

    @classmethod
    def nothing(cls) -> BookedPlans:
        """No schedules."""
        return cls(np.empty((0, 5), dtype=np.int64))

    def having(self, job: int, plan: SlotPlan) -> BookedPlans:
        """Add the plan of one more job."""
        columns = [np.full(len(plan.slot), job), plan.slot, plan.server, plan.workers, plan.ps]
        rows = np.concatenate([self.rows, np.stack(columns, axis=1)])
        return BookedPlans(rows[np.lexsort(rows[:, SERVER::-1].T)])

    def kept(self, which: BoolArray) -> BookedPlans:
        """Select rows by a mask, (n,)."""
        return BookedPlans(self.rows[which])

    def of(self, job: int) -> SlotPlan:
        """Select the plan of one job."""
        mine = self.rows[self.rows[:, JOB] == job]
        return SlotPlan(mine[:, SLOT], mine[:, SERVER], mine[:, WORKERS], mine[:, PS])

    def at(self, slot: int) -> BookedPlans:
        """Select the rows of one slot."""
        return self.kept(self.rows[:, SLOT] == slot)

    def next_change(self, slot: int) -> int | None:
        """First later slot whose rows differ from those of the slot before it; None if no rows are left.

        Slots before ``slot`` are ignored.
        """
        now = self._tasks_at(slot)
        later = np.unique(self.rows[self.rows[:, SLOT] > slot, SLOT]).tolist()
        if len(now) == 0:
            return later[0] if later else None
        last = slot
        for following in later:
            if following > last + 1 or not np.array_equal(self._tasks_at(following), now):
                break
            last = following
        return last + 1

    def _tasks_at(self, slot: int) -> IntArray:
        tasks: IntArray = self.at(slot).rows[:, [JOB, SERVER, WORKERS, PS]]
        return tasks

    def placements(self, jobs: IntArray) -> Rows:
        """Placements of ``jobs``, sorted, from rows of one slot; empty for jobs without rows."""
        mine = self.rows[np.isin(self.rows[:, JOB], jobs)]
        held = mine[:, [WORKERS, PS]] > 0
        roles = held.sum(axis=1)
        return Rows(
            ptr=np.concatenate(
                [[0], np.cumsum(np.bincount(np.searchsorted(jobs, mine[:, JOB]), roles, len(jobs)))]
            ).astype(np.int64),
            server=np.repeat(mine[:, SERVER], roles),
            role=np.tile([WORKER, PARAMETER_SERVER], (len(mine), 1))[held].astype(np.int64),
            tasks=mine[:, [WORKERS, PS]][held],
        )


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

    def offering(self, offered: IntArray, first: int) -> PricedServers:
        """Copy the market with at most ``offered`` free from slot ``first`` on; the rest counts as load.

        Parameters
        ----------
        offered : (S, R) quanta of the servers of the run
        """
        withheld = self.market.cluster.capacity - offered[self.servers]
        if not withheld.any():
            return self
        market = replace(self.market, load=self.market.load.copy(), price=self.market.price.copy())
        np.maximum(market.load[first:], withheld, out=market.load[first:])
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
