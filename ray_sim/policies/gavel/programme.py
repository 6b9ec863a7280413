"""The programme that all rules of this package but queues solve, and the tie rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import block_array, csr_array, diags_array, vstack

from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.least_norm import least_norm
from ray_sim.solvers.linear_programme import linear_optimum

_Amount = FloatArray | float
_SLACK = 1e-6
"""The tie rule lets a job be slower than it needs by this part."""
_INFEASIBLE = 2


class UnsolvedError(RunFailedError):
    """A solver did not solve a programme of shares."""


class InfeasibleSharesError(UnsolvedError):
    """No shares give every job its least speed."""


class Corner(NamedTuple):
    """Optimum of a linear programme; the same for the same input, with equal shares of identical jobs."""

    level: float
    shares: FloatArray
    """(J + P, T), rounded to six digits."""
    binding: FloatArray
    """(J,) relative fall of the level for a relative rise of a job's ``per_level``."""


class Programme:
    """Shares of J >= 1 jobs, each of which runs on some type that has its GPUs; errors have ``name``."""

    def __init__(self, name: str, now: JobsNow) -> None:
        self.name, self.now = name, now

    def corner(self, *, per_level: _Amount = 0.0, floor: _Amount = 0.0, gain: _Amount = 0.0) -> Corner:
        """Largest level z with speeds of at least ``floor + z per_level``, (J,), or largest total gain.

        gain: (J + P, T) of each share of 1. Raises `InfeasibleSharesError` if no shares give the speeds
        ``floor``, `UnsolvedError` if the solver fails.
        """
        jobs, types = self.now.speed.shape
        floor, per_level = np.broadcast_to(floor, jobs), np.broadcast_to(per_level, jobs)
        gain = np.broadcast_to(gain, (jobs + len(self.now.pairs), types))
        base = Base(self.now, np.column_stack([floor, per_level, gain[:jobs]]))
        # A job's row is in units of its largest speed, z in units of the largest step of a row.
        fastest = base.speed.max(axis=1).toarray()
        step = per_level[base.first] / fastest
        unit = step.max() or 1.0
        speed = [diags_array(-1 / fastest) @ base.speed, csr_array(step[:, None] / unit)]
        rows = block_array([[base.time, None], [base.gpus, None], speed], format="csr")
        bound = np.concatenate([np.ones(len(step)), base.capacity, -floor[base.first] / fastest])
        cost = -np.append(base.of_cells(gain) / (gain.max() or 1.0), float(step.any()))
        result = linear_optimum(cost, method="highs-ds", A_ub=rows, b_ub=bound)
        if result.status:
            kind = InfeasibleSharesError if result.status == _INFEASIBLE else UnsolvedError
            raise kind(self._problem(result.message))
        binding = -result.ineqlin.marginals[-len(step) :] * step / unit / np.bincount(base.class_of)
        shares = base.shares(np.round(np.maximum(result.x[:-1], 0), 6))
        return Corner(result.x[-1] / unit, shares, binding[base.class_of])

    def evened(self, need: FloatArray) -> FloatArray:
        """The tie rule: least sum of GPUs times share squared over the type's GPUs, at speeds ``need``, (J,).

        Returns (J + P, T), rounded to six digits; unique, so identical jobs have identical shares. Raises
        `UnsolvedError` if the needs cannot be met or the solver fails.
        """
        base = Base(self.now, need[:, None])
        scale = np.sqrt(base.gpus.sum(axis=0) / base.capacity[base.gpu_type])
        matrix = vstack([-base.time, -base.gpus, base.speed], format="csr") @ diags_array(1 / scale)
        bound = [-np.ones(len(base.first)), -base.capacity, (1 - _SLACK) * need[base.first]]
        norm = np.sqrt((matrix**2).sum(axis=1))
        norm[norm == 0] = 1  # a type on which no job runs
        y = least_norm(diags_array(1 / norm) @ matrix, np.concatenate(bound) / norm)
        if y is None:
            raise UnsolvedError(self._problem("no least squares of the tie rule"))
        return base.shares(np.round(y / scale, 6))

    def _problem(self, found: str) -> str:
        sizes = f"{len(self.now.job)} jobs, {len(self.now.pairs)} pairs, {len(self.now.capacity)} GPU types"
        return f"programme {self.name} of {sizes}: expected an optimum, found: {found}"


class Base:
    """C classes of identical jobs, and V *cells*: a class or a pair, on a type on which it runs.

    Shares x of the cells, (V,), keep ``x >= 0``, ``time @ x <= 1`` and ``gpus @ x <= capacity``.

    time, speed: (C, V) 1, or steps per second, of a class in a cell. gpus: (T, V) of all jobs of a cell.
    first: (C,) a job of each class. class_of: (J,). gpu_type: (V,).
    """

    def __init__(self, now: JobsNow, key: FloatArray) -> None:
        """key: (J, K) numbers that identical jobs share. With pairs, which differ, each job is a class."""
        jobs, pairs = len(now.job), np.arange(len(now.pairs))
        self.first = self.class_of = np.arange(jobs)
        if not len(pairs):
            rows = np.column_stack([now.speed, now.gpus, key])
            order = np.lexsort(rows.T)
            new = np.append(True, (np.diff(rows[order], axis=0) != 0).any(axis=1))
            self.first, self.class_of = order[new], np.empty_like(order)
            self.class_of[order] = np.cumsum(new) - 1
        classes = len(self.first)
        # Entries are classes, then pairs; members of entries: each class, the first of each pair, the second.
        self._entry_of = np.concatenate([self.class_of, classes + pairs])
        self._first_of = np.concatenate([self.first, jobs + pairs])
        entry_of = np.concatenate([np.arange(classes), classes + pairs, classes + pairs])
        member = np.concatenate([np.arange(classes), *now.pairs.T])
        speed = np.concatenate([now.speed[self.first], *now.pair_speed.swapaxes(0, 1)])
        runs = np.concatenate([speed[:classes] > 0, (now.pair_speed > 0).all(axis=1)]) & (now.capacity > 0)
        self._entry, self.gpu_type = np.nonzero(runs)
        cell = np.cumsum(runs).reshape(runs.shape) - 1
        row, of_type = np.nonzero(runs[entry_of])
        place, shape = (member[row], cell[entry_of[row], of_type]), (classes, len(self._entry))
        self.time = csr_array((np.ones(len(row)), place), shape=shape)
        self.speed = csr_array((speed[row, of_type], place), shape=shape)
        self.capacity = now.capacity.astype(float)
        gpus = np.concatenate([now.gpus, now.gpus[now.pairs[:, 0]]])
        held = self.of_cells(np.repeat(gpus[:, None], len(now.capacity), axis=1))
        place, shape = (self.gpu_type, np.arange(len(held))), (len(now.capacity), len(held))
        self.gpus = csr_array((held, place), shape=shape)

    def of_cells(self, amount: FloatArray) -> FloatArray:
        """(V,) what all jobs of each cell have together, given that of each job and pair, (J + P, T)."""
        copies = np.bincount(self._entry_of)[self._entry]
        amounts: FloatArray = copies * amount[self._first_of[self._entry], self.gpu_type].astype(float)
        return amounts

    def shares(self, x: FloatArray) -> FloatArray:
        """(J + P, T) shares of jobs and pairs."""
        of_entries = np.zeros((len(self._first_of), len(self.capacity)))
        of_entries[self._entry, self.gpu_type] = x
        shares: FloatArray = of_entries[self._entry_of]
        return shares
