"""B4: lower bound on the mean JCT by a linear programme over jobs and time, on all resources at a time.

The solver only proposes prices of the resources. The bound is the dual value at these prices, in continuous
time, so neither the cells of the programme nor errors of the solver can invalidate it. Proof:
docs/certificates.md#b4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.planning.priced_times import PricedPieces, Segments, priced_flows, smallest_first_prices
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.linear_programme import linear_optimum

_MOST_STEPS = 400
_LEAST_STEPS = 40
"""Time steps of the programme; with more jobs than leave room for the least number, a sample sets prices."""

_MOST_PRICED = 2_000_000
"""Jobs x pieces of time at whose prices a dual value is computed; takes about 0.1 s."""


class PoolJobs(NamedTuple):
    """J jobs of one partition, with R resources."""

    release: IntArray
    """(J,) non-decreasing."""
    shortest: FloatArray
    """(J,) least time from release to completion."""
    busy: FloatArray
    """(J,) work over largest rate, <= ``shortest``."""
    size: FloatArray
    """(J, R) least resource x time over capacity; 0 where nothing is scarce."""


class ProgrammeBound(NamedTuple):
    """Lower bound on the mean flow time."""

    mean: float
    resource: int | None
    """Resource that is paid most; None where prices of 0 give the largest bound."""


class _Steps(NamedTuple):
    """Programme of a sample of jobs: its variables (job, time step), and its edges of time."""

    edge: FloatArray
    """(K + 1,)."""
    job: IntArray
    step: IntArray
    cost: FloatArray
    """Middle of the part of the step after the release."""
    most: FloatArray
    """Largest share of the job that can be done in the step."""


def programme_bound(pool: PoolJobs, cells: int) -> tuple[ProgrammeBound, str | None]:
    """B4 of the jobs of a partition, and the reason if the programme was not solved.

    It is at least the mean of ``busy``, which is B1 of jobs that can always run at their largest rate.

    Parameters
    ----------
    cells : largest number of variables, jobs x time steps
    """
    instant = pool.busy <= 0
    at_once = float(pool.shortest[instant].sum())
    n, jobs = len(instant), _of(pool, np.flatnonzero(~instant))
    free = ProgrammeBound((at_once + float(jobs.busy.sum())) / n, None)
    scarce = np.flatnonzero((jobs.size > 0).any(axis=0))
    if not len(jobs.busy) or not len(scarce):
        return free, None
    start = int(jobs.release[0])
    release, size = (jobs.release - start).astype(np.float64), np.ascontiguousarray(jobs.size[:, scarce])
    stride = -(-len(release) // max(1, cells // _LEAST_STEPS))
    chosen = slice(None, None, stride)
    end = float(release[-1]) + float(size.sum(axis=0).max()) + float(jobs.busy.max())
    steps = _steps(release[chosen], jobs.busy[chosen], end, cells)
    solved, why = _solve(steps, size[chosen] * stride)
    offers = [_of_one_resource(release, size, r) for r in range(len(scarce))]
    if solved is not None:
        offers += [_constant(steps.edge, solved), _linear(steps.edge, solved)]
    best = free
    for pieces in offers:
        flow, paid = _dual_value(release, jobs.busy, size, pieces)
        mean = (flow + at_once) / n
        best = ProgrammeBound(mean, int(scarce[np.argmax(paid)])) if mean > best.mean else best
    return best, why


def _dual_value(
    release: FloatArray, busy: FloatArray, size: FloatArray, pieces: PricedPieces
) -> tuple[float, FloatArray]:
    """Lower bound on the sum of flow times at prices, and (R,) payments to the resources."""
    flow = np.empty(len(release))
    priced_flows(release, busy, size, pieces, np.empty((3, len(pieces.left))), flow)
    paid: FloatArray = (np.diff(pieces.edge)[:, None] * 0.5 * (pieces.left + pieces.right)).sum(axis=0)
    return float((flow + 0.5 * busy).sum()) - float(paid.sum()), paid


def _of(pool: PoolJobs, jobs: IntArray) -> PoolJobs:
    return PoolJobs(pool.release[jobs], pool.shortest[jobs], pool.busy[jobs], pool.size[jobs])


def _steps(release: FloatArray, busy: FloatArray, end: float, cells: int) -> _Steps:
    """Cut time up to ``end``: half of the edges evenly, half where jobs begin and could end."""
    count = max(2, min(_MOST_STEPS, cells // len(release)))
    events = np.concatenate([release, release + busy])
    quantiles = np.quantile(events, np.linspace(0.0, 1.0, count // 2 + 1), method="nearest")
    edge = np.union1d(np.linspace(0.0, end, count - count // 2), quantiles)
    edge = edge[np.concatenate([[True], np.diff(edge) > 1e-9 * end])]
    begin = np.maximum(edge[:-1], release[:, None])
    rest = edge[1:] - begin
    job, step = np.nonzero(rest > 0)
    length = rest[job, step]
    return _Steps(edge, job, step, begin[job, step] + length / 2, np.minimum(length / busy[job], 1.0))


def _solve(steps: _Steps, size: FloatArray) -> tuple[FloatArray | None, str | None]:
    """(K, R) prices of the resources by HiGHS on one thread; or why there are none.

    Minimises the sum over jobs of the mean instant of their work, such that each resource is enough in each
    step. Shares that no step takes cost the end of time.
    """
    from scipy.sparse import coo_array  # slow to import

    (n, resources), count, variables = size.shape, len(steps.edge) - 1, len(steps.job)
    end, span = float(steps.edge[-1]), np.diff(steps.edge)
    number, late = np.arange(variables), variables + np.arange(n)
    share = coo_array(
        (
            np.ones(variables + n),
            (np.concatenate([steps.job, np.arange(n)]), np.concatenate([number, late])),
        ),
        shape=(n, variables + n),
    )
    row = np.concatenate([r * count + steps.step for r in range(resources)])
    taken = np.concatenate([size[steps.job, r] / span[steps.step] for r in range(resources)])
    used = coo_array((taken, (row, np.tile(number, resources))), shape=(resources * count, variables + n))
    result = linear_optimum(
        np.concatenate([steps.cost, np.full(n, end)]) / end,
        A_ub=used.tocsr(),
        b_ub=np.ones(resources * count),
        A_eq=share.tocsr(),
        b_eq=np.ones(n),
        bounds=np.stack([np.zeros(variables + n), np.concatenate([steps.most, np.ones(n)])], axis=1),
        method="highs-ds",
    )
    if result.status != 0:
        return None, f"HiGHS did not solve it: {result.message}"
    shadow = np.maximum(-result.ineqlin.marginals, 0.0).reshape(resources, count).T
    prices: FloatArray = shadow * end / span[:, None]
    return prices, None


def _constant(edge: FloatArray, prices: FloatArray) -> PricedPieces:
    """The price of each step."""
    return PricedPieces(edge, prices, prices)


def _linear(edge: FloatArray, prices: FloatArray) -> PricedPieces:
    """Prices that go from the middle of each step to the middle of the next."""
    middle = edge[:-1] + 0.5 * np.diff(edge)
    nodes = np.concatenate([edge[:1], middle, edge[-1:]])
    at = np.concatenate([prices[:1], prices, prices[-1:]])
    return PricedPieces(nodes, np.ascontiguousarray(at[:-1]), np.ascontiguousarray(at[1:]))


def _of_one_resource(release: FloatArray, size: FloatArray, r: int) -> PricedPieces:
    """Best prices where only one resource is scarce and jobs have no largest rate: B4 is then at least B3.

    With too many pieces some edges are left out, and prices are linear between the others.
    """
    takes = np.flatnonzero(size[:, r] > 0)
    sizes, begins = np.ascontiguousarray(size[takes, r]), release[takes]
    rank, n = np.empty(len(takes), np.int64), len(takes)
    rank[np.argsort(sizes, kind="stable")] = np.arange(n)
    found = Segments(np.empty(3 * n, np.int64), *(np.empty(3 * n) for _ in range(4)))
    heap, position = np.empty(n, np.int64), np.empty(n, np.int64)
    count = smallest_first_prices(begins, sizes, rank, sizes.copy(), heap, position, found)
    served = np.flatnonzero(found.end[:count] > found.begin[:count])
    begin, end, left, right = (column[served] for column in found[1:])
    idle_since = np.concatenate([[0.0], end])
    idle_until = np.append(begin, max(float(end[-1]), float(release[-1])))
    idle = idle_until > idle_since
    free = np.zeros(int(idle.sum()))
    order = np.argsort(np.concatenate([begin, idle_since[idle]]), kind="stable")
    edge = np.append(np.concatenate([begin, idle_since[idle]])[order], idle_until[-1])
    at_left, at_right = (np.concatenate([price, free])[order] for price in (left, right))
    count = max(1, min(len(order), _MOST_PRICED // len(release)))
    kept = np.unique(np.linspace(0, len(order), count + 1).astype(np.int64))
    prices = np.zeros((2, len(kept) - 1, size.shape[1]))
    prices[0, :, r], prices[1, :, r] = at_left[kept[:-1]], at_right[kept[1:] - 1]
    return PricedPieces(edge[kept], prices[0], prices[1])
