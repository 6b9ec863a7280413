"""Upper bounds on the total utility that any policy can earn on the same jobs and servers.

Each bound is the optimum of an easier problem, so no feasible schedule can beat it. What the bounds mean
and their proofs: docs/certificates.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.utility_relaxation import Relaxed, relax

_ROUND_UP = 1.0 + 1e-9
"""On bounds that are sums: against the rounding of the sums, here and in the run."""

_WHOLE = 1.0 - 1e-9
"""Share of a unit of work that counts as done, below 1 by the rounding error."""

MOST_CELLS = 4_000
"""Jobs times buckets of U3's programme, which takes about 0.7 s then; buckets are merged until they fit. On
four times as many it is 0.2 % lower and takes ten times as long."""

MOST_JOBS = 4_000
"""Most jobs for which U3 is computed; its programme then has two buckets, the least."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What jobs could earn at best on one pool of servers, in K buckets of time.

    A job does its work, 1 in all, in shares. It completes in the bucket in which the last of it is done.
    """

    worth: FloatArray
    """(J, K) the most that completing in each bucket earns, >= 0; non-increasing from ``first`` on."""
    first: IntArray
    """(J,) the first bucket in which the job can complete, were it alone; K if in none."""
    most: FloatArray
    """(J, K) the largest share of its work that can be done in each bucket, >= 0."""
    need: FloatArray
    """(J, R) resource x time that all its work takes at least."""
    offer: FloatArray
    """(K, R) resource x time that there is; infinite where nothing is scarce."""

    def __post_init__(self) -> None:
        for name in ("worth", "most", "need", "offer"):
            if not (getattr(self, name) >= 0).all():
                raise ValueError(f"{name} must be at least 0 everywhere")

    def of(self, jobs: IntArray) -> Claims:
        """Those of some jobs."""
        return Claims(self.worth[jobs], self.first[jobs], self.most[jobs], self.need[jobs], self.offer)

    def merged(self, starts: IntArray) -> Claims:
        """The same with all buckets from one start to the next made one, which pays like its earliest one.

        Parameters
        ----------
        starts : first buckets, rising, of which 0 is the first
        """
        buckets = self.worth.shape[1]
        possible = np.where(np.arange(buckets) >= self.first[:, None], self.worth, 0.0)
        return Claims(
            worth=np.maximum.reduceat(possible, starts, axis=1),
            first=np.where(
                self.first < buckets, np.searchsorted(starts, self.first, side="right") - 1, len(starts)
            ),
            most=np.add.reduceat(self.most, starts, axis=1),
            need=self.need,
            offer=np.add.reduceat(self.offer, starts, axis=0),
        )


@dataclass(frozen=True, slots=True)
class UtilityBounds:
    """Upper bounds on the total utility."""

    u1: float
    """Every job completes as early as it could alone."""
    u2: float
    """Every job buys the schedule that pays best, at prices of what all servers offer."""
    u3: float | None
    """Optimum of the linear programme; None where it is left out."""
    left_out: str | None
    """Why U3 is."""

    @property
    def bound(self) -> float:
        """The least of them."""
        return min(self.u1, self.u2, np.inf if self.u3 is None else self.u3)


def utility_bounds(claims: Claims) -> UtilityBounds:
    """All bounds; U2 at the shadow prices of the programme of U3, or of that of an evenly spread sample.

    O(R J K log K) time and a linear programme of at most `MOST_CELLS` cells.
    """
    u1 = most_worth(claims)
    hopeful = claims.of(np.flatnonzero(claims.first < claims.worth.shape[1]))
    jobs, buckets = hopeful.worth.shape
    if jobs == 0:
        return UtilityBounds(u1, u1, u1, None)
    stride = -(-jobs // MOST_JOBS)
    sample = hopeful.of(np.arange(0, jobs, stride))
    part = Claims(sample.worth, sample.first, sample.most, sample.need, sample.offer / stride)
    starts = _few_starts(claims.offer, max(2, MOST_CELLS // len(sample.first)))
    relaxed, left_out = _relax(part.merged(starts))
    if relaxed is None:
        return UtilityBounds(u1, u1, None, left_out)
    u2 = price_bound(hopeful, np.repeat(relaxed.prices, np.diff([*starts, buckets]), axis=0))
    if stride > 1:
        return UtilityBounds(u1, u2, None, f"more than {MOST_JOBS:,} jobs that can complete")
    return UtilityBounds(u1, u2, relaxed.optimum, None)


def _few_starts(offer: FloatArray, most: int) -> IntArray:
    """First buckets of at most so many, but that a last bucket without end stays by itself."""
    buckets = len(offer)
    starts = np.arange(0, buckets, -(-buckets // most))
    endless = buckets > 1 and bool(np.isinf(offer[-1]).any())
    return np.union1d(starts, [buckets - 1]) if endless else starts


def _relax(claims: Claims) -> tuple[Relaxed | None, str | None]:
    return relax(claims.worth, claims.first, claims.most, claims.need, claims.offer)


def most_worth(claims: Claims) -> float:
    """U1: what all jobs earn together if each completes as early as it could alone."""
    buckets = claims.worth.shape[1]
    hopeful = np.flatnonzero(claims.first < buckets)
    return float(claims.worth[hopeful, claims.first[hopeful]].sum()) * _ROUND_UP


def price_bound(claims: Claims, prices: FloatArray) -> float:
    """U2 at the given prices: what is on offer at its price, and what the jobs then earn beyond their costs.

    Any prices give a bound. Each job is granted the cheapest way to do its work by each bucket.

    Parameters
    ----------
    prices : (K, R) of a unit of each resource for a unit of time, >= 0
    """
    cost = (claims.need[:, None, :] * prices).sum(axis=2)
    buckets = range(cost.shape[1])
    least = least_costs((cost[:, k, None], claims.most[:, k, None]) for k in buckets)
    sold = np.where(prices > 0, claims.offer * np.where(prices > 0, prices, 1.0), 0.0)
    return (_payoffs(claims, least) + float(sold.sum())) * _ROUND_UP


Segments = tuple[FloatArray, FloatArray]
"""(J, B) cost per unit and (J, B) units, of each of J jobs."""


def least_costs(by_bucket: Iterable[Segments]) -> FloatArray:
    """(J, K) least cost of a unit of work by each bucket, infinite where there is no room for it.

    Parameters
    ----------
    by_bucket : of each bucket the pieces of work that can be bought in it
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
        kept = cost[:, :useful], bought[:, :useful]  # what is too dear now is so for ever
    return np.stack(least, axis=1)


def _payoffs(claims: Claims, least: FloatArray) -> float:
    """What jobs earn beyond their costs, each by the bucket that pays it best, or none."""
    possible = np.arange(claims.worth.shape[1]) >= claims.first[:, None]
    payoff = np.where(possible, claims.worth - least, 0.0)
    return float(np.maximum(payoff.max(axis=1), 0.0).sum())
