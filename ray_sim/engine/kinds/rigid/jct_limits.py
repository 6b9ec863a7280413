"""Least times and capacity of rigid jobs, for their certificates."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes
from ray_sim.certificates.utility import certify_utility
from ray_sim.engine.kinds.pooled_utility import LeastUse, pooled_limits
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.partition_pools import most_capacity, partition_names, partition_servers
from ray_sim.engine.world import World
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import BoolArray, FloatArray, IntArray


def gang_limits(world: World, jobs: IntArray) -> JctLimits:
    """A gang runs at most at the speed of its partition's fastest server, holding all its tasks."""
    facts, arrays = world.facts, world.arrays
    fastest = np.array([arrays.speed[servers].max() for servers in partition_servers(world)])
    use = _gang_use(world, jobs, fastest[arrays.job_part[jobs]])
    return JctLimits(
        LeastTimes(world.table.submit_us[jobs], use.shortest_us, use.shortest_us, use.resource_time),
        most_capacity(world),
        arrays.job_part[jobs],
        resources=tuple(facts.resources),
        partitions=partition_names(world),
        cells=facts.bound_cells if isinstance(facts, RigidFacts) else None,
    )


def certify_gang_utility(
    world: World, earned: float | None, counted: BoolArray | None
) -> UtilityCertificate | None:
    """Bound what gangs at the speed of the fastest server can earn; None without utilities."""

    def least_use(jobs: IntArray, servers: IntArray) -> LeastUse:
        return _gang_use(world, jobs, world.arrays.speed[servers].max())

    limits = None if earned is None else pooled_limits(world, counted, least_use)
    return None if limits is None or earned is None else certify_utility(limits, earned)


def _gang_use(world: World, jobs: IntArray, fastest: FloatArray | float) -> LeastUse:
    table = world.table
    shortest: FloatArray = table.work_us[jobs] / fastest
    return LeastUse(shortest, table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None])
