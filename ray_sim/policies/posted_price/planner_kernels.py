"""Compiled loop of the planner: best start of each group of points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.model.quotes import Refusal

_LAUNCHED = int(Refusal.NONE)
_PRICE = int(Refusal.PRICE)
_SOLD_OUT = int(Refusal.SOLD_OUT)
_HORIZON = int(Refusal.HORIZON)
_WORTHLESS = int(Refusal.WORTHLESS)


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
    best: I64
    """Open start of the highest expected utility, launched or not; `NEVER_ROUND` where none is open."""
    price: I64
    """Nano, at ``best``; 0 where none is open, or where it would end after the horizon."""
    failure: F64
    """Estimate at ``best``, 0 where none is open."""
    refusal: I64
    """`Refusal`."""


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
def _quote(job: PlannedJob, offer: JobOffer, first: int, end: int, at: int, made: Launch) -> None:
    """Write the offer to points[first:end], whose best start is ``at`` rounds after birth."""
    for i in range(first, end):
        made.best[i] = job.birth + at
        if len(offer.failure) > 0:
            made.failure[i] = offer.failure[at, job.duration[i]]
        finish = at + job.duration[i]
        if finish < len(offer.price_before):
            made.price[i] = job.concurrency * (offer.price_before[finish] - offer.price_before[at])


@outlined
def plan_starts(job: PlannedJob, offer: JobOffer, made: Launch) -> float:
    """Write the plan into one that launches nothing; return the expected utility in nano.

    Points with the same arrival and signal are a group, and start together: the platform cannot tell them
    apart. A start is open to a group if the longest duration that its signal allows touches no sold-out
    round: which durations a user reports opens no start. Starts from which even the shortest duration is
    worth nothing are left out: their utility is not above 0, and at a price of 0 a group that buys at zero
    surplus would book them in vain. Utilities are compared as floats that were summed in the order of points.
    O(S n).
    """
    total = 0.0
    n, rounds = len(job.arrival), len(offer.price_before) - 1
    first = 0
    while first < n:
        end = first
        while end < n and job.arrival[end] == job.arrival[first] and job.signal[end] == job.signal[first]:
            end += 1
        shortest = job.duration[first]
        best, best_start, refusal = -np.inf, -1, _WORTHLESS
        soonest = job.arrival[first] - job.birth
        last = min(len(job.values) - shortest, rounds - shortest + 1)
        for at in range(soonest, last):
            if job.values[at + shortest] == 0:
                break
            if not _open(offer, at, offer.longest[first]):
                continue
            utility = group_utility(job, offer, first, end, at)
            if utility > best:
                best, best_start = utility, at
        if best_start >= 0:
            _quote(job, offer, first, end, best_start, made)
            refusal = _PRICE
            if buys(job, offer, first, end, best):
                made.start[first:end], refusal = job.birth + best_start, _LAUNCHED
                total += best
        elif soonest + shortest < len(job.values) and job.values[soonest + shortest] > 0:
            refusal = _SOLD_OUT if soonest < last else _HORIZON
        made.refusal[first:end] = refusal
        first = end
    return total
