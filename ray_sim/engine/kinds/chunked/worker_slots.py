"""The slots on which workers train chunks, by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.model.units import BoolArray, IntArray

if TYPE_CHECKING:
    from ray_sim.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class WorkerSlots:
    """Workers by number: in server order, on a server in slot order.

    A cloud's server has one number, which stands for a new worker for every chunk.
    """

    server: IntArray
    """(W,)."""
    on_demand: BoolArray
    """(W,) whether it is a cloud's."""
    kind: IntArray
    """(W,) from 0; workers of a kind have equal delays and lengths of every job's chunks."""
    of_kind: IntArray
    """(V,) a worker of each kind, slowest servers first."""
    ptr: IntArray
    """(S + 1,) workers of server s: ptr[s] .. ptr[s + 1], less `first_worker`."""
    first_worker: int = 0
    """Number of the first of these workers in the cluster."""

    def __len__(self) -> int:
        return len(self.server)

    @classmethod
    def of_cluster(cls, cluster: Cluster, server_class: IntArray) -> WorkerSlots:
        """All workers of a cluster, whose servers are of these classes, (S,)."""
        counts = np.where(cluster.in_cloud, 1, cluster.worker_slots)
        server, some = np.repeat(np.arange(len(counts)), counts), np.flatnonzero(counts)
        features = np.stack([cluster.speed, cluster.in_cloud, server_class], axis=1)[some]
        _, first, kind = np.unique(features, axis=0, return_index=True, return_inverse=True)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(server, cluster.in_cloud[server], np.repeat(kind, counts[some]), ptr[some[first]], ptr)

    def of_servers(self, first: int, last: int) -> WorkerSlots:
        """The slots of servers ``first`` .. ``last`` - 1."""
        begin, end = int(self.ptr[first]), int(self.ptr[last])
        return replace(
            self,
            server=self.server[begin:end],
            on_demand=self.on_demand[begin:end],
            kind=self.kind[begin:end],
            first_worker=begin,
        )
