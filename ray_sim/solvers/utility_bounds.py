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
"""Of a unit of work, as much as surely leaves none undone."""

MOST_CELLS = 4_000
"""Jobs times buckets of U3's programme, which takes about 0.7 s then; buckets are merged until they fit. On
four times as many it is 0.2 % lower and takes ten times as long."""

MOST_JOBS = 4_000
"""Of U3, with the two buckets that there are at least."""


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


@dataclass(frozen=True, slots=True)
class Tasks:
    """What the workers and parameter servers of jobs take, for prices that differ among servers."""

    worker: FloatArray
    """(J, R) that a worker holds."""
    ps: FloatArray
    """(J, R) that a parameter server holds."""
    workers_per_ps: FloatArray
    """(J,) >= 1."""
    worker_time: FloatArray
    """(J,) time x workers that all the work takes, at the least, > 0."""


def server_price_bound(
    claims: Claims, tasks: Tasks, capacity: FloatArray | IntArray, prices: FloatArray
) -> float:
    """U2 at prices of each server, such as those of a policy that plans by prices; see `price_bound`.

    In every bucket, which is a unit of time, each job is granted the cheapest places for its workers
    were they alone on all servers, and the same for its parameter servers: no more than the slot's linear
    programme at full capacity costs.

    Parameters
    ----------
    capacity : (S, R) of each server, in which the workers and parameter servers are counted
    prices : (K, S, R) of a unit for a unit of time, >= 0
    """
    most_workers = claims.most * tasks.worker_time[:, None]
    room = _room(tasks.worker, capacity), _room(tasks.ps, capacity) * tasks.workers_per_ps[:, None]
    time = tasks.worker_time[:, None]

    def segments(k: int) -> tuple[FloatArray, FloatArray]:
        of_workers = (tasks.worker[:, None, :] * prices[k]).sum(axis=2)
        of_ps = (tasks.ps[:, None, :] * prices[k]).sum(axis=2) / tasks.workers_per_ps[:, None]
        slope, width = _both(
            _cheapest_first(of_workers, room[0], most_workers[:, k]),
            _cheapest_first(of_ps, room[1], most_workers[:, k]),
        )
        return slope * time, width / time

    least = least_costs(segments(k) for k in range(len(prices)))
    return (_payoffs(claims, least) + float((capacity * prices).sum())) * _ROUND_UP


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


def _room(demand: FloatArray, capacity: FloatArray | IntArray) -> FloatArray:
    """(J, S) tasks, not whole, that each server holds if there is nothing else on it; may be infinite."""
    room = np.full((len(demand), len(capacity)), np.inf)
    for r in range(demand.shape[1]):
        some = demand[:, r] > 0
        room[some] = np.minimum(room[some], capacity[:, r] / demand[some, r, None])
    return room


def _cheapest_first(cost: FloatArray, room: FloatArray, most: FloatArray) -> Segments:
    """Costs in rising order and how much is bought at each, up to ``most`` in all."""
    order = np.argsort(cost, axis=1, kind="stable")
    cost, room = np.take_along_axis(cost, order, 1), np.take_along_axis(room, order, 1)
    room = np.minimum(room, most[:, None])
    return cost, np.clip(room - np.maximum(np.cumsum(room, axis=1) - most[:, None], 0.0), 0.0, None)


def _both(one: Segments, other: Segments) -> Segments:
    """Cost of having so much of both at once; as far as there is room for either."""
    ends = np.hstack([np.cumsum(one[1], axis=1), np.cumsum(other[1], axis=1)])
    n = one[0].shape[1]
    order = np.argsort(ends, axis=1, kind="stable")
    ends = np.take_along_axis(ends, order, 1)
    of_one = np.cumsum(order < n, axis=1) - (order < n)
    of_other = np.cumsum(order >= n, axis=1) - (order >= n)
    within = (of_one < n) & (of_other < n)
    slope = np.take_along_axis(one[0], np.minimum(of_one, n - 1), 1)
    slope = slope + np.take_along_axis(other[0], np.minimum(of_other, n - 1), 1)
    width = np.diff(ends, axis=1, prepend=0.0)
    return slope, np.where(within, width, 0.0)
