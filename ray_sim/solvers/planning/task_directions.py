"""Directions of a job's fractional tasks on a server, for `ray_sim.kernels.planning.parametric_slot_lp`."""

from __future__ import annotations

from itertools import product

import numpy as np

from ray_sim.kernels.planning.parametric_slot_lp import ADD_PS, ADD_WORKER, TaskDirections
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
