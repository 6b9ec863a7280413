"""Record of the births of one run: prices, plans and bookings, for the rules that an audit checks."""

from __future__ import annotations

import numpy as np

from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import IntArray
from ray_sim.model.welfare_audit import MechanismRecord
from ray_sim.policies.posted_price.menu import Menu, book_load
from ray_sim.policies.posted_price.planner import PlannedJob, rounds_touched
from ray_sim.policy_api import AnnouncedContext, RoundedJobs


class BirthRecord:
    """Prices, plans and bookings at births; its memory is O(jobs + rounds).

    Parameters
    ----------
    jobs : the true statements, and what comes
    least_failure : eps / 10
    mu : bound on the error of failure estimates, 0 where they are exact
    threshold : whether estimates of at most ``least_failure`` count as 0
    """

    def __init__(self, jobs: RoundedJobs, least_failure: float, mu: float, threshold: bool) -> None:
        self._jobs, self._least_failure = jobs, least_failure
        self._error = mu + (least_failure if threshold else 0.0)
        n = len(jobs.arrival)
        self._start: IntArray = np.full(n, NEVER_ROUND)
        self._price: IntArray = np.zeros(n, dtype=np.int64)
        self._points = 0
        self._fallen: list[tuple[int, int]] = []

    def start(self, world: AnnouncedContext, menu: Menu) -> None:
        """Prepare for a run."""
        self._bounds, self._menu = world.bounds, menu
        self._booked: IntArray = np.zeros(menu.capacity.horizon, dtype=np.int64)
        self._seen: IntArray = np.zeros(menu.capacity.horizon, dtype=np.int64)
        """(T,) highest price of a node so far."""

    def born(self, job: int, report: PlannedJob) -> None:
        """Look at the menu of a birth, before the job is planned."""
        rounds = rounds_touched(report, self._bounds.duration) + 1
        self._prices, sold_out = self._menu.node_prices(report.birth, rounds)
        seen = self._seen[report.birth : report.birth + rounds]
        fell = np.flatnonzero((self._prices < seen) & ~sold_out)
        if len(fell):
            self._fallen.append((job, report.birth + int(fell[0])))
        np.maximum(seen, self._prices, out=seen)

    def planned(self, job: int, report: PlannedJob, start: IntArray) -> None:
        """Record a plan, (n,) starts, and the price of what will come."""
        book_load(report.concurrency, start, report.duration, report.probability, self._booked)
        self._points += len(start)
        came = (report.arrival == self._jobs.arrival[job]) & (report.signal == self._jobs.signal[job])
        self._start[job] = planned = int(start[came].min(initial=NEVER_ROUND))
        if planned < NEVER_ROUND:
            first = planned - report.birth
            ran = self._prices[first : first + int(self._jobs.duration[job])]
            self._price[job] = report.concurrency * int(ran.sum())

    def record(self) -> MechanismRecord:
        """All that was recorded, at the end of the run."""
        return MechanismRecord(
            relaxed=self._menu.capacity.relaxed,
            least_failure=self._least_failure,
            booked=self._booked,
            start=self._start,
            price=self._price,
            points=self._points,
            fallen=tuple(self._fallen),
            regret_bound=2 * self._error * self._bounds.value,
        )
