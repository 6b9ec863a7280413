"""Eligibility of servers for chunked jobs: v and o of Wang et al. (A_online), JSAC 2022, by memory.

A worker may train a job's chunks if it has the memory that a worker of the job needs, and a parameter server
may serve the job alike. Only where memories stand in order counts, so both sides are kept as levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.core.arrays import WorldArrays
from ray_sim.model.cluster import UNLIMITED_MIB, Cluster
from ray_sim.model.job import ChunkProfile
from ray_sim.model.units import BoolArray, FloatArray, IntArray, demand_quanta


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Levels of memory that servers offer and jobs need; more serves for less."""

    workers_offer: IntArray
    """(S,) by each worker of a server."""
    ps_offer: IntArray
    """(S,) by each parameter server."""
    workers_need: IntArray
    """(J,)."""
    ps_need: IntArray
    """(J,)."""

    @classmethod
    def by_memory(cls, cluster: Cluster, profile: ChunkProfile) -> Eligibility:
        """Derive levels from the memories of a cluster and the demands of jobs."""
        workers = _levels(cluster.worker_memory, profile.worker_memory_gib, len(cluster))
        ps = _levels(cluster.ps_memory, profile.ps_memory_gib, len(cluster))
        return cls(workers[0], ps[0], workers[1], ps[1])

    def may_train(self, jobs: IntArray, servers: IntArray) -> BoolArray:
        """Whether workers of these servers may train chunks of these jobs; shapes that broadcast."""
        may: BoolArray = self.workers_offer[servers] >= self.workers_need[jobs]
        return may

    def may_serve(self, jobs: IntArray, servers: IntArray) -> BoolArray:
        """Whether parameter servers of these servers may serve these jobs; shapes that broadcast."""
        may: BoolArray = self.ps_offer[servers] >= self.ps_need[jobs]
        return may


def _levels(memory_mib: IntArray | None, need_gib: FloatArray, servers: int) -> tuple[IntArray, IntArray]:
    """Levels offered (S,) and needed (J,): how many of the different memories are smaller."""
    if memory_mib is None:
        memory_mib = np.full(servers, UNLIMITED_MIB)
    different, offer = np.unique(memory_mib, return_inverse=True)
    need = np.searchsorted(different, demand_quanta(need_gib, "memory_gib"))
    return offer.astype(np.int64), need.astype(np.int64)


def best_offer(arrays: WorldArrays, servers: BoolArray, offer: IntArray) -> IntArray:
    """(P + 1,) best of what some servers (S,) offer, by partition; -1 without any, and in the last place."""
    best = np.full(len(arrays.part_class_ptr), -1)
    np.maximum.at(best, arrays.server_part[servers], offer[servers])
    return best
