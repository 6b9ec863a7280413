"""Factor on fractions before they are rounded.

Source: Yu et al., (31) and (32), derived again from Chernoff's bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.planning.slot_tasks import Rooms
from ray_sim.model.units import FloatArray

Favour = Literal["neither", "packing", "covering"]


@dataclass(frozen=True, slots=True)
class TaskRounding:
    """Options for rounding fractional solutions to whole tasks."""

    favour: Favour = "neither"
    """Goal of the factor: rounded points fit more often, suffice more often, or keep their mean."""
    delta: float = 0.5
    """Allowed probability of failure, in (0, 1]; unused if neither is favoured."""
    tries: int = 50
    """Number of roundings per solution, >= 1."""

    def gains(self, rooms: Rooms, workers: FloatArray) -> FloatArray:
        """(n, J) factors in n slots for points with (J,) workers, each > 0."""
        if self.favour == "packing":
            rows = rooms.free[0].size + 1
            of_slot = [packing_gain(rows, width, self.delta) for width in packing_widths(rooms).tolist()]
            return np.repeat(np.array(of_slot)[:, None], len(workers), axis=1)
        of_point = np.ones(len(workers))
        if self.favour == "covering":
            of_point = np.array([covering_gain(each, self.delta) for each in workers.tolist()])
        return np.tile(of_point, (len(rooms.free), 1))


def packing_gain(rows: int, width: float, delta: float) -> float:
    """Factor <= 1; from 0.5 on, a row is violated with probability at most delta / (3 rows).

    The root of (1 - G)^2 / G = 3 A with A = ln(3 rows / delta) / width.
    """
    a = 1.5 * math.log(3 * rows / delta) / width
    # 1 + a - sqrt(a^2 + 2 a), computed as the inverse of the other root, without cancellation.
    return 1.0 / (1.0 + a + math.sqrt(a * a + 2 * a))


def covering_gain(workers: float, delta: float) -> float:
    """Factor > 1; workers are too few with probability at most delta / 3.

    The root of (G - 1)^2 / G = 2 B with B = ln(3 / delta) / workers.
    """
    b = math.log(3 / delta) / workers
    return 1.0 + b + math.sqrt(b * b + 2 * b)


def packing_widths(rooms: Rooms) -> FloatArray:
    """(n,) tasks that the tightest limit of a slot holds, over limits that hold at least one.

    The limits are the job's own, and each resource of each server.
    """
    width = np.full(len(rooms.free), float(rooms.most_workers))
    for role in (WORKER, PARAMETER_SERVER):
        demand = rooms.demand[role]
        fits = (rooms.free >= demand).all(axis=-1)
        for r in np.flatnonzero(demand).tolist():
            tasks = np.where(fits, rooms.free[..., r] / demand[r], np.inf)
            width = np.minimum(width, tasks.min(axis=-1))
    return width
