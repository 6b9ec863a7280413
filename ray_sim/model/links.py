"""Bandwidth of the servers' network interfaces over time."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class LinkChanges:
    """Changes of bandwidth, in the order of time; before its first one a server has its nominal bandwidth."""

    time_us: IntArray
    """(N,) non-decreasing, in the workload's own time."""
    server: IntArray
    """(N,) index of a server."""
    bandwidth: FloatArray
    """(N,) share of the nominal bandwidth from then on, above 0, at most 1."""

    def __len__(self) -> int:
        return len(self.time_us)
