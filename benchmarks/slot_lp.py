"""Linear relaxation of the slot problem of PD-ORS for HiGHS, the reference of the fast planner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ray_sim.kernels.planning.slot_tasks import Rooms


@dataclass(frozen=True, slots=True)
class SlotLp:
    """Linear programme with 2 S variables: the workers, then the parameter servers, of each server.

    Rows: every resource of every server; workers at least, and at most; gamma times the parameter servers at
    least the workers.
    """

    rooms: Rooms
    slot: int
    matrix: csr_array
    unit: float
    """Least cost of a worker with its parameter servers; scales the costs for HiGHS's absolute tolerances."""

    @classmethod
    def of(cls, rooms: Rooms, slot: int) -> SlotLp:
        """Programme of one slot, for every number of workers."""
        servers = rooms.free.shape[1]
        ones = np.ones((1, servers))
        worker, ps = (np.kron(np.eye(servers), demand[:, None]) for demand in rooms.demand)
        matrix = np.vstack(
            [
                np.hstack([worker, ps]),
                np.hstack([-ones, 0 * ones]),
                np.hstack([ones, 0 * ones]),
                np.hstack([ones, -rooms.workers_per_ps * ones]),
            ]
        )
        bundle = rooms.offers.price[slot] @ np.array([1.0, 1.0 / rooms.workers_per_ps])
        unit = float(bundle[bundle > 0].min()) if bundle.any() else 1.0
        return cls(rooms, slot, csr_array(matrix), unit)

    def cost(self, workers: float) -> float:
        """Least cost of a number of workers by a cold start of HiGHS; inf if they do not fit."""
        limit = np.concatenate([self.rooms.free[self.slot].ravel(), [-workers, self.rooms.most_workers, 0.0]])
        prices = self.rooms.offers.price[self.slot].T.ravel() / self.unit
        result = linprog(
            prices,
            A_ub=self.matrix,  # type: ignore[call-overload]  # its types cover dense matrices only
            b_ub=limit,
            method="highs",
        )
        return np.inf if result.fun is None else float(result.fun) * self.unit
