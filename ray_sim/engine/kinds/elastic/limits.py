"""Limits of elastic jobs for certificates: least times and use, and the exact optimum in whole slots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ray_sim.certificates.jct import JctLimits, NoJctLimits
from ray_sim.certificates.utility import certify_utility, with_optimum
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.pools import LeastUse, families_by_pool, family_limits, pooled_limits
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, problems_text
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.model.utility import arrival_slot
from ray_sim.solvers.planning.slot_job import SlotJob, slot_job
from ray_sim.solvers.training_limits import pool_of
from ray_sim.solvers.utility_optimum import Optimum, SearchLimits, check_size, utility_optimum


def training_use(world: World, jobs: IntArray, may: BoolArray) -> LeastUse | None:
    """Work over the largest speed, and work times the least need of a sample, of jobs on some servers.

    Where a resource may not be taken, (R, S) ``may``, a server counts as without it.

    Both are over all allocations and placements, so restarts, moves of data, slow workers and whatever else
    makes jobs slower leave them valid. None under a rule that states no limits.
    """
    facts = ElasticFacts.in_world(world)
    servers = np.flatnonzero(may.any(axis=0))
    pool = pool_of(np.where(may.T, world.arrays.capacity, 0)[servers], world.arrays.speed[servers])
    limits = facts.rule.limits(facts.profile, jobs, pool, facts.values)
    if limits is None:
        return None
    speed, work = limits.samples_per_s, facts.profile.work[jobs] * US_PER_S
    shortest = np.divide(work, speed, out=np.full(len(jobs), np.inf), where=speed > 0)
    return LeastUse(shortest, limits.resource_time * work[:, None])


def training_jct_limits(world: World, jobs: IntArray) -> JctLimits | NoJctLimits:
    """Limits of completed jobs, each on the servers of its pools; see `training_use`."""
    facts = ElasticFacts.in_world(world)
    limits = family_limits(world, jobs, partial(_completed_use, world), facts.bound_cells)
    if limits is None:
        return NoJctLimits(f"truth={facts.rule.truth} states no limits of the speed of elastic jobs")
    return limits


def _completed_use(world: World, jobs: IntArray, may: BoolArray) -> LeastUse | None:
    """`training_use`; jobs without work complete wherever they are, also where they could not train."""
    some = ElasticFacts.in_world(world).profile.work[jobs] > 0
    found = LeastUse(np.zeros(len(jobs)), np.zeros((len(jobs), len(may))))
    use = training_use(world, jobs[some], may)
    if use is None:
        return None
    found.shortest_us[some], found.resource_time[some] = use
    return found


def certify_world_utility(
    world: World, earned: float | None, counted: BoolArray | None = None
) -> UtilityCertificate | None:
    """Bound what all jobs together can earn; None unless they are elastic and have utilities.

    Where the world asks for it, the exact optimum in whole slots is found beside the bounds.

    Parameters
    ----------
    earned : by the jobs that are counted
    counted : (J,) the jobs whose utility it is; all without it. The others could only take resources.
    """
    facts = world.facts
    if not isinstance(facts, ElasticFacts) or earned is None:
        return None
    limits = pooled_limits(world, counted, partial(training_use, world))
    if limits is None:
        return None
    certificate = certify_utility(limits, earned)
    if facts.optimum_nodes is None:
        return certificate
    search = SearchLimits(nodes=facts.optimum_nodes)
    return with_optimum(certificate, world_optimum(world, search, counted), earned)


def check_optimum(world: World) -> None:
    """Complain before a run of which the world wants the optimum, if it has none or is too large.

    Raises
    ------
    InvalidScenarioError : naming the parameter that asks for the optimum, and what is in its way
    """
    if ElasticFacts.in_world(world).optimum_nodes is None:
        return
    try:
        check_size(slot_jobs(world), len(world.cluster))
    except InvalidInputError as problem:
        raise InvalidScenarioError(f"{problem}\n  or leave out optimum_nodes, which asks for it") from None


def world_optimum(world: World, limits: SearchLimits, counted: BoolArray | None = None) -> Optimum:
    """The most that schedules in whole slots of a world can earn.

    Parameters
    ----------
    counted : (J,) jobs whose utility it is; all without it. The others could only take resources.

    Raises
    ------
    InvalidInputError : a world that has no such optimum, or a too large one
    RunFailedError : the solver failed
    """
    jobs = [job for job in slot_jobs(world) if counted is None or counted[job.number]]
    return utility_optimum(jobs, world.arrays.capacity, limits, _offered(world, jobs))


def _offered(world: World, jobs: Sequence[SlotJob]) -> IntArray:
    """(n, S, R) quanta of empty servers that each job may take: no GPUs of types that it does not accept."""
    capacity = world.arrays.capacity
    offered = np.empty((len(jobs), *capacity.shape), dtype=np.int64)
    for families in families_by_pool(world, np.array([job.number for job in jobs], dtype=np.int64)):
        for family in families:
            offered[family.jobs] = np.where(family.may.T, capacity, 0)
    return offered


def whole_slots(world: World) -> int:
    """T, the slots that end by the horizon; both must be there."""
    assert world.slot_us is not None
    return world.horizon_us // world.slot_us


def slot_jobs(world: World) -> list[SlotJob]:
    """The jobs of a world that are there before its last slot, as schedules in whole slots see them.

    Raises
    ------
    InvalidInputError : something in the world that such schedules do not know, or a job without work
    """
    table, facts, slot_us = world.table, world.facts, world.slot_us
    if world.injectors or world.endings is not None:
        raise InvalidInputError("exact optimum: it knows no jobs that fail or are killed; leave faults out")
    if not isinstance(facts, ElasticFacts) or not facts.rule.in_whole_slots:
        raise InvalidScenarioError("exact optimum: it knows how jobs train under truth=pd_ors only")
    if table.utility is None:
        gaps = list(table.gaps.get("utility", ("it has no utility columns",)))
        raise InvalidInputError(
            problems_text("exact optimum: the workload does not say what its jobs are worth", gaps)
        )
    if slot_us is None or not world.bounded:
        raise InvalidScenarioError(
            "exact optimum: give slots and an end, e.g. slot_s=3600 and horizon_s=36000"
        )
    _refuse_disturbances(world, facts)
    idle = np.flatnonzero(facts.profile.work <= 0)
    if len(idle):
        raise InvalidInputError(
            f"exact optimum: job {table.name(int(idle[0]))} has no samples to train ({len(idle)} such jobs)"
        )
    slots, arrival = whole_slots(world), arrival_slot(table.submit_us, slot_us)
    return [
        slot_job(job, int(arrival[job]), slots, slot_us / US_PER_S, facts.profile, table.utility)
        for job in np.flatnonzero(arrival < slots).tolist()
    ]


def _refuse_disturbances(world: World, facts: ElasticFacts) -> None:
    """All servers alike fast, always there, for everybody; nothing pauses or slows a job."""
    cluster = world.cluster
    slow = cluster.speed != 1.0
    if slow.any():
        server = cluster.server_names[int(slow.argmax())]
        raise InvalidInputError(f"exact optimum: all servers must be of speed 1; {server} is not")
    unknown = {
        "partition": world.partition != "none",
        "availability": len(world.outages.time) > 0 or not world.there.all(),
        "restart_cost_s": world.restart_us > 0,
        "data_move_s": facts.data_move_us > 0,
        "straggler_probability": facts.stragglers is not None,
    }
    for name, there in unknown.items():
        if there:
            raise InvalidScenarioError(f"exact optimum: {name} plays no part in it; set up a world without")
