"""Slots as seen by one job: task prices, room, directions of fractional tasks, and least fractional costs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.planning.parametric_slot_lp import (
    ADD_PS,
    ADD_WORKER,
    UNSOLVED,
    SlotOffers,
    SlotWalks,
    TaskDirections,
    WalkPoint,
    price_paths,
    walk_all,
)
from ray_sim.kernels.planning.slot_plan import bound_costs
from ray_sim.kernels.planning.slot_tasks import Rooms
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.planning.slot_job import SlotJob

Direction = tuple[int, int]
"""Workers, parameter servers; a unit of the direction is this over the sum of both absolute values."""

Pair = tuple[tuple[int, int], tuple[float, float]]
"""Two directions, and the number of units of each."""


def slot_directions(job: SlotJob) -> TaskDirections:
    """Directions along the limits of a server, and the pairs of them that add a worker and its share of a PS.

    A role without demand is limited by the largest number that the job may have. Signs are those of integers:
    a direction along a row uses exactly none of it.
    """
    rows: list[Direction] = [(w, s) for w, s in job.demand.T.tolist() if w > 0 or s > 0]
    rows += [unit for unit, demand in zip(((1, 0), (0, 1)), job.demand, strict=True) if not demand.any()]
    steps: list[Direction] = [(1, 0), (0, 1)]
    for w, s in rows:
        steps += [(s, -w), (-s, w)]
    taken = [[w * step[0] + s * step[1] for w, s in rows] for step in steps]
    lengths = np.array([abs(w) + abs(s) for w, s in steps], dtype=np.float64)
    pairs = _pairs(steps, 1.0 / job.workers_per_ps)
    pair = np.array([directions for directions, _ in pairs], dtype=np.int64)
    return TaskDirections(
        worker=np.array([w for w, _ in rows], dtype=np.float64),
        ps=np.array([s for _, s in rows], dtype=np.float64),
        step=np.array(steps, dtype=np.float64) / lengths[:, None],
        rate=np.array(taken, dtype=np.float64) / lengths[:, None],
        along=np.append([-1, -1], np.repeat(np.arange(len(rows)), 2)),
        barred=np.array([_bits([*of, -w, -s]) for of, (w, s) in zip(taken, steps, strict=True)]),
        pair=pair,
        units=np.array([units for _, units in pairs], dtype=np.float64) * lengths[pair],
    )


def row_rooms(job: SlotJob, free: IntArray) -> FloatArray:
    """(..., S, M) room of each row of `slot_directions` on servers with (..., S, R) free quanta."""
    demanded = job.demand.any(axis=0)
    most = (job.most_workers, job.most_workers / job.workers_per_ps)
    idle = [most[role] for role in range(2) if not job.demand[role].any()]
    quanta = free[..., demanded].astype(np.float64)
    return np.ascontiguousarray(
        np.concatenate([quanta, np.full((*free.shape[:-1], len(idle)), idle)], axis=-1)
    )


def _bits(taken: list[int]) -> int:
    return sum(1 << at for at, amount in enumerate(taken) if amount > 0)


def _pairs(steps: list[Direction], ps_per_worker: float) -> list[Pair]:
    """Pairs of a direction towards workers and one towards PSs, with (1, 1 / gamma) between them."""
    towards_workers = [ADD_WORKER, *range(2, len(steps), 2)]
    towards_ps = [ADD_PS, *range(3, len(steps), 2)]
    found: list[Pair] = []
    for a, b in product(towards_workers, towards_ps):
        (aw, ap), (bw, bp) = steps[a], steps[b]
        if (area := aw * bp - ap * bw) > 0:
            found.append(((a, b), ((bp - ps_per_worker * bw) / area, (ps_per_worker * aw - ap) / area)))
    return found


_STEPS_PER_MOVE = 8
"""Limit of steps per direction and server; a walk that needs more has failed."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Different slots, n of them, solved in fractions for every number of workers of the job."""

    rooms: Rooms
    paths: SlotWalks
    ending: IntArray
    """(n,) end of each path."""

    @property
    def unsolved(self) -> int:
        """Number of slots known only up to the end of their path; above 0 only if a walk fails."""
        return int((self.ending == UNSOLVED).sum())

    def least_cost(self, workers: FloatArray) -> FloatArray:
        """(n, J) least fractional cost of (J,) non-decreasing numbers of workers; inf where too many."""
        cost = np.empty((len(self.ending), len(workers)))
        price_paths(self.paths, workers, cost)
        return cost

    def bounds(self, order: IntArray, workers: float) -> FloatArray:
        """(m,) least fractional cost of these workers in the first 1, 2, .. of m slots; inf where too many.

        Parameters
        ----------
        order : (m,) slot numbers of this object, repeats allowed
        """
        steps = np.diff(self.paths.ptr)[order].sum()
        bound = np.empty(len(order))
        most = float(self.rooms.most_workers)
        bound_costs(self.paths, self.ending, order, workers, most, np.empty(steps), np.empty(steps), bound)
        return bound


def solve_slots(job: SlotJob, free: IntArray, price: FloatArray, quanta_per_unit: IntArray) -> Slots:
    """Solve slots with (n, S, R) free quanta and prices per unit.

    ``free`` is >= 0 and prices are > 0.
    """
    directions = slot_directions(job)
    rooms = slot_rooms(job, free, price, quanta_per_unit)
    n, servers = free.shape[:2]
    limit = 64 + _STEPS_PER_MOVE * servers * len(directions.step)
    point, paths = _new_point(directions, servers), _new_paths(n, 2 * limit)
    ending = np.empty(n, dtype=np.int64)
    walked = 0
    while True:
        most = float(job.most_workers)
        walked = walk_all(directions, rooms.offers, walked, most, limit, point, paths, ending)
        if walked == n:
            return Slots(rooms, paths, ending)
        paths = _longer(paths, limit)


def slot_rooms(job: SlotJob, free: IntArray, price: FloatArray, quanta_per_unit: IntArray) -> Rooms:
    """Slots with the prices of the job's tasks, and servers ordered by them."""
    of_task = np.zeros((*free.shape[:2], 2))
    for role in (WORKER, PARAMETER_SERVER):
        for r, units in enumerate((job.demand[role] / quanta_per_unit).tolist()):
            of_task[..., role] += price[..., r] * units
    offers = SlotOffers(
        room=row_rooms(job, free),
        price=of_task,
        by_worker=np.argsort(of_task[..., WORKER], axis=-1, kind="stable"),
        by_ps=np.argsort(of_task[..., PARAMETER_SERVER], axis=-1, kind="stable"),
    )
    return Rooms(free, job.demand, job.most_workers, job.workers_per_ps, offers)


def _new_point(directions: TaskDirections, servers: int) -> WalkPoint:
    return WalkPoint(
        held=np.empty((servers, 2)),
        limits=np.empty(servers, dtype=np.int64),
        edge=np.empty(servers, dtype=np.int64),
        on_edge=np.empty(servers, dtype=np.int64),
        cheapest=np.empty(len(directions.step), dtype=np.int64),
        cost=np.empty(len(directions.step)),
    )


def _new_paths(slots: int, steps: int) -> SlotWalks:
    return SlotWalks(
        reach=np.empty(steps),
        slope=np.empty(steps),
        server=np.empty((steps, 2), dtype=np.int64),
        change=np.empty((steps, 2, 2)),
        ptr=np.zeros(slots + 1, dtype=np.int64),
    )


def _longer(paths: SlotWalks, limit: int) -> SlotWalks:
    """Copy with twice the room, plus ``limit``."""
    longer = _new_paths(len(paths.ptr) - 1, 2 * len(paths.reach) + limit)
    for part, into in zip(paths[:-1], longer[:-1], strict=True):
        into[: len(part)] = part
    longer.ptr[:] = paths.ptr
    return longer
