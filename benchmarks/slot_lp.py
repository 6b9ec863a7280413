"""The slot problem of PD-ORS in fractions as a plain linear programme: what the fast way is held against."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from ray_sim.kernels.slot_tasks import Room


def cold_slot_lp(room: Room, workers: float) -> float:
    """Least cost of so many workers and their parameter servers on all servers, inf where they do not fit.

    2 S variables; rows: every resource of every server, workers at least and at most, and
    gamma times the parameter servers at least the workers. HiGHS, from nothing.
    """
    if workers > room.most_workers:
        return np.inf
    servers, resources = room.free.shape
    rows = servers * resources
    matrix = np.zeros((rows + 3, 2 * servers))
    limit = np.zeros(rows + 3)
    for role in range(2):
        for server in range(servers):
            at = slice(server * resources, (server + 1) * resources)
            matrix[at, role * servers + server] = room.demand[role]
    limit[:rows] = room.free.ravel()
    matrix[rows, :servers], limit[rows] = 1.0, room.most_workers
    matrix[rows + 1, :servers], limit[rows + 1] = -1.0, -workers
    matrix[rows + 2, :servers], matrix[rows + 2, servers:] = 1.0, -room.workers_per_ps
    result = linprog(room.offer.price.T.ravel(), A_ub=matrix, b_ub=limit, method="highs")
    return np.inf if result.fun is None else float(result.fun)
