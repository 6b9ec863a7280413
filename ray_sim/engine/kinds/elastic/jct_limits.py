"""Least times and capacity of elastic jobs, for the certificate of the mean JCT."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes, NoJctLimits
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.partition_pools import most_capacity, partition_names, partition_servers
from ray_sim.engine.world import World
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.solvers.training_limits import pool_of


def training_jct_limits(world: World, jobs: IntArray) -> JctLimits | NoJctLimits:
    """Work over the largest speed on a job's partition, and work times the least need of a sample.

    Both are over all allocations and placements, so restarts, moves of data, slow workers and whatever else
    makes jobs slower leave them valid.
    """
    facts = ElasticFacts.in_world(world)
    arrays, work = world.arrays, facts.profile.work[jobs] * US_PER_S
    partition = arrays.job_part[jobs]
    shortest, area = np.zeros(len(jobs)), np.zeros((len(jobs), len(facts.resources)))
    for p, servers in enumerate(partition_servers(world)):
        mine = np.flatnonzero((partition == p) & (work > 0))
        pool = pool_of(arrays.capacity[servers], arrays.speed[servers])
        limits = facts.rule.limits(facts.profile, jobs[mine], pool, facts.values)
        if limits is None:
            return NoJctLimits(f"truth={facts.rule.truth} states no limits of the speed of elastic jobs")
        shortest[mine] = work[mine] / limits.samples_per_s
        area[mine] = limits.need * work[mine, None]
    return JctLimits(
        LeastTimes(world.table.submit_us[jobs], shortest, shortest, area),
        most_capacity(world),
        partition,
        resources=tuple(facts.resources),
        partitions=partition_names(world),
        cells=facts.bound_cells,
    )
