"""Launch plans of all jobs of a run, and what they say when a job comes and when it has ended."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
        for job in jobs.tolist():
            duration, place = self._told(job)
            start = int(self._made.start[place].min(initial=NEVER_ROUND))
            self.start[job] = start
            self._until[job] = 0 if start == NEVER_ROUND else start + int(duration.max())
        return self.start[jobs]

    def _told(self, job: int) -> tuple[IntArray, IntArray]:
        """Durations that a job reported for the arrival and the signal that came; their places in plans."""
        outlooks, points = self._statements.outlooks, self._statements.points(job)
        after = self._arrival[job] - self._statements.birth[job]
        same = (outlooks.arrival[points] == after) & (outlooks.signal[points] == self._signal[job])
        return outlooks.duration[points][same], self._ptr[job] + np.flatnonzero(same)

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
        return np.array([self._price(job, now) for job in jobs.tolist()], dtype=np.int64)

    def _price(self, job: int, now: int) -> int:
        start = int(self.start[job])
        duration, place = self._told(job)
        reported = place[duration == now - start]
        if len(reported):
            return int(self._made.price[reported[0]])
        nodes = int(self._statements.concurrency[job])
        return nodes * int(self.menu_at_birth(job, start, now - start)[0].sum())

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


def value_plan(job: PlannedJob, made: Launch, horizon: int) -> tuple[float, bool]:
    """Return the expected value of a plan in nano, and whether it pays more than the value of a point."""
    in_time = made.start <= horizon - job.duration
    delay = made.start[in_time] + job.duration[in_time] - job.birth
    value = job.values[np.minimum(delay, len(job.values) - 1)]  # the last is 0, as later ones
    worth = sum((job.probability[in_time] * value).tolist(), 0.0)  # NumPy's order of additions may differ
    return worth, bool((value < made.price[in_time]).any())
