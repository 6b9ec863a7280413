"""Least times and capacity of rigid jobs, for the certificate of the mean JCT."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes
from ray_sim.engine.world import World
from ray_sim.model.units import IntArray


def gang_limits(world: World, jobs: IntArray) -> JctLimits:
    """A gang runs at most at the speed of its partition's fastest server, holding all its tasks."""
    arrays, table = world.arrays, world.table
    pools = np.split(arrays.part_servers, arrays.part_ptr[1:-1])
    fastest = np.array([arrays.speed[servers].max() for servers in pools])
    capacity = np.array([arrays.capacity[servers].sum(axis=0) for servers in pools], dtype=np.float64)
    partition = arrays.job_part[jobs]
    shortest = table.work_us[jobs] / fastest[partition]
    area = table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None]
    return JctLimits(LeastTimes(table.submit_us[jobs], shortest, shortest, area), capacity, partition)
