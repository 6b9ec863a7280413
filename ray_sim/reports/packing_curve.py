"""How full a cluster gets while tasks arrive that never leave: allocation and fragments over arrived load.

The curves of Q. Weng et al., Beware of Fragmentation, USENIX ATC 2023, which `ray-sim packing` shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray

SHARES = {
    "alloc": "GPUs in use, % of all",
    "frag_of_idle": "fragments, % of idle GPUs",
    "frag_of_all": "fragments, % of all GPUs",
}
"""Titles of the fields of a curve."""

_FIELDS = ("load", *SHARES)


@dataclass(frozen=True, slots=True)
class PackingCurve:
    """Percentages by arrived load, (n,) each."""

    load: IntArray
    """0, 1, ...: GPU capacity that tasks have asked for, % of the cluster's."""
    alloc: FloatArray
    """GPU capacity in use, % of the cluster's."""
    frag_of_idle: FloatArray
    """Fragments, % of the GPU capacity that is idle; 0 where none is."""
    frag_of_all: FloatArray
    """Fragments, % of the cluster's GPU capacity."""

    def to_dict(self) -> dict[str, list[float | None]]:
        """Plain lists by name, for JSON; None where no arrival is near."""
        return {name: [None if np.isnan(x) else x for x in getattr(self, name).tolist()] for name in _FIELDS}

    def at(self, loads: Iterable[int]) -> list[tuple[float, ...]]:
        """Load and the three percentages, at those of the loads that arrivals are near."""
        near = [load for load in loads if load < len(self.load) and not np.isnan(self.alloc[load])]
        return [(load, *(round(float(getattr(self, name)[load]), 2) for name in SHARES)) for load in near]


def packing_curve(
    arrived: FloatArray, used: FloatArray, fragments: FloatArray, idle: FloatArray, capacity: float
) -> PackingCurve:
    """Means over the arrivals of each percent of load.

    Percentages of an arrival and of ``alloc`` are rounded to 0.01, as published. A percent without an arrival
    takes the arrivals of the percents before and after it; where these have none either, the values are NaN.

    Parameters
    ----------
    arrived, used, fragments, idle : (n,) GPU capacity after each arrival, placed or not; n >= 1, the first
        does not fall
    capacity : GPU capacity of the cluster, in the same unit, > 0
    """
    at = np.rint(100.0 * arrived / capacity).astype(np.int64)
    alloc = np.round(100.0 * used / capacity, 2)
    of_idle = np.zeros(len(idle))
    np.divide(100.0 * fragments, idle, out=of_idle, where=idle > 0)
    load = np.arange(at[-1] + 1)
    first, last = np.searchsorted(at, load, "left"), np.searchsorted(at, load, "right")
    empty = first == last
    first[empty] = np.searchsorted(at, load[empty] - 1, "left")
    last[empty] = np.searchsorted(at, load[empty] + 1, "right")

    def means(values: FloatArray) -> FloatArray:
        bins = [
            values[begin:end].mean() if end > begin else np.nan
            for begin, end in zip(first, last, strict=True)
        ]
        return np.array(bins)

    return PackingCurve(
        load=load,
        alloc=np.round(means(alloc), 2),
        frag_of_idle=means(np.round(of_idle, 2)),
        frag_of_all=100.0 * means(fragments) / capacity,
    )
