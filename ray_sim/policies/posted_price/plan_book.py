"""Launch plans of all jobs of a run, and what they say when a job comes and when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.handle import handle
from ray_sim.model.quotes import Quotes, Refusal
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.menu import Menu
from ray_sim.policies.posted_price.planner import Launch, PlannedJob, Planner, new_launch, rounds_touched
from ray_sim.policy_api import State, Statements, all_within, within


class PlanBook:
    """Plans of jobs, with the prices of their births.

    Parameters
    ----------
    statements : reports of all jobs
    menu : it is booked with each plan
    signal, most_duration : as of `Planner`
    """

    def __init__(self, statements: Statements, menu: Menu, signal: str, most_duration: int) -> None:
        self._statements, self._menu, self._most_duration = statements, menu, most_duration
        self._planner = Planner(signal, most_duration)
        sizes = np.diff(statements.outlooks.ptr)[statements.outlook_row]
        self._ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._made = new_launch(int(self._ptr[-1]))
        n = len(statements)
        self._utility: FloatArray = np.zeros(n)
        """(J,) expected utility of each plan, in units."""
        self._signal: IntArray = np.zeros(n, dtype=np.int64)
        self._arrival, self.start, self._until = np.full((3, n), NEVER_ROUND)
        """(J,) rounds in which jobs came, start, and have run for the longest time that they reported."""
        self._kept = {
            **self._made._asdict(),
            "utility": self._utility,
            "signal": self._signal,
            "arrival": self._arrival,
            "launched": self.start,
            "until": self._until,
        }
        self._points: PlannedPoints = handle(
            PlannedPoints(
                statements.birth.copy(),
                statements.outlook_row.copy(),
                statements.outlooks.ptr.copy(),
                statements.outlooks.arrival.copy(),
                statements.outlooks.duration.copy(),
                statements.outlooks.signal.copy(),
                self._ptr,
                self._made.start,
                self._made.price,
            )
        )
        self._planned = 0
        """Jobs 0 .. planned - 1 have been submitted."""
        self._overrun: IntArray = np.zeros((4, 0), dtype=np.int64)
        """(4, n) jobs that have outlasted their reports: how many jobs had been submitted before, the first
        round booked for each, their end, and the load in 1e-9 nodes."""
        self.worth_nano = 0
        """Expected value of all plans, were no job to fail."""
        self.below_price = 0
        """Plans that buy a point above its value, for the sake of others of one group."""

    def make(self, job: int, report: PlannedJob, failure: FloatArray | None) -> IntArray | None:
        """Plan a job, after all that were submitted before, and book it; None if it is not to start ever.

        Returns (n,) starts of its points. ``failure`` is as for `Planner.plan`.
        """
        self._planned = job + 1
        prices = self._menu.node_prices(report.birth, rounds_touched(report, self._most_duration))
        made, self._utility[job] = self._planner.plan(report, prices, failure, self._menu.bought(report))
        for kept, new in zip(self._made, made, strict=True):
            kept[self._ptr[job] : self._ptr[job + 1]] = new
        if (made.start == NEVER_ROUND).all():
            return None
        self._menu.book(report.concurrency, made.start, report.duration, report.probability)
        worth, below_price = value_plan(report, made, self._menu.capacity.horizon)
        self.worth_nano += round(worth)
        self.below_price += below_price
        return made.start

    def come(self, jobs: IntArray, now: int, signals: IntArray) -> IntArray:
        """Starts of jobs that come now with these signals, (k,) each; `NEVER_ROUND` for none."""
        self._arrival[jobs], self._signal[jobs] = now, signals
        find_starts(self._points, jobs, now, signals, self.start, self._until)
        return self.start[jobs]

    def run_on(self, running: IntArray, now: int) -> None:
        """Book jobs that have outlasted their reports up to D_m, as certain."""
        for job in running[self._until[running] <= now].tolist():
            nodes, end = int(self._statements.concurrency[job]), int(self.start[job]) + self._most_duration
            self._menu.book(nodes, np.array([now]), np.array([end - now]), np.ones(1))
            booked = np.array([[self._planned], [now], [end], [nodes * NANO]])
            self._overrun = np.concatenate([self._overrun, booked], axis=1)
            self._until[job] = NEVER_ROUND

    def prices(self, jobs: IntArray, now: int) -> IntArray:
        """(k,) payments of jobs that complete now, in 1e-9: what each ran at the prices of its birth."""
        price = np.empty(len(jobs), dtype=np.int64)
        find_prices(self._points, jobs, now, self._arrival, self._signal, self.start, price)
        for i in np.flatnonzero(price < 0).tolist():
            job, first = int(jobs[i]), int(self.start[jobs[i]])
            nodes = int(self._statements.concurrency[job])
            price[i] = nodes * int(self.menu_at_birth(job, first, now - first)[0].sum())
        return price

    def quotes(self, arrival: IntArray, signal: IntArray) -> Quotes:
        """Offers to jobs at their births for these arrivals and signals, (J,) each."""
        told, birth, made, n = self._statements, self._statements.birth, self._made, len(arrival)
        jobs, point = self._points_from(0)
        same = told.outlooks.arrival[point] == (arrival - birth)[jobs]
        here = np.flatnonzero(same & (told.outlooks.signal[point] == signal[jobs]))
        jobs, point = jobs[here], point[here]
        weight = told.outlooks.probability[point]
        share = weight / np.bincount(jobs, weight, minlength=n)[jobs]
        refusal, start = np.full(n, int(Refusal.UNREPORTED)), np.full(n, NEVER_ROUND)
        refusal[jobs], start[jobs] = made.refusal[here], made.best[here]
        end = made.best[here] + told.outlooks.duration[point]
        in_time = end <= self._menu.capacity.horizon
        value = np.where(in_time, told.worth(jobs, end - birth[jobs]), 0)
        means: FloatArray = np.zeros((3, n))
        for mean, each in zip(means, (made.price[here], value, made.failure[here]), strict=True):
            np.add.at(mean, jobs, share * each)
        return Quotes(
            submitted=self._planned,
            refusal=refusal,
            start=start,
            price=np.rint(means[0]) / NANO,
            value=np.rint(means[1]) / NANO,
            failure=means[2],
            utility=self._utility,
        )

    def _points_from(self, first: int) -> tuple[IntArray, IntArray]:
        """Job and point of its distribution, of all points of the jobs submitted from ``first`` on."""
        jobs = np.repeat(np.arange(first, self._planned), np.diff(self._ptr[first : self._planned + 1]))
        row = self._statements.outlook_row[jobs]
        own = np.arange(self._ptr[first], self._ptr[self._planned])
        return jobs, own - self._ptr[jobs] + self._statements.outlooks.ptr[row]

    def menu_at_birth(self, job: int, first: int, rounds: int) -> tuple[IntArray, BoolArray]:
        """Node prices and sold-out flags before a job was booked, (rounds,): later loads are taken back."""
        since = slice(int(self._ptr[job]), int(self._ptr[self._planned]))
        jobs, point = self._points_from(job)
        start, run = self._made.start[since], self._statements.outlooks.duration[point]
        nodes = self._statements.concurrency[jobs] * NANO
        load = np.rint(self._statements.outlooks.probability[point] * nodes).astype(np.int64)
        _, later, until, more = self._overrun[:, self._overrun[0] > job]
        begin = np.clip(np.append(start, later) - first, 0, rounds)
        end = np.append(np.where(start == NEVER_ROUND, first, start + run), until)
        end, load = np.clip(end - first, 0, rounds), np.append(load, more)
        steps = np.zeros(rounds + 1, dtype=np.int64)
        inside = begin < end
        np.add.at(steps, begin[inside], load[inside])
        np.subtract.at(steps, end[inside], load[inside])
        booked = self._menu.booked[first : first + rounds] - np.cumsum(steps)[:-1]
        return self._menu.priced(first, booked), booked > self._menu.capacity.safe_load

    def state(self) -> State:
        """Arrays that `restore` takes."""
        scalars = np.array([self._planned, self.worth_nano, self.below_price])
        return {name: array.copy() for name, array in self._kept.items()} | {
            "overrun": self._overrun.copy(),
            "scalars": scalars,
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within({name: state[name] for name in self._kept if name != "signal"}, -1)
        within(state, "refusal", 0, max(Refusal))
        within({"planned": state["scalars"][:1]}, "planned", 0, len(self.start))
        for name, array in self._kept.items():
            array[:] = state[name]
        self._overrun = state["overrun"].copy()
        self._planned, self.worth_nano, self.below_price = state["scalars"].tolist()


class PlannedPoints(NamedTuple):
    """Reports of J jobs and their plans. Point k of job j is ``ptr[j] + k``, and ``of_row[row[j]] + k``."""

    birth: I64
    """(J,) rounds."""
    row: I64
    """(J,) distribution of each job."""
    of_row: I64
    """(O + 1,) first point of each distribution."""
    arrival: I64
    """(n,) rounds after the birth, by point of a distribution, as the next two."""
    duration: I64
    signal: I64
    ptr: I64
    """(J + 1,) first point of each job."""
    start: I64
    """By point of a job, as the next: absolute round, `NEVER_ROUND` where it is not launched."""
    price: I64
    """Nano."""


@kernel
def find_starts(points: PlannedPoints, jobs: I64, now: int, signals: I64, start: I64, until: I64) -> None:
    """Look up starts of jobs, (k,), that come now with these signals; O(points of a job) each.

    ``start``, (J,), gets the start of each, `NEVER_ROUND` if it has none; ``until``, (J,), the round in which
    the longest duration ends that it reported for this arrival and signal.
    """
    for i in range(len(jobs)):
        job = jobs[i]
        start[job] = NEVER_ROUND
        until[job] = 0
        first = points.of_row[points.row[job]]
        for k in range(points.of_row[points.row[job] + 1] - first):
            here = points.arrival[first + k] == now - points.birth[job]
            planned = points.start[points.ptr[job] + k]
            if here and points.signal[first + k] == signals[i] and planned != NEVER_ROUND:
                start[job] = planned
                until[job] = max(until[job], start[job] + points.duration[first + k])


@kernel
def find_prices(
    points: PlannedPoints, jobs: I64, now: int, arrival: I64, signal: I64, start: I64, price: I64
) -> None:
    """Write ``price``, (k,) nano, of jobs that complete now; -1 where a job did not report this duration.

    ``arrival``, ``signal`` and ``start``, (J,), are as jobs came and started. O(points of a job) each.
    """
    for i in range(len(jobs)):
        job = jobs[i]
        price[i] = -1
        first = points.of_row[points.row[job]]
        for k in range(points.of_row[points.row[job] + 1] - first):
            here = points.arrival[first + k] == arrival[job] - points.birth[job]
            same_signal = points.signal[first + k] == signal[job]
            if here and same_signal and points.duration[first + k] == now - start[job]:
                price[i] = points.price[points.ptr[job] + k]


@kernel
def value_plan(job: PlannedJob, made: Launch, horizon: int) -> tuple[float, bool]:
    """Return the expected value of a plan in nano, and whether it pays more than the value of a point."""
    worth, below = 0.0, False
    for k in range(len(made.start)):
        if made.start[k] <= horizon - job.duration[k]:
            delay = made.start[k] + job.duration[k] - job.birth
            value = job.values[delay] if delay < len(job.values) else 0
            worth += job.probability[k] * value
            below = below or value < made.price[k]
    return worth, below
