"""Capacity of servers and slots, offered at prices that rise with its use.

The price of a unit of a resource on a server in a slot rises from L at no load to U of its resource at full
load: L (U / L)^(load / capacity). Units are the user's (GPU, core, GiB), loads and capacities integer quanta.

PD-ORS takes `traced_constants` or `declared_constants`, OASiS `price_range`; both keep one `Market` for each
set of servers (`ray_sim/policies/shared/sold_plans.py`), and `schedule` plans one job on it. ``price`` is to
follow every change of ``load``; sums of integers keep loads exact. The order of floating-point operations is
part of the results. Model and proofs: docs/models/pd_ors.md#prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray, IntArray, tolerant_ceil
from ray_sim.solvers.planning.slot_job import SlotJob

UTILITY_FLOOR = 1e-300
"""Least utility that counts, as a share of the largest: a decaying sigmoid underflows."""

SMALLEST_PRICE = float(np.finfo(np.float64).tiny)
"""Smaller numbers lose precision."""


@dataclass(frozen=True, slots=True)
class MarketCapacity:
    """Capacity of the servers of a market, and the units of its prices."""

    capacity: IntArray
    """(S, R) quanta."""
    quanta_per_unit: IntArray
    """(R,)."""

    @property
    def units(self) -> float:
        """Sum of all resources of all servers, in units."""
        return float((self.capacity / self.quanta_per_unit).sum())


@dataclass(frozen=True, slots=True)
class Constants:
    """Lowest and highest prices."""

    lowest: float
    """L, > 0."""
    highest: FloatArray
    """(R,) U, each at least e L."""

    @property
    def log_ratio(self) -> FloatArray:
        """(R,) ln(U / L), exactly equal if both are scaled by a power of two."""
        fraction, exponent = np.frexp(self.highest)
        low_fraction, low_exponent = np.frexp(self.lowest)
        ratio: FloatArray = np.log(fraction / low_fraction) + (exponent - low_exponent) * math.log(2.0)
        return ratio

    def within(self, span: float | None) -> Constants:
        """Raise L until ln(U / L) is at most ``span``, >= 1, for every resource; None: any."""
        if span is None:
            return self
        lowest = max(self.lowest, float(self.highest.max()) * math.exp(-span))
        return Constants(lowest, np.maximum(self.highest, math.e * lowest))

    def prices(self, load: IntArray, capacity: IntArray) -> FloatArray:
        """(..., R) price per unit; U on a server without the resource, as on a full one.

        Parameters
        ----------
        load, capacity : (..., R) quanta, of any shapes that broadcast
        """
        taken = np.divide(load, capacity, out=np.ones(np.broadcast(load, capacity).shape), where=capacity > 0)
        # Two factors of exp(ln(U / L) / 2), since exp(ln(U / L)) may overflow where L is very small.
        half = np.exp(0.5 * taken * self.log_ratio)
        prices: FloatArray = np.minimum(self.lowest * half * half, self.highest)
        return prices


@dataclass(frozen=True, slots=True)
class Ranges:
    """Declared ranges that hold every job, for prices without a look at the trace.

    The demand is that of one worker and one parameter server together, or of one task where a market sells
    to one role only. The work of a job is the worker-slots that it needs at the external rate, times this
    demand, summed over resources in units.
    """

    utility: tuple[float, float]
    """Least utility of a job that ends in the last slot; largest utility of any job."""
    least_demand: FloatArray
    """(R,) least demand in units, over jobs that use the resource; 0 if none does."""
    work: tuple[float, float]
    """Least and largest work."""


def traced_constants(jobs: Iterable[SlotJob], cluster: MarketCapacity) -> Constants:
    """Compute prices from the jobs that can end.

    Parameters
    ----------
    jobs : only jobs that can end in this cluster when empty, see `ends_alone`

    Raises
    ------
    InvalidInputError : there are no jobs, or none has utility
    """
    counted = [job for job in jobs if job.can_end]
    best = max((job.most_worth for job in counted), default=0.0)
    if best <= 0.0:
        why = "no job has utility when it could end" if counted else "no job can end before the horizon"
        raise InvalidInputError(f"prices: {why}; take a longer horizon, or declare the ranges of jobs")
    floor = UTILITY_FLOOR * max(float(job.utility[0]) for job in counted)
    highest = np.zeros(cluster.capacity.shape[1])
    for job in counted:
        demand = job_demand(job, cluster)
        worth = max(job.most_worth, floor)
        highest = np.maximum(highest, np.divide(worth, demand, out=np.zeros(len(demand)), where=demand > 0))
    # Jobs without demand pay nothing and bound no price.
    paying = [(job, work) for job in counted if (work := job_work(job, cluster)) > 0]
    least_work = min((work for _, work in paying), default=1.0)
    payments = [max(float(job.utility[-1]), floor) * (least_work / work) for job, work in paying]
    slots = counted[0].arrival + len(counted[0].utility)
    return price_range(min(payments, default=best), highest, cluster, slots)


def declared_constants(ranges: Ranges, cluster: MarketCapacity, slots: int, *, markets: int = 1) -> Constants:
    """Compute L and U from ranges: L is not above, U not below, the traced ones of any jobs within them.

    Parameters
    ----------
    markets : number of markets that share the bound on the initial dual in equal parts

    Raises
    ------
    InvalidInputError : a range is empty or not positive
    """
    (least, most), (least_work, most_work) = ranges.utility, ranges.work
    if not (0.0 <= least <= most and most > 0.0 and 0.0 < least_work <= most_work):
        raise InvalidInputError(
            f"declared ranges: utility {least:g} to {most:g} and work {least_work:g} to {most_work:g} must "
            "rise, and end above 0"
        )
    demand = ranges.least_demand
    highest = np.divide(most, demand, out=np.zeros(len(demand)), where=demand > 0)
    payment = max(least, UTILITY_FLOOR * most) * (least_work / most_work)
    return price_range(payment / markets, highest, cluster, slots)


def job_demand(job: SlotJob, cluster: MarketCapacity) -> FloatArray:
    """(R,) total units of a worker and a parameter server."""
    units: FloatArray = (job.worker_demand + job.ps_demand) / cluster.quanta_per_unit
    return units


def job_work(job: SlotJob, cluster: MarketCapacity) -> float:
    """Worker-slots at the external rate, times the total units of a worker and a parameter server."""
    return tolerant_ceil(job.samples * job.theta_external) * float(job_demand(job, cluster).sum())


def offered_load(jobs: Iterable[SlotJob], cluster: MarketCapacity, slots: int) -> float:
    """Compute the work of all jobs over the capacity of all slots, the largest of any resource.

    The work of a job is its worker-slots at the external rate, times the units of a worker and a PS.
    """
    capacity = slots * (cluster.capacity / cluster.quanta_per_unit).sum(axis=0)
    work = sum((job.samples * job.theta_external * job_demand(job, cluster) for job in jobs), 0.0 * capacity)
    return float(np.divide(work, capacity, out=np.zeros(len(capacity)), where=capacity > 0).max())


def price_range(payment: float, highest: FloatArray, cluster: MarketCapacity, slots: int) -> Constants:
    """Compute L: all resources at L cost half of the least payment, so the dual starts at half the optimum.

    U is at least e L, so that every price can rise by a factor e and a sale pays for what it displaces.
    """
    if cluster.units <= 0.0:
        raise InvalidInputError("prices: the cluster has no resources to sell")
    lowest = max(payment / (2.0 * slots * cluster.units), SMALLEST_PRICE)
    return Constants(lowest, np.maximum(highest, math.e * lowest))


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
