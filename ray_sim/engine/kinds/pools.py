"""Servers of each partition as pools: names, the most that they offer, and what jobs on them can earn.

Certificates of rigid, elastic and chunked jobs call it when a run is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ray_sim.certificates.utility import LONGEST_US, HopefulJobs, UtilityLimits
from ray_sim.engine.world import World
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.units import BoolArray, FloatArray, IntArray

_SURELY = 1.0 - 1e-9
"""Factor on least times: a run books progress in floating point."""


def partition_servers(world: World) -> list[IntArray]:
    """Servers of each partition."""
    arrays = world.arrays
    return np.split(arrays.part_servers, arrays.part_ptr[1:-1])


def partition_names(world: World) -> tuple[str, ...] | None:
    """Names of the partitions; None where all servers are one pool."""
    if world.partition == "none":
        return None
    return tuple(str(world.cluster.vc[int(servers[0])]) for servers in partition_servers(world))


def most_capacity(world: World) -> FloatArray:
    """(P, R) quanta: the most that the servers of each partition offer at any time."""
    capacity, outages = world.arrays.capacity, world.outages
    sign = np.where(outages.up, 1, -1)[:, None]
    time = np.concatenate([[0], outages.time])
    lasts = np.append(np.diff(time) > 0, True)  # after the last change of an instant
    most = []
    for servers in partition_servers(world):
        changes = np.where(np.isin(outages.server, servers)[:, None], sign * capacity[outages.server], 0)
        first = world.first_capacity[servers].sum(axis=0)
        most.append(np.cumsum(np.vstack([first, changes]), axis=0)[lasts].max(axis=0))
    return np.array(most, dtype=np.float64)


class LeastUse(NamedTuple):
    """Least time and resources of n jobs on one partition."""

    shortest_us: FloatArray
    """(n,); infinite for a job that can never complete there."""
    resource_time: FloatArray
    """(n, R) quanta x microseconds; any finite number for a job that can never complete there."""


LeastUseOn = Callable[[IntArray, IntArray], LeastUse | None]
"""Of these jobs on these servers; None where no limits are known."""


def pooled_limits(world: World, counted: BoolArray | None, least_use: LeastUseOn) -> UtilityLimits | None:
    """Limits of the jobs that could complete by the horizon alone; None where there are none.

    Parameters
    ----------
    counted : (J,) the jobs whose utility is bounded; all without it. The others could only take resources.
    """
    profile, arrays = world.table.utility, world.arrays
    if profile is None:
        return None
    fits = world.beyond_capacity[arrays.job_class] == FITS
    fits &= arrays.job_part >= 0
    wanted = np.flatnonzero(fits if counted is None else fits & counted)
    pools = []
    for p, (servers, capacity) in enumerate(zip(partition_servers(world), most_capacity(world), strict=True)):
        jobs = wanted[arrays.job_part[wanted] == p]
        use = least_use(jobs, servers)
        if use is None:
            return None
        pools.append((_hopeful_jobs(world, jobs, use), capacity))
    return UtilityLimits(
        jobs=len(world.table) if counted is None else int(counted.sum()),
        pools=pools,
        profile=profile,
        slot_us=world.slot_us,
        horizon_us=world.horizon_us if world.bounded else None,
    )


def _hopeful_jobs(world: World, jobs: IntArray, use: LeastUse) -> HopefulJobs:
    able = np.isfinite(use.shortest_us)
    jobs, resource_time = jobs[able], use.resource_time[able] * _SURELY
    shortest = np.minimum(use.shortest_us[able] * _SURELY, LONGEST_US)
    submit = world.table.submit_us[jobs]
    soon = submit + shortest <= world.horizon_us
    return HopefulJobs(jobs[soon], submit[soon], shortest[soon], resource_time[soon])
