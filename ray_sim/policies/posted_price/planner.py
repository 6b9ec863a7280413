"""Planner: the launch plan of a job that maximises its expected utility at the prices of its birth.

Source: Babaioff et al. (WWW 2022), algorithm 1, step 1; section 3: a plan maps (arrival, signal) to a start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.model.quotes import Refusal
from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policy_api import longest_rounds

_LAUNCHED = int(Refusal.NONE)
_PRICE = int(Refusal.PRICE)
_SOLD_OUT = int(Refusal.SOLD_OUT)
_HORIZON = int(Refusal.HORIZON)
_WORTHLESS = int(Refusal.WORTHLESS)

_NO_FAILURE: FloatArray = np.zeros((0, 0))
_NONE_BOUGHT: BoolArray = np.zeros(0, dtype=np.bool_)


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
    bought: Bool
    """(n,) points that buy at zero surplus, where prices are rounded down by less than a nano; else (0,)."""


class Launch(NamedTuple):
    """Plan of one job by point, (n,) each."""

    start: I64
    """Absolute round; `NEVER_ROUND` where not launched. Equal for points of equal (arrival, signal)."""
    best: I64
    """Open start of the highest expected utility, launched or not; `NEVER_ROUND` where none is open."""
    price: I64
    """Nano, at ``best``; 0 where none is open, or where it would end after the horizon."""
    failure: F64
    """Estimate at ``best``, 0 where none is open."""
    refusal: I64
    """`Refusal`."""


def planned_job(statements: Statements, job: int) -> PlannedJob:
    """The statement of one job; its arrays are views, arrivals are absolute."""
    outlooks, birth, points = statements.outlooks, int(statements.birth[job]), statements.points(job)
    return PlannedJob(
        birth=birth,
        concurrency=int(statements.concurrency[job]),
        values=statements.values[statements.value_row[job]],
        arrival=outlooks.arrival[points] + birth,
        duration=outlooks.duration[points],
        probability=outlooks.probability[points],
        signal=outlooks.signal[points],
    )


def rounds_touched(job: PlannedJob, most_duration: int) -> int:
    """How many rounds from the birth on a job may touch: S - 1 + D_m."""
    return len(job.values) - 2 + most_duration


def threshold(failure: FloatArray, eps: float) -> FloatArray:
    """f(q): probabilities of failure of at most eps / 10 count as 0. Source: algorithm 2."""
    kept: FloatArray = np.where(failure > eps / 10.0, failure, 0.0)
    return kept


def new_launch(points: int) -> Launch:
    """A plan of this number of points that launches none."""
    start, best = np.full((2, points), NEVER_ROUND)
    price, refusal = np.zeros((2, points), dtype=np.int64)
    return Launch(start, best, price, np.zeros(points), refusal)


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses launch plans."""

    signal: str
    """``none``, ``partial`` or ``full``: signal of durations at the arrival."""
    most_duration: int
    """D_m, upper bound on durations."""

    def plan(
        self,
        job: PlannedJob,
        node_prices: tuple[IntArray, BoolArray],
        failure: FloatArray | None = None,
        bought: BoolArray | None = None,
    ) -> tuple[Launch, float]:
        """Choose the plan; returns it and its expected utility in units, >= 0.

        Points with the same arrival and signal form a group with one start t >= arrival. It is the earliest
        that maximises the sum over the group of P (V(t + d) - price(t, d)) (1 - E(t, d)), among the starts
        with which no duration that its signal allows touches a sold-out round. A group is not launched
        unless the maximum is > 0.

        Parameters
        ----------
        job : the reported statement
        node_prices : (R,) nano and (R,) sold out, from the birth on, as of `Menu.node_prices`; R is the
            horizon, or at least `rounds_touched`
        failure : (starts, >= longest duration + 1) E by rounds from the birth to the start and by duration,
            after `threshold`, for all starts with a value; None if all are 0
        bought : (n,) points that may buy at zero surplus, for menus that allow it; None for others. A group
            of such points only is launched if the maximum is >= 0. Node prices of these menus are rounded
            down, so any other group is launched only if it exceeds the most that rounding can be worth,
            c d nano.
        """
        price_before, sold_out_before = np.zeros((2, len(node_prices[0]) + 1), dtype=np.int64)
        np.cumsum(node_prices[0], out=price_before[1:])
        np.cumsum(node_prices[1], out=sold_out_before[1:])
        offer = JobOffer(
            price_before,
            sold_out_before,
            _NO_FAILURE if failure is None else failure,
            longest_rounds(self.signal, job.signal, self.most_duration),
            _NONE_BOUGHT if bought is None else bought,
        )
        made = new_launch(len(job.arrival))
        return made, plan_starts(job, offer, made) / NANO


@kernel
def _open(offer: JobOffer, start: int, duration: int) -> bool:
    """Whether no round of a run is sold out; the horizon ends a run."""
    finish = min(start + duration, len(offer.price_before) - 1)
    closed: int = offer.sold_out_before[finish] - offer.sold_out_before[start]
    return closed == 0


@kernel
def group_utility(job: PlannedJob, offer: JobOffer, first: int, end: int, start: int) -> float:
    """Expected utility in nano of points[first:end] that start ``start`` rounds after birth.

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
    """Whether a group launches at this utility; `Planner.plan` states the rule."""
    if len(offer.bought) == 0:
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
