"""One slot as one job sees it: prices of its tasks, rooms, and the cheapest way through it in fractions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.slot_tasks import Room, Spread, Tasks
from ray_sim.kernels.slot_walk import UNSOLVED, Moves, Offer, Path, Point, walk
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.pd_ors.job import SlotJob
from ray_sim.solvers.pd_ors.moves import rooms

_STEPS_PER_EDGE = 8
"""A walk that needs more steps than this for each edge of each server has gone astray."""

_TOLERANCE = 1e-9
"""Relative: workers beyond the last that fit count as fitting up to here, as in the tolerant ceil."""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot's free quanta and prices, before any job looks at them."""

    free: IntArray
    """(S, R) quanta, >= 0."""
    price: FloatArray
    """(S, R) per unit, > 0."""


@dataclass(frozen=True, slots=True)
class SlotProblem:
    """The slot problem of a job, solved in fractions for every number of workers."""

    room: Room
    path: Path
    """Trimmed to its steps."""
    cost: FloatArray
    """(N,) least cost at each ``path.reach``."""
    solved: bool
    """Whether the walk ended; if not, no fractions are known beyond its path."""

    def least_cost(self, workers: FloatArray) -> FloatArray:
        """Value of the linear programme, inf for more workers than fit; shape of ``workers``."""
        most = self.path.reach[-1] if len(self.path.reach) else 0.0
        beyond = workers > most + _TOLERANCE * max(1.0, float(most))
        value = np.interp(workers, np.append(0.0, self.path.reach), np.append(0.0, self.cost))
        return np.where(beyond, np.inf, value)

    def segments(self, most_workers: int) -> tuple[FloatArray, FloatArray]:
        """Slopes, which do not fall, and lengths; one for nothing if the walk did not end: a lower bound."""
        if not self.solved:
            return np.zeros(1), np.full(1, float(most_workers))
        return self.path.slope, np.diff(self.path.reach, prepend=0.0)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory for the problems of one job on S servers; made once, for all slots."""

    point: Point
    path: Path
    spread: Spread
    tasks: Tasks
    best: Tasks

    @classmethod
    def of(cls, moves: Moves, servers: int) -> Workspace:
        """Nothing in it."""
        steps = 64 + _STEPS_PER_EDGE * servers * len(moves.step)
        return cls(
            point=Point(
                held=np.empty((servers, 2)),
                limits=np.empty(servers, dtype=np.int64),
                edge=np.empty(servers, dtype=np.int64),
                on_edge=np.empty(servers, dtype=np.int64),
                cheapest=np.empty(len(moves.step), dtype=np.int64),
                cost=np.empty(len(moves.step)),
            ),
            path=_new_path(steps),
            spread=Spread(np.zeros((servers, 2)), *_listing(servers)),
            tasks=_no_tasks(servers),
            best=_no_tasks(servers),
        )


def solve_slot(job: SlotJob, moves: Moves, room: Room, work: Workspace) -> SlotProblem:
    """Walk through a slot up to all workers that the job may have, or that fit."""
    ending = walk(moves, room.offer, float(job.most_workers), work.point, work.path)
    steps = int(work.path.size[0])
    path = Path(
        reach=work.path.reach[:steps].copy(),
        slope=work.path.slope[:steps].copy(),
        server=work.path.server[:steps].copy(),
        change=work.path.change[:steps].copy(),
        size=np.array([steps]),
    )
    cost = np.cumsum(path.slope * np.diff(path.reach, prepend=0.0))
    return SlotProblem(room, path, cost, solved=ending != UNSOLVED)


def slot_room(job: SlotJob, state: SlotState, quanta_per_unit: IntArray) -> Room:
    """A slot with the prices of the job's tasks, and its servers in the order of these."""
    price = np.zeros((len(state.free), 2))
    for role in (WORKER, PARAMETER_SERVER):
        for r, demand in enumerate((job.demand[role] / quanta_per_unit).tolist()):
            price[:, role] += state.price[:, r] * demand
    offer = Offer(
        room=rooms(job, state.free),
        price=price,
        by_worker=np.argsort(price[:, WORKER], kind="stable"),
        by_ps=np.argsort(price[:, PARAMETER_SERVER], kind="stable"),
    )
    return Room(state.free, job.demand, job.most_workers, job.workers_per_ps, offer)


def _new_path(steps: int) -> Path:
    return Path(
        reach=np.empty(steps),
        slope=np.empty(steps),
        server=np.empty((steps, 2), dtype=np.int64),
        change=np.empty((steps, 2, 2)),
        size=np.zeros(1, dtype=np.int64),
    )


def _listing(servers: int) -> tuple[IntArray, IntArray, IntArray]:
    """Nobody listed: server, listed, size."""
    return np.empty(servers, np.int64), np.zeros(servers, np.int64), np.zeros(1, np.int64)


def _no_tasks(servers: int) -> Tasks:
    return Tasks(np.zeros((servers, 2), np.int64), *_listing(servers), total=np.zeros(2, np.int64))
