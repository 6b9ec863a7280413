"""GPU types in the arithmetic of policies: as made-up resources that count in no score.

A server has plenty of the resource of each pool that it belongs to, and none of others'; a task needs one
quantum of the resource of its own pool, unless that is the whole partition. As a resource that a server lacks
by its capacity has no share in loads, alignments and dominant shares, these follow the real ones alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policy_api import PolicyContext

PLENTY = 2**61


class TypeResources(NamedTuple):
    """T made-up resources of the servers of one partition; T is 0 without GPU types."""

    needed: IntArray
    """(n, roles, T) or (n, T) quanta that a task, or a bundle, of each job needs."""
    offered: IntArray
    """(S, T) quanta of each server."""


def bundle_pool(world: PolicyContext, jobs: IntArray) -> IntArray:
    """(n,) row of `PolicyContext.pools` of tasks of all roles together: the smallest of their pools."""
    of_role, size = world.pool_of(jobs), world.pools.sum(axis=1)
    smallest: IntArray = np.take_along_axis(of_role, size[of_role].argmin(axis=1)[:, None], axis=1)[:, 0]
    return smallest


def type_resources(world: PolicyContext, pool: IntArray, servers: IntArray) -> TypeResources:
    """Return the resources of servers of one partition.

    Parameters
    ----------
    pool : (n, roles) or (n,) rows of `PolicyContext.pools`, of jobs of this partition
    servers : (S,)
    """
    partitions = int(world.server_partition.max()) + 1
    typed = np.unique(pool[pool >= partitions])
    return TypeResources(
        needed=(pool[..., None] == typed).astype(np.int64),
        offered=world.pools[typed][:, servers].T.astype(np.int64) * PLENTY,
    )
