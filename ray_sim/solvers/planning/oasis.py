"""OASiS: the best schedule of one job, with workers and parameter servers on separate servers.

Tasks of a role are identical, so it is optimal in each slot to take the cheapest servers first.

Used by the policy oasis. The order of equal prices decides results. E, N and T are symbols of the paper:
epochs, chunks of data per epoch, which is the largest number of workers, and slots.

Source: Bao, Peng, Wu, Li, Online Job Scheduling in Distributed Machine Learning Clusters, INFOCOM 2018.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray, IntArray, tolerant_ceil, tolerant_ceils
from ray_sim.solvers.planning.market import UTILITY_FLOOR, Constants, Market, MarketCapacity, price_range
from ray_sim.solvers.planning.schedule import (
    Infeasible,
    Obstacle,
    Outcome,
    if_worth_it,
    schedule_of,
    spread_work,
)
from ray_sim.solvers.planning.slot_costs import SlotTasks, WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.trim_schedule import trim


class Sides(NamedTuple):
    """Market of the servers for workers, and market of those for parameter servers."""

    workers: Market
    ps: Market


@dataclass(frozen=True, slots=True)
class _Offers:
    """Places for tasks of one role in one slot, the cheapest first."""

    server: IntArray
    """(n,) server of each place, at most as many places as the job may have tasks."""
    price: FloatArray
    """(n,) price of each place, non-decreasing."""
    of_server: FloatArray
    """(S,) price of one task on each server."""

    def cost(self, tasks: IntArray) -> FloatArray:
        """Cost of these numbers of tasks, >= 1; inf where they do not fit."""
        total = np.cumsum(self.price)
        places = len(total)
        if places == 0:
            return np.full(len(tasks), np.inf)
        return np.where(tasks <= places, total[np.minimum(tasks, places) - 1], np.inf)


def role_constants(jobs: Iterable[SlotJob], role: int, cluster: MarketCapacity, slots: int) -> Constants:
    """Lowest and highest prices on the servers of a role, from all jobs that can end.

    Parameters
    ----------
    jobs : jobs that can end on these servers when empty, see `ends_alone`

    Raises
    ------
    InvalidInputError : there are no jobs, or none has utility
    """
    counted = [job for job in (each.apart() for each in jobs) if job.can_end]
    best = max((job.most_worth for job in counted), default=0.0)
    if best <= 0.0:
        raise InvalidInputError("prices: no job that can end before the horizon has utility")
    floor = UTILITY_FLOOR * max(float(job.utility[0]) for job in counted)
    highest = np.zeros(cluster.capacity.shape[1])
    payments, works = [], []
    for job in counted:
        demand = job.demand[role] / cluster.quanta_per_unit
        worth = max(job.most_worth, floor)
        highest = np.maximum(highest, np.divide(worth, demand, out=np.zeros(len(demand)), where=demand > 0))
        work = tolerant_ceil(job.samples * job.theta_external) * float(demand.sum())
        if work > 0:
            payments.append(max(float(job.utility[-1]), floor) / work)
            works.append(work)
    # Half of what `price_range` allows, since there are two sides.
    payment = min(payments, default=best) * min(works, default=1.0) / 2.0
    return price_range(payment, highest, cluster, slots)


def ends_alone(job: SlotJob, workers: MarketCapacity, ps: MarketCapacity) -> bool:
    """Whether some schedule of whole tasks ends before slot T if both sides are empty; exact, not a bound."""
    needed = job.workers_in_each(len(job.utility), on_one_server=False)
    return (
        needed <= job.most_workers
        and _places(job.worker_demand, workers.capacity, needed) >= needed
        and _places(job.ps_demand, ps.capacity, needed) >= tolerant_ceil(needed / job.workers_per_ps)
    )


def _places(demand: IntArray, capacity: IntArray, most: int) -> int:
    """Number of tasks that fit on empty servers, up to ``most`` on each."""
    some = demand > 0
    return int(np.min(capacity[:, some] // demand[some], axis=1, initial=most).sum())


def best_schedule(job: SlotJob, sides: Sides, quanta: int) -> Outcome:
    """Find the schedule of the highest payoff, with the work in equal parts; ties: the earliest end.

    The schedule is trimmed. Its servers are numbered from 0: those for workers first, then those for
    parameter servers.

    Parameters
    ----------
    quanta : number of parts; with E N parts the search is exact
    """
    job = job.apart()
    parts = WorkParts.of(job, quanta)
    if not job.can_end:
        return Infeasible(Obstacle.HORIZON)
    if parts.most * len(job.utility) < parts.number:
        return Infeasible(Obstacle.COARSE_PARTS)
    workers = parts.internal
    ps = tolerant_ceils(workers / job.workers_per_ps)

    def row(slot: int) -> FloatArray:
        at = job.arrival + slot
        sold = _offers(sides.workers, job, WORKER, at).cost(workers)
        return np.append(0.0, sold + _offers(sides.ps, job, PARAMETER_SERVER, at).cost(ps))

    done = spread_work(job.utility, parts.number, row, bound=0.0)
    if done is None:
        return Infeasible(Obstacle.ROOM)
    busy = np.flatnonzero(done)
    chosen = [_tasks(job, sides, int(slot), workers[done[slot] - 1]) for slot in busy]
    return if_worth_it(schedule_of(job, trim(job, chosen)))


def _offers(side: Market, job: SlotJob, role: int, slot: int) -> _Offers:
    """Places on one side; of equal prices those of the lowest server first."""
    demand = job.demand[role]
    most = job.most_workers if role == WORKER else tolerant_ceil(job.most_workers / job.workers_per_ps)
    free = side.cluster.capacity - side.load[slot]
    price = np.zeros(len(free))
    room = np.full(len(free), most)
    for r in np.flatnonzero(demand).tolist():
        price += side.price[slot, :, r] * (demand[r] / side.cluster.quanta_per_unit[r])
        room = np.minimum(room, free[:, r] // demand[r])
    order = np.argsort(price, kind="stable")
    server = np.repeat(order, room[order])[:most]
    return _Offers(server, price[server], price)


def _tasks(job: SlotJob, sides: Sides, slot: int, workers: int) -> SlotTasks:
    """Cheapest servers for this number of workers and their parameter servers in a slot.

    Slots are counted from the job's arrival in the arguments, and from the start of the horizon in the
    result.
    """
    at = job.arrival + slot
    counts = (workers, tolerant_ceil(workers / job.workers_per_ps))
    held = np.zeros((sum(len(side.cluster.capacity) for side in sides), 2), dtype=np.int64)
    price = np.zeros(held.shape)
    first = 0
    for role, side in zip((WORKER, PARAMETER_SERVER), sides, strict=True):
        offers = _offers(side, job, role, at)
        servers = len(side.cluster.capacity)
        used = np.bincount(offers.server[: counts[role]], minlength=servers)
        held[first : first + servers, role] = used
        price[first : first + servers, role] = offers.of_server
        first += servers
    some = np.flatnonzero(held.any(axis=1))
    return SlotTasks(at, some, held[some], price[some])
