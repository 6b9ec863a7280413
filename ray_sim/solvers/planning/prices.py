"""Price of a unit of a resource on a server in a slot, increasing in its use.

A price rises from L, when nothing is taken, to U of its resource, when all is: L (U / L)^(load / capacity).
Units are the user's (GPU, core, GiB), loads and capacities integer quanta.
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
"""Least utility that counts, as a share of the largest: a sigmoid soon has no floating-point number."""

SMALLEST_PRICE = float(np.finfo(np.float64).tiny)
"""Smaller numbers lose digits."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Servers as prices see them."""

    capacity: IntArray
    """(S, R) quanta."""
    quanta_per_unit: IntArray
    """(R,)."""

    @property
    def units(self) -> float:
        """All resources of all servers together."""
        return float((self.capacity / self.quanta_per_unit).sum())


@dataclass(frozen=True, slots=True)
class Constants:
    """Ends of the prices."""

    lowest: float
    """L, > 0."""
    highest: FloatArray
    """(R,) U, at least e L each."""

    @property
    def log_ratio(self) -> FloatArray:
        """(R,) ln(U / L), the same if both are scaled by a power of two."""
        fraction, exponent = np.frexp(self.highest)
        low_fraction, low_exponent = np.frexp(self.lowest)
        ratio: FloatArray = np.log(fraction / low_fraction) + (exponent - low_exponent) * math.log(2.0)
        return ratio

    def within(self, span: float) -> Constants:
        """The same with L raised until ln(U / L) is at most ``span``, which is >= 1, of every resource."""
        lowest = max(self.lowest, float(self.highest.max()) * math.exp(-span))
        return Constants(lowest, np.maximum(self.highest, math.e * lowest))

    def prices(self, load: IntArray, capacity: IntArray) -> FloatArray:
        """(..., R) price per unit; that of a server without the resource is U, as where all of it is taken.

        Parameters
        ----------
        load, capacity : (..., R) quanta, of any shapes that broadcast
        """
        taken = np.divide(load, capacity, out=np.ones(np.broadcast(load, capacity).shape), where=capacity > 0)
        # In two halves, as exp(ln(U / L)) may be too large a number where L is very small.
        half = np.exp(0.5 * taken * self.log_ratio)
        prices: FloatArray = np.minimum(self.lowest * half * half, self.highest)
        return prices


@dataclass(frozen=True, slots=True)
class Ranges:
    """What is known of jobs before they come, where the trace is not to be looked at.

    The work of a job is the worker-slots that it needs at the external rate, times what one worker and one
    parameter server take, added up over resources in units.
    """

    utility: tuple[float, float]
    """Least utility of a job that ends in the last slot; largest of any."""
    least_demand: FloatArray
    """(R,) units of a worker and a parameter server together, the least of jobs that use the resource; 0 if
    none does."""
    work: tuple[float, float]
    """Least and largest."""


def traced_constants(jobs: Iterable[SlotJob], cluster: Cluster) -> Constants:
    """From the jobs themselves: those that can end count.

    Parameters
    ----------
    jobs : without those that cannot end in this cluster, however empty it is, see `ends_alone`

    Raises
    ------
    InvalidInputError : there is none, or none is worth anything
    """
    counted = [job for job in jobs if job.can_end]
    best = max((job.most_worth for job in counted), default=0.0)
    if best <= 0.0:
        why = "no job is worth anything when it could end" if counted else "no job can end before the horizon"
        raise InvalidInputError(f"prices: {why}; take a longer horizon, or declare the ranges of jobs")
    floor = UTILITY_FLOOR * max(float(job.utility[0]) for job in counted)
    highest = np.zeros(cluster.capacity.shape[1])
    for job in counted:
        demand = job_demand(job, cluster)
        worth = max(job.most_worth, floor)
        highest = np.maximum(highest, np.divide(worth, demand, out=np.zeros(len(demand)), where=demand > 0))
    # Jobs that demand nothing pay nothing, and bound no price.
    paying = [(job, work) for job in counted if (work := job_work(job, cluster)) > 0]
    least_work = min((work for _, work in paying), default=1.0)
    payments = [max(float(job.utility[-1]), floor) * (least_work / work) for job, work in paying]
    slots = counted[0].arrival + len(counted[0].utility)
    return price_range(min(payments, default=best), highest, cluster, slots)


def declared_constants(ranges: Ranges, cluster: Cluster, slots: int) -> Constants:
    """From ranges that hold every job: L is no higher and U no lower than those of such jobs.

    Raises
    ------
    InvalidInputError : ranges that are none
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
    return price_range(payment, highest, cluster, slots)


def job_demand(job: SlotJob, cluster: Cluster) -> FloatArray:
    """(R,) units of a worker and a parameter server together."""
    units: FloatArray = (job.worker_demand + job.ps_demand) / cluster.quanta_per_unit
    return units


def job_work(job: SlotJob, cluster: Cluster) -> float:
    """Worker-slots at the external rate, times the units of a worker and a parameter server."""
    return tolerant_ceil(job.samples * job.theta_external) * float(job_demand(job, cluster).sum())


def price_range(payment: float, highest: FloatArray, cluster: Cluster, slots: int) -> Constants:
    """So low that all resources at L cost half of the least payment: the dual starts below half the optimum.

    Every price can rise by e at least: by so much a sale pays for what it displaces.
    """
    if cluster.units <= 0.0:
        raise InvalidInputError("prices: the cluster has no resources to sell")
    lowest = max(payment / (2.0 * slots * cluster.units), SMALLEST_PRICE)
    return Constants(lowest, np.maximum(highest, math.e * lowest))
