"""Least times and use of elastic jobs, for the certificates of the mean JCT and of utility."""

from __future__ import annotations

from functools import partial

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes, NoJctLimits
from ray_sim.certificates.utility import certify_utility, with_optimum
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.slot_jobs import world_optimum
from ray_sim.engine.kinds.pooled_utility import LeastUse, pooled_limits
from ray_sim.engine.partition_pools import most_capacity, partition_names, partition_servers
from ray_sim.engine.world import World
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.solvers.training_limits import pool_of
from ray_sim.solvers.utility_optimum import SearchLimits


def training_use(world: World, jobs: IntArray, servers: IntArray) -> LeastUse | None:
    """Work over the largest speed, and work times the least need of a sample, of jobs on some servers.

    Both are over all allocations and placements, so restarts, moves of data, slow workers and whatever else
    makes jobs slower leave them valid. None under a rule that states no limits.
    """
    facts = ElasticFacts.in_world(world)
    pool = pool_of(world.arrays.capacity[servers], world.arrays.speed[servers])
    limits = facts.rule.limits(facts.profile, jobs, pool, facts.values)
    if limits is None:
        return None
    speed, work = limits.samples_per_s, facts.profile.work[jobs] * US_PER_S
    shortest = np.divide(work, speed, out=np.full(len(jobs), np.inf), where=speed > 0)
    return LeastUse(shortest, limits.resource_time * work[:, None])


def training_jct_limits(world: World, jobs: IntArray) -> JctLimits | NoJctLimits:
    """Limits of completed jobs, each on the servers of its partition; see `training_use`."""
    facts = ElasticFacts.in_world(world)
    partition = world.arrays.job_part[jobs]
    shortest, area = np.zeros(len(jobs)), np.zeros((len(jobs), len(facts.resources)))
    for p, servers in enumerate(partition_servers(world)):
        # Jobs without work complete wherever they are, also where they could not train.
        mine = np.flatnonzero((partition == p) & (facts.profile.work[jobs] > 0))
        use = training_use(world, jobs[mine], servers)
        if use is None:
            return NoJctLimits(f"truth={facts.rule.truth} states no limits of the speed of elastic jobs")
        shortest[mine], area[mine] = use
    return JctLimits(
        LeastTimes(world.table.submit_us[jobs], shortest, shortest, area),
        most_capacity(world),
        partition,
        resources=tuple(facts.resources),
        partitions=partition_names(world),
        cells=facts.bound_cells,
    )


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
