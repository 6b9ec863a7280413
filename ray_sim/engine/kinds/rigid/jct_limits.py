"""Least times and capacity of rigid jobs, for the certificate of the mean JCT."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.partition_pools import most_capacity, partition_names, partition_servers
from ray_sim.engine.world import World
from ray_sim.model.units import FloatArray, IntArray


def gang_limits(world: World, jobs: IntArray) -> JctLimits:
    """A gang runs at most at the speed of its partition's fastest server, holding all its tasks."""
    shortest, area = least_of_gangs(world, jobs)
    facts = world.facts
    return JctLimits(
        LeastTimes(world.table.submit_us[jobs], shortest, shortest, area),
        most_capacity(world),
        world.arrays.job_part[jobs],
        resources=tuple(facts.resources),
        partitions=partition_names(world),
        cells=facts.bound_cells if isinstance(facts, RigidFacts) else None,
    )


def least_of_gangs(world: World, jobs: IntArray) -> tuple[FloatArray, FloatArray]:
    """(n,) least microseconds, and (n, R) least quanta x microseconds, of jobs that have a partition."""
    arrays, table = world.arrays, world.table
    fastest = np.array([arrays.speed[servers].max() for servers in partition_servers(world)])
    shortest: FloatArray = table.work_us[jobs] / fastest[arrays.job_part[jobs]]
    return shortest, table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None]
