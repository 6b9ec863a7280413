"""One scheduling interval: from what is estimated of the jobs of a partition to what each is to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.optimus.allocation import Normalise, costs, marginal_gains
from ray_sim.policies.optimus.allocation_kernels import Claims
from ray_sim.policies.optimus.baseline_allocations import drf_tasks, tetris_tasks
from ray_sim.policies.optimus.placement import place, scarcest_resource
from ray_sim.policy_api import WORKER


@dataclass(frozen=True, slots=True)
class Choices:
    """Rules of allocation and placement, see `ray_sim.policies.optimus.parameters`."""

    allocation: str
    normalise: Normalise
    quanta: IntArray
    """(R,) in a unit of each resource."""
    placement: str
    shrink: bool
    keep_places: bool


class Interval(NamedTuple):
    """Jobs in the order of their arrival, (n,) each."""

    claims: Claims
    """Without costs, which depend on the servers."""
    asked: IntArray
    """Workers that are asked for."""
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
    claims = _claims_of(interval.claims, jobs)
    return Interval(claims, interval.asked[jobs], mine, interval.held[jobs], interval.stays[jobs])


class Target(NamedTuple):
    """Wanted placements of jobs."""

    rows: IntArray
    """(m, 4) number of the job, server, role, count, in no order."""
    shrunk: int
    """Jobs that get fewer tasks than their share, for want of room."""
    without_room: int
    """Jobs that get none of their share."""


def targets(interval: Interval, servers: IntArray, capacity: IntArray, choices: Choices) -> Target:
    """Allocate and place the jobs on these servers.

    Jobs that stay keep what they hold; the rest of the servers is shared out among the others.

    Parameters
    ----------
    servers : (S,) that may be used, sorted
    capacity : (S, R) quanta of these servers
    """
    claims, pool = interval.claims, capacity.sum(axis=0)
    rows = interval.rows.copy()
    # Tasks that demand nothing are still on a server that is gone.
    astray = rows[~np.isin(rows[:, 1], servers), 0]
    rows[:, 1] = np.searchsorted(servers, rows[:, 1])
    stays, same = interval.stays.copy(), np.ones(len(interval.stays), dtype=np.bool_)
    stays[astray] = same[astray] = False
    others = np.flatnonzero(~stays)
    staying = rows[stays[rows[:, 0]]]
    room = capacity.copy()
    np.subtract.at(room, staying[:, 1], staying[:, 3:] * claims.demand[staying[:, 0], staying[:, 2]])
    tasks = np.zeros_like(interval.held)
    if len(others):
        mine = _claims_of(claims, others)
        tasks[others] = _allocated(mine, interval.asked[others], capacity, room, choices)
    same &= choices.keep_places & (tasks == interval.held).all(axis=1)
    home = rows[same[rows[:, 0]]]
    resource = scarcest_resource(tasks, claims.demand, pool)
    placed = place(tasks, claims.demand, home, room, resource, rule=choices.placement, shrink=choices.shrink)
    missing = (tasks_of(placed, len(tasks)) < tasks).any(axis=1)
    without = (tasks[:, WORKER] > 0) & ~np.isin(np.arange(len(tasks)), placed[:, 0])
    found = np.concatenate([staying, placed])
    found[:, 1] = servers[found[:, 1]]
    return Target(found, int((missing & ~without).sum()), int(without.sum()))


def _allocated(
    claims: Claims, asked: IntArray, capacity: IntArray, room: IntArray, choices: Choices
) -> IntArray:
    """(n, 2) workers and parameter servers for jobs that share the ``room`` on servers of this capacity."""
    pool, left = capacity.sum(axis=0), room.sum(axis=0)
    if choices.allocation == "drf":
        return drf_tasks(claims, pool, left)
    if choices.allocation == "tetris":
        return tetris_tasks(claims, asked, capacity, room)
    priced = claims._replace(cost=costs(claims.demand, pool, choices.quanta, choices.normalise))
    return marginal_gains(priced, left)


def _claims_of(claims: Claims, jobs: IntArray) -> Claims:
    return Claims._make(column[jobs] for column in claims)
