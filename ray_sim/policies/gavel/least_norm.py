"""The point of a polyhedron that is nearest to 0."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from ray_sim.model.units import FloatArray

_GAP, _RESIDUAL, _STEPS = 1e-18, 1e-11, 100
_SHORT = 0.3
_DAMPING = 1e-14
"""Keeps factors regular where more rows hold with equality than there are unknowns."""


def least_norm(matrix: csr_array, bound: FloatArray) -> FloatArray | None:
    """Least sum of squares of y >= 0 with ``matrix @ y >= bound``, within about 1e-9; None: not found.

    matrix: (M, V), rows of norm 1.
    """
    for solve in (_interior_point, _active_set):
        y = solve(matrix, bound)
        if y is not None and (matrix @ y >= bound - 1e-9).all():
            return np.maximum(y, 0)
    return None


def _active_set(matrix: csr_array, bound: FloatArray) -> FloatArray | None:
    """By non-negative least squares: slower, and wrong in a few programmes of a thousand with pairs.

    Source: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
    """
    unknowns = matrix.shape[1]
    system = np.zeros((unknowns + 1, unknowns + len(bound)))
    system[:-1, :unknowns] = np.eye(unknowns)
    system[:-1, unknowns:] = matrix.toarray().T
    system[-1, unknowns:] = bound
    target = np.append(np.zeros(unknowns), 1.0)
    try:
        residual = system @ nnls(system, target)[0] - target
    except RuntimeError:  # too many steps
        return None
    return -residual[:-1] / residual[-1] if residual[-1] else None  # 0: no y fulfils all rows


def _interior_point(matrix: csr_array, bound: FloatArray) -> FloatArray | None:
    """In time linear in the rows where these share few unknowns.

    Source: Nocedal and Wright, Numerical Optimization, 2nd edition, algorithm 16.4 (Mehrotra); a short step
    is replaced by one towards the central path.
    """
    rows, unknowns = matrix.shape
    size, transposed = rows + unknowns, matrix.T.tocsr()
    point = np.ones(2 * size)
    y, slack, y_price, price = np.split(point, [unknowns, size, size + unknowns])  # views
    for _ in range(_STEPS):
        dual = y - transposed @ price - y_price
        primal = matrix @ y - slack - bound
        gap = point[:size] @ point[size:] / size
        if gap < _GAP and max(np.abs(dual).max(), np.abs(primal).max()) < _RESIDUAL:
            return y
        scale = y / (y + y_price)
        normal = matrix @ diags_array(scale) @ transposed + diags_array(slack / price + _DAMPING)
        try:
            factor = splu(normal.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        except RuntimeError:  # singular
            return None
        goal, length = np.zeros(size), 0.0  # goal of the products of values and prices
        for turn in ("predictor", "corrector", "centred"):
            if turn == "centred":
                if length > _SHORT:
                    break
                goal = np.full(size, 0.5 * gap)
            y_price_change, slack_change = goal[:unknowns] / y - y_price, goal[unknowns:] / price - slack
            free = scale * (y_price_change - dual)
            price_step = factor.solve(slack_change - primal - matrix @ free)
            y_step = free + scale * (transposed @ price_step)
            slack_step = slack_change - slack / price * price_step
            step = np.concatenate([y_step, slack_step, y_price_change - y_price / y * y_step, price_step])
            length = min(1.0, 0.995 / max(1e-9, -(step / point).min()))
            ahead = point + length * step
            centre = gap * (ahead[:size] @ ahead[size:] / size / gap) ** 3
            goal = centre - step[:size] * step[size:]
        point[:] = ahead
    return None
