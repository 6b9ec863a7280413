"""Slots as one job sees them: prices of its tasks, rooms, and the cheapest ways through them in fractions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.planning.parametric_slot_lp import (
    UNSOLVED,
    Offers,
    Paths,
    Point,
    TaskDirections,
    price_paths,
    walk_all,
)
from ray_sim.kernels.planning.slot_plan import bound_costs
from ray_sim.kernels.planning.slot_tasks import Rooms
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.task_directions import row_rooms, slot_moves

_STEPS_PER_MOVE = 8
"""A walk that needs more steps than this for each move on each server has gone astray."""


@dataclass(frozen=True, slots=True)
class Slots:
    """n different slots, solved in fractions for every number of workers up to all that the job may have."""

    rooms: Rooms
    paths: Paths
    ending: IntArray
    """(n,) how each path ends."""

    @property
    def unsolved(self) -> int:
        """How many are known only up to the end of their path; there is no such slot unless a walk fails."""
        return int((self.ending == UNSOLVED).sum())

    def least_cost(self, workers: FloatArray) -> FloatArray:
        """(n, J) least cost in fractions of (J,) workers, which do not fall; inf for more than fit."""
        cost = np.empty((len(self.ending), len(workers)))
        price_paths(self.paths, workers, cost)
        return cost

    def bounds(self, order: IntArray, workers: float) -> FloatArray:
        """(m,) least cost in fractions of so many workers in the first 1, 2, .. of m slots; inf if too many.

        Parameters
        ----------
        order : (m,) numbers of slots here, any as often as one likes
        """
        steps = np.diff(self.paths.ptr)[order].sum()
        bound = np.empty(len(order))
        most = float(self.rooms.most_workers)
        bound_costs(self.paths, self.ending, order, workers, most, np.empty(steps), np.empty(steps), bound)
        return bound


def solve_slots(job: SlotJob, free: IntArray, price: FloatArray, quanta_per_unit: IntArray) -> Slots:
    """Walk through slots with (n, S, R) free quanta and prices per unit.

    Nothing may be free beside what is sold, so ``free`` is >= 0; prices are > 0.
    """
    moves = slot_moves(job)
    rooms = slot_rooms(job, free, price, quanta_per_unit)
    n, servers = free.shape[:2]
    limit = 64 + _STEPS_PER_MOVE * servers * len(moves.step)
    point, paths = _new_point(moves, servers), _new_paths(n, 2 * limit)
    ending = np.empty(n, dtype=np.int64)
    walked = 0
    while True:
        most = float(job.most_workers)
        walked = walk_all(moves, rooms.offers, walked, most, limit, point, paths, ending)
        if walked == n:
            return Slots(rooms, paths, ending)
        paths = _longer(paths, limit)


def slot_rooms(job: SlotJob, free: IntArray, price: FloatArray, quanta_per_unit: IntArray) -> Rooms:
    """Slots with the prices of the job's tasks, and servers in the order of these."""
    of_task = np.zeros((*free.shape[:2], 2))
    for role in (WORKER, PARAMETER_SERVER):
        for r, units in enumerate((job.demand[role] / quanta_per_unit).tolist()):
            of_task[..., role] += price[..., r] * units
    offers = Offers(
        room=row_rooms(job, free),
        price=of_task,
        by_worker=np.argsort(of_task[..., WORKER], axis=-1, kind="stable"),
        by_ps=np.argsort(of_task[..., PARAMETER_SERVER], axis=-1, kind="stable"),
    )
    return Rooms(free, job.demand, job.most_workers, job.workers_per_ps, offers)


def _new_point(moves: TaskDirections, servers: int) -> Point:
    return Point(
        held=np.empty((servers, 2)),
        limits=np.empty(servers, dtype=np.int64),
        edge=np.empty(servers, dtype=np.int64),
        on_edge=np.empty(servers, dtype=np.int64),
        cheapest=np.empty(len(moves.step), dtype=np.int64),
        cost=np.empty(len(moves.step)),
    )


def _new_paths(slots: int, steps: int) -> Paths:
    return Paths(
        reach=np.empty(steps),
        slope=np.empty(steps),
        server=np.empty((steps, 2), dtype=np.int64),
        change=np.empty((steps, 2, 2)),
        ptr=np.zeros(slots + 1, dtype=np.int64),
    )


def _longer(paths: Paths, limit: int) -> Paths:
    """Twice the room, and ``limit`` more."""
    longer = _new_paths(len(paths.ptr) - 1, 2 * len(paths.reach) + limit)
    for part, into in zip(paths[:-1], longer[:-1], strict=True):
        into[: len(part)] = part
    longer.ptr[:] = paths.ptr
    return longer
