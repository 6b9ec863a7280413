"""One scheduling interval: from what is estimated of the jobs of a partition to what each is to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.optimus_allocation import Claims
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.optimus.allocation import Normalise, costs, marginal_gains
from ray_sim.policies.optimus.placement import place, scarcest_resource


@dataclass(frozen=True, slots=True)
class Choices:
    """How tasks are shared out and placed, see `ray_sim.policies.optimus.parameters`."""

    normalise: Normalise
    quanta: IntArray
    """(R,) in a unit of each resource."""
    skip: bool
    placement: str
    shrink: bool
    keep_places: bool


class Interval(NamedTuple):
    """Jobs in the order of their arrival, (n,) each."""

    claims: Claims
    """Without costs, which depend on the servers."""
    rows: IntArray
    """(m, 4) number of the job, server, role, count that are held now, sorted."""
    held: IntArray
    """(n, 2) workers and parameter servers that are held now."""
    stays: BoolArray
    """Running jobs that are not to be touched."""


def tasks_of(rows: IntArray, jobs: int) -> IntArray:
    """(n, 2) workers and parameter servers in rows of n jobs."""
    tasks = np.zeros((jobs, 2), dtype=np.int64)
    np.add.at(tasks, (rows[:, 0], rows[:, 2]), rows[:, 3])
    return tasks


def part_of(interval: Interval, jobs: IntArray) -> Interval:
    """The same of some jobs, sorted, numbered anew."""
    mine = interval.rows[np.isin(interval.rows[:, 0], jobs)]
    mine[:, 0] = np.searchsorted(jobs, mine[:, 0])
    return Interval(_claims_of(interval.claims, jobs), mine, interval.held[jobs], interval.stays[jobs])


def targets(interval: Interval, servers: IntArray, capacity: IntArray, choices: Choices) -> IntArray:
    """(rows, 4) number of the job, server, role, count that are to be held, in no order.

    Jobs that stay keep what they hold; the rest of the servers is shared out among the others.

    Parameters
    ----------
    servers : (S,) that may be used, sorted
    capacity : (S, R) quanta of these servers
    """
    claims, pool = interval.claims, capacity.sum(axis=0)
    open_ = np.flatnonzero(~interval.stays)
    staying = np.where(interval.stays[:, None], interval.held, 0)
    left = pool - np.einsum("jk,jkr->r", staying, claims.demand)
    mine = _claims_of(claims, open_)
    mine = mine._replace(cost=costs(mine.demand, pool, choices.quanta, choices.normalise))
    tasks = staying
    tasks[open_] = marginal_gains(mine, left, skip=choices.skip)
    kept = interval.stays | (choices.keep_places & (tasks == interval.held).all(axis=1))
    keeping = interval.rows[kept[interval.rows[:, 0]]]
    room, at = capacity.copy(), np.searchsorted(servers, keeping[:, 1])
    np.subtract.at(room, at, keeping[:, 3:] * claims.demand[keeping[:, 0], keeping[:, 2]])
    placed = place(
        np.where(kept[:, None], 0, tasks),
        claims.demand,
        room,
        scarcest_resource(tasks, claims.demand, pool),
        rule=choices.placement,
        shrink=choices.shrink,
    )
    placed[:, 1] = servers[placed[:, 1]]
    return np.concatenate([keeping, placed])


def _claims_of(claims: Claims, jobs: IntArray) -> Claims:
    return Claims._make(column[jobs] for column in claims)
