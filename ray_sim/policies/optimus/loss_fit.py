"""Prediction of convergence: fit of loss curves l(k) = 1 / (b0 k + b1) + b2 to the losses after each epoch.

For a fixed b2 the curve is linear: with u = l - b2, 1 / u = b0 k + b1. The residual of 1 / u is that of l
divided by about u^2, so rows are weighted by u^2: residuals count as in l, and nothing is divided by a
small number. b2 is found by a search in one dimension.

Source: Peng et al., Optimus, EuroSys 2018, section 3.1; docs/models/optimus.md#remaining-work.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.loss import last_epoch
from ray_sim.model.units import FloatArray, IntArray

WINDOW = 5
"""Number of points before and after a point that decide whether it is an outlier."""

_GRID = 32
_REFINEMENTS = 60
_GOLDEN = 0.6180339887498949
_BELOW_LOWEST = 1.0 - 1e-9
"""Upper end of b2 relative to the lowest loss, at which 1 / u is infinite."""


@kernel
def lowest_of(value: F64, first: int, end: int) -> float:
    """Return the minimum of value[first:end], inf if it is empty."""
    low = np.inf
    for at in range(first, end):
        low = min(low, value[at])
    return low


@kernel
def highest_of(value: F64, first: int, end: int) -> float:
    """Return the maximum of value[first:end], -inf if it is empty."""
    high = -np.inf
    for at in range(first, end):
        high = max(high, value[at])
    return high


@kernel
def clean_point(value: F64, first: int, end: int, at: int) -> float:
    """Return the loss at ``at``, or the mean of its neighbours if it is an outlier; O(WINDOW).

    On a falling curve a point is not below the minimum of the points after it, nor above the maximum of
    those before it, within the window.
    """
    too_low = at + 1 < end and value[at] < lowest_of(value, at + 1, min(at + 1 + WINDOW, end))
    too_high = at > first and value[at] > highest_of(value, max(at - WINDOW, first), at)
    if not (too_low or too_high):
        return value[at]
    if at == first:
        return value[at + 1]
    if at + 1 == end:
        return value[at - 1]
    return (value[at - 1] + value[at + 1]) / 2.0


@kernel
def linear_fit(k: F64, loss: F64, n: int, b2: float) -> tuple[float, float, float]:
    """Return (squared error in l, b0, b1) of the best b0, b1 >= 0 for a fixed b2; O(n).

    Normal equations of two variables in closed form; if one of them comes out negative it is set to 0 and
    the other is solved alone, whichever of the two cases is better.
    """
    a11, a12, a22, c1, c2 = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        u = loss[i] - b2
        weight, target = u * u * u * u, u * u * u
        a11 += weight * k[i] * k[i]
        a12 += weight * k[i]
        a22 += weight
        c1 += target * k[i]
        c2 += target
    det = a11 * a22 - a12 * a12
    b0, b1 = -1.0, -1.0
    if det > 1e-14 * a11 * a22:
        b0, b1 = (c1 * a22 - c2 * a12) / det, (c2 * a11 - c1 * a12) / det
    if b0 < 0.0 or b1 < 0.0:
        # One variable is 0; the other alone reduces the sum of squares by c^2 / a.
        if a22 > 0.0 and c2 * c2 * a11 >= c1 * c1 * a22:
            b0, b1 = 0.0, c2 / a22
        elif a11 > 0.0:
            b0, b1 = c1 / a11, 0.0
        else:
            return np.inf, 0.0, 0.0
    error = 0.0
    for i in range(n):
        residual = 1.0 / (b0 * k[i] + b1) + b2 - loss[i]
        error += residual * residual
    return error, b0, b1


@kernel
def search_b2(k: F64, loss: F64, n: int) -> float:
    """Return b2 in [0, lowest loss) with the least error: a grid of 32 points, then golden-section search.

    The golden-section search assumes one minimum between the neighbours of the best grid point; its result
    counts only if it beats that point. O(n) per evaluation, 94 evaluations.
    """
    lowest = lowest_of(loss, 0, n)
    best, best_error = 0.0, np.inf
    for g in range(_GRID):
        error, _, _ = linear_fit(k, loss, n, lowest * g / _GRID)
        if error < best_error:
            best, best_error = lowest * g / _GRID, error
    low, high = max(best - lowest / _GRID, 0.0), min(best + lowest / _GRID, lowest * _BELOW_LOWEST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    error_left, _, _ = linear_fit(k, loss, n, left)
    error_right, _, _ = linear_fit(k, loss, n, right)
    for _ in range(_REFINEMENTS):
        if error_left <= error_right:
            high, right, error_right = right, left, error_left
            left = high - _GOLDEN * (high - low)
            error_left, _, _ = linear_fit(k, loss, n, left)
        else:
            low, left, error_left = left, right, error_right
            right = low + _GOLDEN * (high - low)
            error_right, _, _ = linear_fit(k, loss, n, right)
    refined = left if error_left <= error_right else right
    return refined if min(error_left, error_right) < best_error else best


@outlined
def fit_losses(ptr: I64, value: F64, least: int, k: F64, loss: F64, b: F64) -> None:
    """Set ``b``, (J, 3), to b0, b1, b2 of each job; value[ptr[i]:ptr[i + 1]] are its losses by epoch.

    A job with fewer than ``least`` points, or with losses of 0 only, gets b0 = 0: no end can be predicted.
    ``k`` and ``loss`` are work space; a longer series is sampled evenly down to their length n. Losses are
    scaled to a maximum of 1. O(n) per job, times the evaluations of `search_b2`.
    """
    for i in range(len(b)):
        b[i, :] = 0.0
        first, end = ptr[i], ptr[i + 1]
        points = end - first
        if points < least:
            continue
        n = min(points, len(k))
        for j in range(n):
            at = first + (j if n == points else int(np.rint(j * (points - 1) / (n - 1))))
            k[j] = at - first + 1
            loss[j] = clean_point(value, first, end, at)
        top = highest_of(loss, 0, n)
        if top <= 0.0:
            continue
        for j in range(n):
            loss[j] /= top
        b2 = search_b2(k, loss, n)
        _, b0, b1 = linear_fit(k, loss, n, b2)
        b[i, 0], b[i, 1], b[i, 2] = b0 / top, b1 / top, b2 * top


LEAST_POINTS = 5
"""Least number of losses for a fit; a job with fewer is young."""
MOST_POINTS = 100
"""Largest number of losses in a fit; longer runs are sampled evenly."""
EPOCHS_UNKNOWN = 20.0
"""Epochs left where there is no fit; the value of the authors' scheduler."""


def fitted_curves(ptr: IntArray, losses: FloatArray) -> FloatArray:
    """(n, 3) b0, b1, b2 >= 0 of each job, b0 = 0 where no falling curve fits.

    Parameters
    ----------
    ptr : (n + 1,); losses after epochs 1, 2, ... of job i are ``losses[ptr[i]:ptr[i + 1]]``

    Source: Peng et al., Optimus, EuroSys 2018, section 3.1.
    """
    curves = np.empty((len(ptr) - 1, 3))
    fit_losses(ptr, losses, LEAST_POINTS, np.empty(MOST_POINTS), np.empty(MOST_POINTS), curves)
    return curves


def epochs_left(
    curves: FloatArray, done: FloatArray, threshold: FloatArray, patience: FloatArray, most: float
) -> FloatArray:
    """(n,) epochs until each job has converged, at least 1.

    Parameters
    ----------
    done : (n,) completed epochs
    threshold, patience : (n,) as in `ray_sim.model.job.LossProfile`
    most : bound on the total epochs of a job
    """
    fits = curves[:, 0] > 0
    b0, b1 = np.where(fits, curves[:, 0], 1.0), curves[:, 1]
    end = np.where(fits, last_epoch(b0, b1, threshold, patience), done + EPOCHS_UNKNOWN)
    left: FloatArray = np.maximum(np.minimum(end, most) - done, 1.0)
    return left
