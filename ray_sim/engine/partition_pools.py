"""Servers of each partition as pools: names, and the most that they offer at a time."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.world import World
from ray_sim.model.units import FloatArray, IntArray


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
