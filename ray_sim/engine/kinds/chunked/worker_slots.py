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
    ptr: IntArray
    """(S + 1,) workers of server s: ptr[s] .. ptr[s + 1], less `first_worker`."""
    first_worker: int = 0
    """Number of the first of these workers in the cluster."""

    def __len__(self) -> int:
        return len(self.server)

    @classmethod
    def of_cluster(cls, cluster: Cluster) -> WorkerSlots:
        """All workers of a cluster."""
        return cls._of_counts(np.where(cluster.in_cloud, 1, cluster.worker_slots), cluster.in_cloud)

    @classmethod
    def none(cls, servers: int) -> WorkerSlots:
        """No slots, for a world of this many servers without chunked jobs."""
        return cls._of_counts(np.zeros(servers, dtype=np.int64), np.zeros(servers, dtype=np.bool_))

    @classmethod
    def _of_counts(cls, counts: IntArray, in_cloud: BoolArray) -> WorkerSlots:
        server = np.repeat(np.arange(len(counts)), counts)
        return cls(server, in_cloud[server], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def of_servers(self, first: int, last: int) -> WorkerSlots:
        """The slots of servers ``first`` .. ``last`` - 1."""
        begin, end = int(self.ptr[first]), int(self.ptr[last])
        return replace(
            self, server=self.server[begin:end], on_demand=self.on_demand[begin:end], first_worker=begin
        )
