"""The least norm beside non-negative least squares, an exact method for few unknowns."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csr_array

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.least_norm import least_norm
from tests.proofs import instances


def by_least_squares(matrix: FloatArray, bound: FloatArray) -> FloatArray:
    """Least-distance programming: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23."""
    unknowns = matrix.shape[1]
    system = np.vstack([np.vstack([np.eye(unknowns), matrix]).T, np.append(np.zeros(unknowns), bound)])
    target = np.append(np.zeros(unknowns), 1.0)
    residual = system @ nnls(system, target)[0] - target
    nearest: FloatArray = -residual[:-1] / residual[-1]
    return nearest


def found(matrix: FloatArray, bound: FloatArray) -> FloatArray:
    y = least_norm(csr_array(matrix), bound)
    assert y is not None
    return y


def test_nearest_point_of_a_line_and_of_a_half_plane() -> None:
    # 3 x + 4 y >= 10: the foot of the perpendicular is 2 (3/5, 4/5). x - y >= 1, x, y >= 0: (1, 0).
    np.testing.assert_allclose(found(np.array([[0.6, 0.8]]), np.array([2.0])), [1.2, 1.6], atol=1e-9)
    slope = np.array([[1.0, -1.0]]) / np.sqrt(2)
    np.testing.assert_allclose(found(slope, np.array([1 / np.sqrt(2)])), [1, 0], atol=1e-9)


def test_least_norm_is_that_of_least_squares() -> None:
    # Most bounds are a millionth away from one point, as under the tie rule.
    for seed in range(instances(200, 30)):
        rng = np.random.default_rng(seed)
        rows, unknowns = rng.integers(1, 40, 2)
        matrix = rng.normal(size=(rows, unknowns)) * (rng.random((rows, unknowns)) < 0.3)
        matrix[:, 0] += 0.1
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        inside = rng.random(unknowns) * (rng.random(unknowns) < 0.5)
        bound = matrix @ inside - rng.choice([1e-6, 1e-6, 0.3], rows)
        expected = by_least_squares(matrix, bound)
        np.testing.assert_allclose(found(matrix, bound), expected, rtol=0, atol=1e-7)


def test_there_is_no_point_below_and_above_one() -> None:
    assert least_norm(csr_array(np.array([[1.0], [-1.0]])), np.array([1.0, -0.9])) is None
