"""The point of a polyhedron that is nearest to 0."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from ray_sim.model.units import FloatArray

_GAP, _RESIDUAL, _STEPS = 1e-18, 1e-11, 100
_SHORT = 0.3
_DAMPING = 1e-14
"""Keeps factors regular where more rows hold with equality than there are unknowns."""


def least_norm(matrix: csr_array, bound: FloatArray) -> FloatArray | None:
    """Least sum of squares of y >= 0 with ``matrix @ y >= bound``, within about 1e-9; None: not found.

    By an interior point, in time linear in the rows where these share few unknowns.

    Parameters
    ----------
    matrix : (M, V), rows of norm 1

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
            return np.maximum(y, 0)
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
