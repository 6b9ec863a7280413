"""Availability of servers over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Availability:
    """Changes of the servers of a cluster, in the order of time.

    The changes of a server alternate. A server whose first change removes it is available before that.
    """

    time_us: IntArray
    """(N,) non-decreasing, in the workload's own time."""
    server: IntArray
    """(N,) index of a server."""
    up: BoolArray
    """(N,) whether the server is available from then on."""

    def __len__(self) -> int:
        return len(self.time_us)

    def at_first(self, servers: int) -> BoolArray:
        """(servers,) whether each server is available before all changes."""
        there = np.ones(servers, dtype=np.bool_)
        first_server, first_change = np.unique(self.server, return_index=True)
        there[first_server] = ~self.up[first_change]
        return there
