"""Launch plans of all jobs of a run, and what they say when a job comes and when it has ended."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.kernels.handle import handle
from ray_sim.model.quotes import Quotes, Refusal
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.menu import Menu
from ray_sim.policies.posted_price.plan import Plan
from ray_sim.policies.posted_price.plan_kernels import PlannedPoints, find_prices, find_starts, value_plan
from ray_sim.policies.posted_price.planner import Planner, new_launch, planned_job, rounds_touched
from ray_sim.policies.posted_price.planner_kernels import PlannedJob
from ray_sim.policy_api import State, Statements


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
        self._utility: FloatArray = np.zeros(len(statements))
        """(J,) expected utility of each plan, in units."""
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

    def planned_job(self, job: int) -> PlannedJob:
        """The report of a job."""
        return planned_job(self._statements, job)

    def make(self, job: int, report: PlannedJob, failure: FloatArray | None) -> Plan | None:
        """Plan a job, after all that were submitted before, and book it; None if it is not to start ever.

        Parameters
        ----------
        failure : estimates as `Planner.plan` takes them, None where nothing can fail
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
        return Plan(report.arrival, report.duration, report.signal, report.probability, made.start)

    def find_starts(
        self, jobs: IntArray, now: int, signals: IntArray, start: IntArray, until: IntArray
    ) -> None:
        """Write starts and latest ends of jobs that come, into (J,) each; see `find_starts`."""
        find_starts(self._points, jobs, now, signals, NEVER_ROUND, start, until)

    def run_on(self, job: int, now: int, end: int) -> None:
        """Book a job that has outlasted its report now until ``end``, as certain."""
        nodes = int(self._statements.concurrency[job])
        self._menu.book(nodes, np.array([now]), np.array([end - now]), np.ones(1))
        booked = np.array([[self._planned], [now], [end], [nodes * NANO]])
        self._overrun = np.concatenate([self._overrun, booked], axis=1)

    def prices(
        self, jobs: IntArray, now: int, arrival: IntArray, signal: IntArray, start: IntArray
    ) -> IntArray:
        """(k,) payments of jobs that complete now, 1e-9 of a unit: what each ran, at the prices of its birth.

        Parameters
        ----------
        jobs : (k,)
        arrival, signal, start : (J,) as they came and started
        """
        price = np.empty(len(jobs), dtype=np.int64)
        find_prices(self._points, jobs, now, arrival, signal, start, price)
        for i in np.flatnonzero(price < 0).tolist():
            job, first = int(jobs[i]), int(start[jobs[i]])
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
        delay = np.minimum(end - birth[jobs], told.values.shape[1] - 1)
        value = np.where(end <= self._menu.capacity.horizon, told.values[told.value_row[jobs], delay], 0)
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
        arrays = {**self._made._asdict(), "utility": self._utility, "overrun": self._overrun}
        return {name: array.copy() for name, array in arrays.items()} | {"scalars": scalars}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for name, kept in self._made._asdict().items():
            kept[:] = state[name]
        self._utility[:] = state["utility"]
        self._overrun = state["overrun"].copy()
        self._planned, self.worth_nano, self.below_price = (int(value) for value in state["scalars"])
