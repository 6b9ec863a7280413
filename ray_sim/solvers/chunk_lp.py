"""Lower bound on the flow times of chunks: linear programme (4) of A_online, and prices that prove it.

The cost of a chunk is its average fractional flow time plus half its length, over the number D of chunks of
its job: at most its flow time over D. The programme divides chunks among workers and instants without limits,
so no schedule has a smaller sum F of these costs; and F is at most the sum of the jobs' completion times.
Proofs: docs/certificates.md.

Source: Wang, Zhou, Jiao, Zhang, Li, Li, Preemptive Scheduling for Distributed ML Jobs in Edge-Cloud Networks,
IEEE JSAC 40(8), 2022, reformulation (4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import NEVER_US, FloatArray, IntArray
from ray_sim.solvers.linear_programme import linear_optimum

MOST_VARIABLES = 60_000
"""Largest number of jobs x kinds of workers x time steps; the solver takes about two seconds then."""

MERGED_STEPS = 300
"""Number of time steps if slots are too many, or if chunks are not trained in slots."""

_WITHIN_SLOT = ((0.5, 1.0),)
_WITHIN_STEP = ((0.0, 0.125), (0.25, 0.25), (0.5, 0.25), (0.75, 0.25), (1.0, 0.125))
"""Points of a step, as a share of it, at which the value of a worker is taken, with their weights. In a slot
a worker has one chunk, whose mean instant is the middle. Within a longer step the value is convex, so the
trapezoids over its quarters are at least the integral."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of jobs and the workers that can train them. Times in microseconds."""

    release: IntArray
    """(J,) instants from which flow times count."""
    ready: IntArray
    """(J, K) earliest instants at which the chunks can be on a worker slot of each kind; on the grid."""
    count: IntArray
    """(J,) chunks of each job, >= 1."""
    length: IntArray
    """(J, K) time of a chunk on a worker slot of each kind, >= 0, a multiple of the grid; `NEVER_US` if no
    slot of the kind may train it."""
    slots: IntArray
    """(K,) worker slots of each kind, >= 1; K may be 0."""
    elsewhere: FloatArray
    """(J,) least flow time of a chunk without a slot, as in a cloud; inf where no cloud may train it."""
    grid_us: int
    """Time unit at which workers change chunks."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Time steps; the set of jobs that are ready at each kind is constant within each."""

    start: FloatArray
    """(S,)."""
    length: FloatArray
    """(S,)."""
    slots: bool
    """Whether the steps are slots."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Data of the programme, as floats. Shapes (J,) and (J, K) as in `Chunks`."""

    chunks: Chunks
    length: FloatArray
    """(J, K) > 0."""
    most: FloatArray
    """(J,) cost of a chunk without a slot, or after the last step."""

    def at(self, instant: FloatArray) -> FloatArray:
        """(J, K, S) cost of a chunk with these (S,) mean instants of training."""
        waited = instant - self.chunks.release[:, None]
        half = self.length[:, :, None] / 2
        cost: FloatArray = (waited[:, None, :] + half) / self.chunks.count[:, None, None]
        return cost


def mean_flow_bound(chunks: Chunks) -> tuple[float | None, str | None]:
    """Lower bound on the mean completion minus release of the jobs, not rounded down; or why there is none.

    Chunks of a job are identical, and so are workers of a kind: a solution can be averaged over both at equal
    cost. So one variable per job, kind and step is enough.

    Any prices of chunks prove a bound: the total price of all chunks minus the most that workers can earn by
    them. The solver only proposes prices, so its tolerances, the end of time and the length of steps can
    lower the bound but not invalidate it. If there are too many slots, they are merged.
    """
    n_jobs, n_kinds = chunks.length.shape
    if n_jobs == 0:
        return 0.0, None
    if (chunks.length == NEVER_US).all():
        return float(chunks.elsewhere.mean()), None
    steps, most = _steps(chunks)
    if steps is None:
        return None, (
            f"too many variables: {n_jobs:,} jobs, {n_kinds} kinds of workers and {MERGED_STEPS} steps of "
            f"time, at most {MOST_VARIABLES:,}"
        )
    costs = _Costs(chunks, np.maximum(chunks.length, 1).astype(np.float64), most)
    price, why = _solve(costs, steps)
    if price is None:
        return None, why
    return _proved(costs, steps, np.minimum(price, most)) / n_jobs, None


def _steps(chunks: Chunks) -> tuple[_Steps | None, FloatArray]:
    """Time steps until an optimal solution has ended, and the cost of a chunk after them.

    From the last upload on, all workers are busy until one of them is idle; after that no worker is busy for
    longer than half of what a chunk gains on a faster worker, since it would be moved there. If this end were
    too early, the bound would be lower, but still valid.
    """
    n_jobs, n_kinds = chunks.length.shape
    fastest, usable = chunks.length.min(axis=1), chunks.length < NEVER_US
    slowest = np.where(usable, chunks.length, 0).max(axis=1)
    first, last = int(chunks.ready.min()), int(chunks.ready.max())
    moved = float(np.maximum(slowest - fastest, 0).max()) / 2
    n_slots = int((last - first + _longest_busy(chunks, slowest) + moved) // chunks.grid_us) + 2
    end = first + n_slots * chunks.grid_us
    alone = np.where(chunks.length == 0, chunks.ready - chunks.release[:, None], np.inf).min(axis=1)
    after_all = end - chunks.release + fastest / 2
    most = np.minimum.reduce([chunks.elsewhere, alone, after_all]) / chunks.count
    if n_slots * n_jobs * n_kinds <= MOST_VARIABLES:
        slots = (first + chunks.grid_us * np.arange(n_slots)).astype(np.float64)
        return _Steps(slots, np.full(n_slots, float(chunks.grid_us)), True), most
    if MERGED_STEPS * n_jobs * n_kinds > MOST_VARIABLES:
        return None, most
    merged = np.union1d(np.linspace(first, end, MERGED_STEPS + 1), chunks.ready)
    return _Steps(merged[:-1], np.diff(merged), False), most


def _longest_busy(chunks: Chunks, slowest: IntArray) -> float:
    """Longest time for which any set of worker kinds is busy with the jobs that only they may train."""
    usable = chunks.length < NEVER_US
    longest = 0.0
    for kinds in np.unique(usable, axis=0):
        only = ~(usable & ~kinds).any(axis=1)
        if kinds.any():
            work = float((chunks.count[only] * slowest[only]).sum())
            longest = max(longest, work / float(chunks.slots[kinds].sum()))
    return longest


def _solve(costs: _Costs, steps: _Steps) -> tuple[FloatArray | None, str | None]:
    """(J,) prices of chunks, by HiGHS on one thread; or why there are none."""
    from scipy.sparse import coo_array  # slow to import

    chunks = costs.chunks
    n_jobs, n_steps = len(chunks.release), len(steps.start)
    cost = costs.at(steps.start + steps.length / 2)
    ready = steps.start >= chunks.ready[:, :, None]
    job, kind, step = np.nonzero(ready & (cost < costs.most[:, None, None]))
    number, jobs = np.arange(len(job)), np.arange(n_jobs)
    share = coo_array(
        (np.ones(len(job) + n_jobs), (np.concatenate([job, jobs]), np.arange(len(job) + n_jobs))),
        shape=(n_jobs, len(job) + n_jobs),
    )
    unit = float(costs.length[chunks.length < NEVER_US].mean())
    time = coo_array(
        (costs.length[job, kind] / unit, (kind * n_steps + step, number)),
        shape=(len(chunks.slots) * n_steps, len(job) + n_jobs),
    )
    result = linear_optimum(
        np.concatenate([cost[job, kind, step], costs.most]) / unit,
        A_ub=time.tocsr(),
        b_ub=np.outer(chunks.slots, steps.length / unit).ravel(),
        A_eq=share.tocsr(),
        b_eq=chunks.count,
        method="highs-ds",
    )
    if result.status != 0:
        return None, f"HiGHS did not solve it: {result.message}"
    price: FloatArray = result.eqlin.marginals * unit
    return price, None


def _proved(costs: _Costs, steps: _Steps, price: FloatArray) -> float:
    """Total price of all chunks minus the most that workers earn; valid for any prices up to `most`."""
    chunks = costs.chunks
    ready = steps.start >= chunks.ready[:, :, None]
    earned = 0.0
    for share, weight in _WITHIN_SLOT if steps.slots else _WITHIN_STEP:
        gain = (price[:, None, None] - costs.at(steps.start + share * steps.length)) / costs.length[
            :, :, None
        ]
        rate = np.where(ready, gain, 0.0).max(axis=0, initial=0.0)
        earned += weight * float((chunks.slots[:, None] * rate * steps.length).sum())
    return float((chunks.count * price).sum()) - earned
