"""Least time and resources of elastic jobs on a pool of servers, for certificates."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.pooled_utility import LeastUse
from ray_sim.engine.world import World
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.solvers.training_limits import pool_of


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
