"""The factor that fractions are multiplied by before they are rounded.

Source: Yu et al., (31) and (32), derived anew from Chernoff's bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ray_sim.kernels.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.slot_tasks import Room
from ray_sim.model.units import FloatArray, IntArray

Favour = Literal["neither", "packing", "covering"]


@dataclass(frozen=True, slots=True)
class Rounding:
    """How points in fractions become whole tasks."""

    favour: Favour = "neither"
    """Whether a rounded point is likelier to fit, to be enough, or keeps its mean."""
    delta: float = 0.5
    """Chance of a failure that is allowed for, in (0, 1]; of no effect if neither is favoured."""
    tries: int = 50
    """>= 1."""

    def gains(self, room: Room, workers: FloatArray) -> FloatArray:
        """(J,) factors for points with so many workers, > 0 each."""
        if self.favour == "packing":
            rows = room.free.size + 1
            return np.full(len(workers), packing_gain(rows, packing_width(room), self.delta))
        if self.favour == "covering":
            return np.array([covering_gain(each, self.delta) for each in workers.tolist()])
        return np.ones(len(workers))


def packing_gain(rows: int, width: float, delta: float) -> float:
    """At most 1: a row is broken with a chance of at most delta / (3 rows), where the factor is 0.5 or more.

    The root of (1 - G)^2 / G = 3 A with A = ln(3 rows / delta) / width.
    """
    a = 1.5 * math.log(3 * rows / delta) / width
    # 1 + a - sqrt(a^2 + 2 a), as the other root is its inverse; this way no digits are lost.
    return 1.0 / (1.0 + a + math.sqrt(a * a + 2 * a))


def covering_gain(workers: float, delta: float) -> float:
    """Above 1: too few workers come with a chance of at most delta / 3.

    The root of (G - 1)^2 / G = 2 B with B = ln(3 / delta) / workers.
    """
    b = math.log(3 / delta) / workers
    return 1.0 + b + math.sqrt(b * b + 2 * b)


def packing_width(room: Room) -> float:
    """Tasks that the narrowest limit holds, of those that hold one: the job's own, or a server's resource."""
    width = float(room.most_workers)
    for role in (WORKER, PARAMETER_SERVER):
        demand = room.demand[role]
        some = demand > 0
        fits: IntArray = np.flatnonzero((room.free >= demand).all(axis=1))
        width = min(width, float((room.free[np.ix_(fits, some)] / demand[some]).min(initial=width)))
    return width
