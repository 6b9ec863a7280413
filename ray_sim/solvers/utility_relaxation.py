"""Linear programme of U3: fractions of jobs on pooled servers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.solvers.linear_programme import linear_optimum

_ROUND_UP = 1.0 + 1e-6
"""Factor on the optimum: rows may be violated by HiGHS's tolerance of 1e-7."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Solution of the programme."""

    optimum: float
    """Rounded up against the solver's tolerances."""
    prices: FloatArray
    """(K, R) shadow prices of the available capacity, >= 0."""


class _Rows:
    """Rows of a sparse matrix, added in blocks."""

    def __init__(self) -> None:
        self.count = 0
        self._row: list[IntArray] = []
        self._column: list[IntArray] = []
        self._value: list[FloatArray] = []

    def new(self, n: int) -> IntArray:
        """Add n rows and return their numbers."""
        numbers = self.count + np.arange(n)
        self.count += n
        return numbers

    def add(self, row: IntArray, column: IntArray, value: FloatArray | float, where: BoolArray) -> None:
        """Add entries, arrays of equal shape, where ``where`` is true."""
        self._row.append(row[where])
        self._column.append(column[where])
        self._value.append(np.broadcast_to(value, row.shape)[where])

    def triplets(self) -> tuple[FloatArray, tuple[IntArray, IntArray]]:
        """Return values and their coordinates."""
        return np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column))


def relax(
    worth: FloatArray, first: IntArray, most: FloatArray, resource_time: FloatArray, offer: FloatArray
) -> tuple[Relaxed | None, str | None]:
    """Solve the programme, or return the reason why not; its data are those of `BucketProblem`.

    For each job the share x_k completes in bucket k, z_k <= 1 in it or later, f_k is the work done in it, and
    e_k >= 0 the work done ahead: e_k = e_(k-1) + f_k - x_k, z_k = x_k + z_(k+1), f_k <= most_k z_k. Together
    jobs use at most the available capacity.
    """
    from scipy.sparse import coo_array  # slow to import

    n_jobs, n_buckets = worth.shape
    cells = np.arange(n_jobs * n_buckets).reshape(n_jobs, n_buckets)
    x, f, z, e = (cells + role * cells.size for role in range(4))
    every = np.ones(cells.shape, dtype=np.bool_)
    inner = np.broadcast_to(np.arange(n_buckets) > 0, cells.shape)

    flows = _Rows()
    work = flows.new(cells.size).reshape(cells.shape)
    for column, value in ((e, 1.0), (f, -1.0), (x, 1.0)):
        flows.add(work, column, value, every)
    flows.add(work, e - 1, -1.0, inner)
    left = flows.new(cells.size).reshape(cells.shape)
    for column, value in ((z, 1.0), (x, -1.0)):
        flows.add(left, column, value, every)
    flows.add(left, z + 1, -1.0, inner[:, ::-1])

    limits = _Rows()
    pace = limits.new(cells.size).reshape(cells.shape)
    limits.add(pace, f, 1.0, every)
    limits.add(pace, z, -most, every)
    finite = np.isfinite(offer)
    scale = np.where(finite & (offer > 0), offer, 1.0)
    for r in range(resource_time.shape[1]):
        rows = np.broadcast_to(limits.new(n_buckets), cells.shape)
        limits.add(
            rows, f, resource_time[:, r, None] / scale[:, r], finite[:, r] & (resource_time[:, r, None] > 0)
        )
    most_of_all = np.concatenate([np.zeros(cells.size), np.where(offer > 0, 1.0, 0.0).T.ravel()])

    unit = float(worth.max(initial=0.0)) or 1.0
    possible = np.arange(n_buckets) >= first[:, None]
    gain = np.zeros(4 * cells.size)
    gain[x] = np.where(possible, worth, 0.0) / unit
    upper = np.ones(4 * cells.size)
    upper[x[~possible]] = 0.0
    result = linear_optimum(
        -gain,
        A_ub=coo_array(limits.triplets(), shape=(limits.count, gain.size)).tocsr(),
        b_ub=most_of_all,
        A_eq=coo_array(flows.triplets(), shape=(flows.count, gain.size)).tocsr(),
        b_eq=np.zeros(flows.count),
        bounds=np.stack([np.zeros(gain.size), upper], axis=1),
        method="highs-ipm",
    )
    if result.status != 0:
        why = "it refuses one thread in a process in which something has made it use several"
        return None, f"HiGHS did not solve it: {result.message}; {why}"
    shadow = np.maximum(-result.ineqlin.marginals[cells.size :], 0.0).reshape(-1, n_buckets).T
    prices = np.where(finite, shadow / scale, 0.0) * unit
    return Relaxed(-float(result.fun) * unit * _ROUND_UP, prices), None
