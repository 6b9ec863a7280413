"""Upper bounds on the total utility that any policy can earn on the same jobs and servers.

Each bound is the optimum of an easier problem, so no feasible schedule can beat it. Meaning and proofs:
docs/certificates.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.utility_relaxation import Relaxed, relax

_ROUND_UP = 1.0 + 1e-9
"""Factor on bounds that are sums, against rounding errors of the sums here and in the run."""

_WHOLE = 1.0 - 1e-9
"""Share of a unit of work that counts as done, below 1 by the rounding error."""

MOST_CELLS = 4_000
"""Jobs times buckets of U3's programme, which takes about 0.7 s at this size; buckets are merged to fit. With
four times as many the bound is 0.2 % lower and takes ten times as long."""

MOST_JOBS = 4_000
"""Largest number of jobs for which U3 is computed; its programme then has two buckets, the minimum."""


@dataclass(frozen=True, slots=True)
class BucketProblem:
    """Relaxed problem: utility and work limits of jobs on one pool of servers, in K buckets of time.

    The work of a job, 1 in total, is done in shares. The job completes in the bucket of the last share.
    """

    worth: FloatArray
    """(J, K) largest utility of a completion in each bucket, >= 0; non-increasing from ``first`` on."""
    first: IntArray
    """(J,) first bucket in which the job can complete alone; K if there is none."""
    most: FloatArray
    """(J, K) largest share of the work that can be done in each bucket, >= 0."""
    resource_time: FloatArray
    """(J, R) least resource x time of the whole work."""
    offer: FloatArray
    """(K, R) available resource x time; infinite where nothing is scarce."""

    def __post_init__(self) -> None:
        for name in ("worth", "most", "resource_time", "offer"):
            if not (getattr(self, name) >= 0).all():
                raise ValueError(f"{name} must be at least 0 in every entry")

    def of(self, jobs: IntArray) -> BucketProblem:
        """Select some jobs."""
        return BucketProblem(
            self.worth[jobs], self.first[jobs], self.most[jobs], self.resource_time[jobs], self.offer
        )

    def merged(self, starts: IntArray) -> BucketProblem:
        """Merge the buckets from one start to the next; a merged bucket has the utility of its earliest one.

        Parameters
        ----------
        starts : first buckets, increasing, beginning with 0
        """
        buckets = self.worth.shape[1]
        possible = np.where(np.arange(buckets) >= self.first[:, None], self.worth, 0.0)
        return BucketProblem(
            worth=np.maximum.reduceat(possible, starts, axis=1),
            first=np.where(
                self.first < buckets, np.searchsorted(starts, self.first, side="right") - 1, len(starts)
            ),
            most=np.add.reduceat(self.most, starts, axis=1),
            resource_time=self.resource_time,
            offer=np.add.reduceat(self.offer, starts, axis=0),
        )


@dataclass(frozen=True, slots=True)
class UtilityBounds:
    """Upper bounds on the total utility."""

    u1: float
    """Utility if every job completed as early as it could alone."""
    u2: float
    """Utility if every job bought its best schedule, at prices of the available capacity."""
    u3: float | None
    """Optimum of the linear programme; None if it is left out."""
    left_out: str | None
    """Reason why U3 is left out."""

    @property
    def bound(self) -> float:
        """Least of the bounds."""
        return min(self.u1, self.u2, np.inf if self.u3 is None else self.u3)


def utility_bounds(claims: BucketProblem) -> UtilityBounds:
    """Compute all bounds; U2 takes the shadow prices of U3's programme, or of a sample's programme.

    Complexity: O(R J K log K) time, and a linear programme of at most `MOST_CELLS` cells.
    """
    u1 = most_worth(claims)
    hopeful = claims.of(np.flatnonzero(claims.first < claims.worth.shape[1]))
    jobs, buckets = hopeful.worth.shape
    if jobs == 0:
        return UtilityBounds(u1, u1, u1, None)
    stride = -(-jobs // MOST_JOBS)
    sample = hopeful.of(np.arange(0, jobs, stride))
    part = BucketProblem(sample.worth, sample.first, sample.most, sample.resource_time, sample.offer / stride)
    starts = _few_starts(claims.offer, max(2, MOST_CELLS // len(sample.first)))
    relaxed, left_out = _relax(part.merged(starts))
    if relaxed is None:
        return UtilityBounds(u1, u1, None, left_out)
    u2 = price_bound(hopeful, np.repeat(relaxed.prices, np.diff([*starts, buckets]), axis=0))
    if stride > 1:
        return UtilityBounds(u1, u2, None, f"more than {MOST_JOBS:,} jobs that can complete")
    return UtilityBounds(u1, u2, relaxed.optimum, None)


def _few_starts(offer: FloatArray, most: int) -> IntArray:
    """First buckets of at most ``most`` merged ones; a last bucket without end is not merged."""
    buckets = len(offer)
    starts = np.arange(0, buckets, -(-buckets // most))
    endless = buckets > 1 and bool(np.isinf(offer[-1]).any())
    return np.union1d(starts, [buckets - 1]) if endless else starts


def _relax(claims: BucketProblem) -> tuple[Relaxed | None, str | None]:
    return relax(claims.worth, claims.first, claims.most, claims.resource_time, claims.offer)


def most_worth(claims: BucketProblem) -> float:
    """U1: total utility if each job completes as early as it could alone."""
    buckets = claims.worth.shape[1]
    hopeful = np.flatnonzero(claims.first < buckets)
    return float(claims.worth[hopeful, claims.first[hopeful]].sum()) * _ROUND_UP


def price_bound(claims: BucketProblem, prices: FloatArray) -> float:
    """U2 at the given prices: cost of the available capacity, plus what jobs earn beyond their costs.

    Any prices give a bound. Each job is charged the cheapest way to do its work by each bucket.

    Parameters
    ----------
    prices : (K, R) price of a unit of each resource for a unit of time, >= 0
    """
    cost = (claims.resource_time[:, None, :] * prices).sum(axis=2)
    buckets = range(cost.shape[1])
    least = least_costs((cost[:, k, None], claims.most[:, k, None]) for k in buckets)
    sold = np.where(prices > 0, claims.offer * np.where(prices > 0, prices, 1.0), 0.0)
    return (_payoffs(claims, least) + float(sold.sum())) * _ROUND_UP


Segments = tuple[FloatArray, FloatArray]
"""(J, B) cost per unit of work and (J, B) units, for each of J jobs."""


def least_costs(by_bucket: Iterable[Segments]) -> FloatArray:
    """(J, K) least cost of a unit of work by each bucket, infinite where it does not fit.

    Parameters
    ----------
    by_bucket : pieces of work that can be bought in each bucket
    """
    least: list[FloatArray] = []
    kept: Segments | None = None
    for pieces in by_bucket:
        cost, units = pieces if kept is None else (np.hstack(pair) for pair in zip(kept, pieces, strict=True))
        order = np.argsort(cost, axis=1, kind="stable")
        cost, units = np.take_along_axis(cost, order, 1), np.take_along_axis(units, order, 1)
        bought = np.clip(units - np.maximum(np.cumsum(units, axis=1) - 1.0, 0.0), 0.0, None)
        least.append(np.where(bought.sum(axis=1) >= _WHOLE, (cost * bought).sum(axis=1), np.inf))
        useful = int(np.flatnonzero((bought > 0).any(axis=0)).max(initial=-1)) + 1
        kept = cost[:, :useful], bought[:, :useful]  # later buckets never need the more expensive rest
    return np.stack(least, axis=1)


def _payoffs(claims: BucketProblem, least: FloatArray) -> float:
    """Total surplus of jobs over their costs, each in its best bucket, or 0."""
    possible = np.arange(claims.worth.shape[1]) >= claims.first[:, None]
    payoff = np.where(possible, claims.worth - least, 0.0)
    return float(np.maximum(payoff.max(axis=1), 0.0).sum())
