"""What a job may do on a server, in fractions: the directions of `ray_sim.kernels.slot_walk`."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from ray_sim.kernels.slot_walk import ADD_PS, ADD_WORKER, Moves
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.pd_ors.job import SlotJob

Direction = tuple[Fraction, Fraction]
"""Workers, parameter servers."""


def slot_moves(job: SlotJob) -> Moves:
    """Directions along the limits of a server, and the pairs of them that add a worker and its share of a PS.

    A role that demands nothing is limited by what the job may have of it in all. Signs are found by exact
    arithmetic: a move along a row takes none of it.
    """
    rows = [(int(w), int(s)) for w, s in job.demand.T if w > 0 or s > 0]
    rows += [unit for unit, demand in zip(((1, 0), (0, 1)), job.demand, strict=True) if not demand.any()]
    axes: list[Direction] = [(Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))]
    steps, along = list(axes), [-1, -1]
    for row, (w, s) in enumerate(rows):
        steps += [(Fraction(s, w + s), Fraction(-w, w + s)), (Fraction(-s, w + s), Fraction(w, w + s))]
        along += [row, row]
    rates = [[w * step[0] + s * step[1] for w, s in rows] for step in steps]
    pairs = _pairs(steps, Fraction(1) / Fraction(job.workers_per_ps))
    return Moves(
        worker=np.array([w for w, _ in rows], dtype=np.float64),
        ps=np.array([s for _, s in rows], dtype=np.float64),
        step=np.array(steps, dtype=np.float64),
        rate=np.array(rates, dtype=np.float64).reshape(len(steps), len(rows)),
        along=np.array(along),
        barred=np.array([_bits([*rate, -w, -s]) for rate, (w, s) in zip(rates, steps, strict=True)]),
        pair=np.array([pair for pair, _ in pairs], dtype=np.int64),
        units=np.array([units for _, units in pairs], dtype=np.float64),
    )


def rooms(job: SlotJob, free: IntArray) -> FloatArray:
    """(S, M) room of each row of `slot_moves` on servers with so many (S, R) free quanta."""
    demanded = job.demand.any(axis=0)
    room = free[:, demanded].astype(np.float64)
    most = (job.most_workers, job.most_workers / job.workers_per_ps)
    idle = [most[role] for role in range(2) if not job.demand[role].any()]
    return np.hstack([room, np.full((len(free), len(idle)), idle)])


def _bits(taken: list[Fraction]) -> int:
    return sum(1 << at for at, amount in enumerate(taken) if amount > 0)


def _pairs(
    steps: list[Direction], ps_per_worker: Fraction
) -> list[tuple[tuple[int, int], tuple[Fraction, Fraction]]]:
    """A move towards workers and one towards parameter servers between which (1, 1 / gamma) lies."""
    towards_workers = [ADD_WORKER, *range(2, len(steps), 2)]
    towards_ps = [ADD_PS, *range(3, len(steps), 2)]
    found = []
    for a, b in product(towards_workers, towards_ps):
        (aw, ap), (bw, bp) = steps[a], steps[b]
        if (area := aw * bp - ap * bw) > 0:
            units = ((bp - ps_per_worker * bw) / area, (ps_per_worker * aw - ap) / area)
            found.append(((a, b), units))
    return found
