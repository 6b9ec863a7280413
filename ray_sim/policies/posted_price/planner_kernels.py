"""Compiled loop of the planner: best start of each group of points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.model.statement import NEVER_ROUND


class PlannedJob(NamedTuple):
    """Statement of one job. Points are sorted by (arrival, signal, duration)."""

    birth: int
    concurrency: int
    values: I64
    """(S + 1,) nano, worth of a finish k rounds after the birth; the last is 0, as later ones."""
    arrival: I64
    """(n,) absolute rounds, >= birth."""
    duration: I64
    """(n,)."""
    probability: F64
    """(n,)."""
    signal: I64
    """(n,)."""


class JobOffer(NamedTuple):
    """What the platform offers to one job. Rounds count from its birth."""

    price_before: I64
    """(R + 1,) nano, price of a node in rounds 0 to r - 1; round R is the horizon, or is not needed."""
    sold_out_before: I64
    """(R + 1,) number of sold-out rounds among 0 to r - 1."""
    failure: F64
    """(starts with a value, >= d + 1) probability of failure by start and duration; (0, 0) if all are 0."""
    longest: I64
    """(n,) longest duration that the platform deems possible with the signal of a point."""
    rounded: bool
    """Whether node prices are rounded down, each by less than a nano."""
    bought: Bool
    """(n,) points that buy at zero surplus; read only if ``rounded``."""


class Launch(NamedTuple):
    """Plan of one job by point, (n,) each."""

    start: I64
    """Absolute round; `NEVER_ROUND` where not launched."""
    price: I64
    """Nano; 0 where it is not launched, or would end after the horizon."""


@outlined
def sum_before(price: I64, sold_out: Bool, price_before: I64, sold_out_before: I64) -> None:
    """Set the prefix sums of an offer; integers, so that differences of them are exact. O(R)."""
    price_before[0] = sold_out_before[0] = 0
    for r in range(len(price)):
        price_before[r + 1] = price_before[r] + price[r]
        sold_out_before[r + 1] = sold_out_before[r] + sold_out[r]


@kernel
def _open(offer: JobOffer, start: int, duration: int) -> bool:
    """Return whether no round of a run is sold out; the horizon ends a run."""
    finish = min(start + duration, len(offer.price_before) - 1)
    closed: int = offer.sold_out_before[finish] - offer.sold_out_before[start]
    return closed == 0


@kernel
def group_utility(job: PlannedJob, offer: JobOffer, first: int, end: int, start: int) -> float:
    """Return the expected utility in nano of points[first:end] that start ``start`` rounds after birth.

    A run that the horizon ends is worth nothing, and pays nothing.
    """
    total = 0.0
    for i in range(first, end):
        finish = start + job.duration[i]
        if finish >= len(offer.price_before):
            break
        value = job.values[finish] if finish < len(job.values) else 0
        paid = job.concurrency * (offer.price_before[finish] - offer.price_before[start])
        surplus = job.probability[i] * float(value - paid)
        if len(offer.failure) > 0:
            surplus *= 1.0 - offer.failure[start, job.duration[i]]
        total += surplus
    return total


@kernel
def buys(job: PlannedJob, offer: JobOffer, first: int, end: int, utility: float) -> bool:
    """Return whether a group launches at this utility; `planner.Planner.plan` states the rule."""
    if not offer.rounded:
        return utility > 0.0
    bought, rounding = True, 0.0
    for i in range(first, end):
        bought = bought and offer.bought[i]
        rounding += job.probability[i] * (job.concurrency * job.duration[i])
    return utility >= 0.0 if bought else utility > rounding


@kernel
def _launch(job: PlannedJob, offer: JobOffer, first: int, end: int, at: int, made: Launch) -> None:
    """Write the plan of points[first:end] that start ``at`` rounds after birth."""
    for i in range(first, end):
        made.start[i] = job.birth + at
        finish = at + job.duration[i]
        if finish < len(offer.price_before):
            made.price[i] = job.concurrency * (offer.price_before[finish] - offer.price_before[at])


@outlined
def plan_starts(job: PlannedJob, offer: JobOffer, made: Launch) -> float:
    """Write the plan; return the expected utility in nano.

    Points with the same arrival and signal are a group, and start together: the platform cannot tell them
    apart. A start is open to a group if the longest duration that its signal allows touches no sold-out
    round: which durations a user reports opens no start. Starts from which even the shortest duration is
    worth nothing are left out: their utility is not above 0, and at a price of 0 a group that buys at zero
    surplus would book them in vain. Utilities are compared as floats that were summed in the order of points.
    O(S n).
    """
    made.start[:], made.price[:] = NEVER_ROUND, 0
    total = 0.0
    n, rounds = len(job.arrival), len(offer.price_before) - 1
    first = 0
    while first < n:
        end = first
        while end < n and job.arrival[end] == job.arrival[first] and job.signal[end] == job.signal[first]:
            end += 1
        shortest = job.duration[first]
        best, best_start = -np.inf, -1
        last = min(len(job.values) - shortest, rounds - shortest + 1)
        for at in range(job.arrival[first] - job.birth, last):
            if job.values[at + shortest] == 0:
                break
            if not _open(offer, at, offer.longest[first]):
                continue
            utility = group_utility(job, offer, first, end, at)
            if utility > best:
                best, best_start = utility, at
        if best_start >= 0 and buys(job, offer, first, end, best):
            _launch(job, offer, first, end, best_start, made)
            total += best
        first = end
    return total
