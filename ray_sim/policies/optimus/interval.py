"""One scheduling interval: allocate and place the jobs of a partition by their estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.optimus.allocation import (
    Claims,
    Normalise,
    costs,
    drf_tasks,
    marginal_gains,
    steps_per_s,
    tetris_tasks,
)
from ray_sim.policies.optimus.placement import dominant_shares, place, scarcest_resource
from ray_sim.policies.shared.typed_servers import TypeResources
from ray_sim.policy_api import WORKER, PlacementTable

StayBy = Literal["same", "length", "size"]


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of allocation and placement, see `ray_sim.policies.optimus.parameters`."""

    quanta: IntArray
    """(R,) quanta per unit of each resource."""
    gpu: int
    """Number of the resource that GPU types confine."""
    allocation: str
    normalise: Normalise
    placement: str
    shrink: bool
    keep_places: bool
    by_demand: bool
    """Whether jobs are placed by dominant share, else by number of tasks."""


class IntervalJobs(NamedTuple):
    """Jobs of one partition in the order of arrival, (n,) each."""

    claims: Claims
    """Estimates and demands; costs are filled in later, since they depend on the servers."""
    asked: IntArray
    """Workers that the jobs ask for."""
    placements: PlacementTable
    """Current placements, by job number, sorted."""
    held: IntArray
    """(n, 2) workers and parameter servers of current placements."""
    stays: BoolArray
    """Running jobs whose placements must not change."""


def tasks_of(placements: PlacementTable, jobs: int) -> IntArray:
    """(n, 2) workers and parameter servers of n jobs."""
    tasks = np.zeros((jobs, 2), dtype=np.int64)
    np.add.at(tasks, (placements.job, placements.role), placements.count)
    return tasks


def part_of(interval: IntervalJobs, jobs: IntArray) -> IntervalJobs:
    """Select some jobs, sorted, and renumber them."""
    mine = interval.placements.where(np.isin(interval.placements.job, jobs))
    mine = replace(mine, job=np.searchsorted(jobs, mine.job))
    claims = _claims_of(interval.claims, jobs)
    return IntervalJobs(claims, interval.asked[jobs], mine, interval.held[jobs], interval.stays[jobs])


def stay_factors(claims: Claims, held: IntArray, by: StayBy) -> FloatArray:
    """(n,) factors of the least stay: mean of running jobs over the job's own length or size.

    Parameters
    ----------
    held : (n, 2) workers and parameter servers of current placements
    """
    running = held[:, WORKER] > 0
    if by == "same" or not running.any():
        return np.ones(len(held))
    own = held.sum(axis=1).astype(np.float64)
    if by == "length":
        steps_per_s(claims.time, held, own)
        own = np.divide(claims.steps, own, out=np.zeros(len(own)), where=running)
    factors: FloatArray = np.divide(
        own[running].mean(), own, out=np.ones(len(own)), where=running & (own > 0)
    )
    return factors


class Target(NamedTuple):
    """Target placements of jobs."""

    placements: PlacementTable
    """By job number, in any order."""
    shrunk: int
    """Number of jobs that get fewer tasks than allocated, for lack of room."""
    without_room: int
    """Number of jobs that get no tasks although some were allocated."""
    tasks: int
    """Number of tasks allocated."""
    steps: int
    """Operations of the placement, see `FreeServers`, and a gain for each job and each task."""


def target_of(
    interval: IntervalJobs, servers: IntArray, capacity: IntArray, choices: Choices, types: TypeResources
) -> Target:
    """Allocate and place the jobs on these servers.

    Jobs that stay keep their placements; the other jobs share the rest of the servers.

    Parameters
    ----------
    servers : (S,) available servers, sorted
    capacity : (S, R) quanta of these servers
    types : of the roles of the jobs, on these servers
    """
    claims, pool = interval.claims, capacity.sum(axis=0)
    placements = interval.placements
    placements = replace(placements, server=np.searchsorted(servers, placements.server))
    stays = interval.stays
    others = np.flatnonzero(~stays)
    staying = placements.where(stays[placements.job])
    room = capacity.copy()
    np.subtract.at(room, staying.server, staying.count[:, None] * claims.demand[staying.job, staying.role])
    tasks = np.zeros_like(interval.held)
    if len(others):
        mine = _claims_of(claims, others)
        in_types = types._replace(needed=types.needed[others])
        tasks[others] = _allocated(mine, interval.asked[others], capacity, room, choices, in_types)
    same = choices.keep_places & (tasks == interval.held).all(axis=1)
    home = placements.where(same[placements.job])
    placed, steps = place(
        tasks,
        np.concatenate([claims.demand, types.needed], axis=2),
        home,
        np.hstack([room, types.offered]),
        scarcest_resource(tasks, claims.demand, pool),
        rule=choices.placement,
        size=dominant_shares(tasks, claims.demand, pool) if choices.by_demand else tasks.sum(axis=1),
        shrink=choices.shrink,
        idle=len(staying.job) == 0,
    )
    missing = (tasks_of(placed, len(tasks)) < tasks).any(axis=1)
    without = (tasks[:, WORKER] > 0) & ~np.isin(np.arange(len(tasks)), placed.job)
    found = PlacementTable.joined([staying, placed])
    found = replace(found, server=servers[found.server])
    n = int(tasks.sum())
    return Target(found, int((missing & ~without).sum()), int(without.sum()), n, steps + n + len(tasks))


def _allocated(
    claims: Claims,
    asked: IntArray,
    capacity: IntArray,
    room: IntArray,
    choices: Choices,
    types: TypeResources,
) -> IntArray:
    """(n, 2) workers and parameter servers of jobs that share ``room`` on servers of this capacity.

    By marginal gains the jobs of a pool of GPU types get no more GPUs than its servers have free.
    """
    pool, left = capacity.sum(axis=0), room.sum(axis=0)
    if choices.allocation == "drf":
        return drf_tasks(claims, pool, left)
    if choices.allocation == "tetris":
        return tetris_tasks(claims, asked, capacity, room)
    priced = claims._replace(cost=costs(claims.demand, pool, choices.quanta, choices.normalise))
    gpus = types.needed * claims.demand[:, :, choices.gpu, None]
    priced = priced._replace(demand=np.concatenate([claims.demand, gpus], axis=2))
    return marginal_gains(priced, np.append(left, room[:, choices.gpu] @ (types.offered > 0)))


def _claims_of(claims: Claims, jobs: IntArray) -> Claims:
    return Claims._make(column[jobs] for column in claims)
