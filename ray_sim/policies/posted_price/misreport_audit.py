"""Audit of the mechanism: what it offered at births, and what sampled jobs could gain by misreports.

Failures are estimated anew, from the plans and the observations alone, by an oracle of the audit: from all
outcomes of the earlier active jobs where these are few, else from other sample paths than those of the
mechanism.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
3: no misreport gains more than 2 mu H in expectation if estimates of failure err by at most mu.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.model.welfare_audit import AuditedJobs, MechanismRecord, Regrets
from ray_sim.policies.posted_price.exact_failure import ExactFailure
from ray_sim.policies.posted_price.failure import FailureOracle
from ray_sim.policies.posted_price.menu import Menu
from ray_sim.policies.posted_price.menu_kernels import book_load
from ray_sim.policies.posted_price.plan import Plan
from ray_sim.policies.posted_price.planner import Planner, planned_job
from ray_sim.policies.posted_price.planner_kernels import Launch, PlannedJob
from ray_sim.policies.posted_price.sampled_failure import SampledFailure
from ray_sim.policies.posted_price.tried_misreports import misreports, same_statement
from ray_sim.policy_api import AnnouncedContext, Streams

MOST_OUTCOMES = 20_000
"""Largest number of joint outcomes of earlier jobs that the audit enumerates."""

TIMES_PATHS = 10
"""Sample paths of the audit for each of the mechanism."""
LEAST_PATHS = 10_000
"""Least number of sample paths of the audit."""

Failures = Callable[[PlannedJob], FloatArray | None]
"""The mechanism's estimates for a report, as the planner takes them; None for zeros."""


class MisreportAudit:
    """Records the births of one run and the gains of misreports; its memory is O(jobs + rounds).

    Parameters
    ----------
    jobs : the true statements, what comes, and the sample
    failures : estimates of the mechanism
    least_failure : eps / 10
    mu : bound on the error of these estimates, 0 where they are exact, None without a bound
    threshold : whether estimates of at most ``least_failure`` count as 0
    """

    def __init__(
        self,
        jobs: AuditedJobs,
        failures: Failures,
        least_failure: float,
        mu: float | None,
        threshold: bool,
    ) -> None:
        self._jobs, self._failures = jobs, failures
        self._least_failure, self._mu, self._threshold = least_failure, mu, threshold
        self._sampled = frozenset(jobs.sample.tolist())
        n = len(jobs.true)
        self._start: IntArray = np.full(n, NEVER_ROUND)
        self._price: IntArray = np.zeros(n, dtype=np.int64)
        self._points = 0
        self._fallen: list[tuple[int, int]] = []
        self._gains: list[tuple[float, str, bool]] = []

    def start(self, world: AnnouncedContext, menu: Menu, paths: int, streams: Streams) -> None:
        """Prepare for a run of a mechanism with so many sample paths."""
        self._world, self._menu, self._streams = world, menu, streams
        self._longest = world.bounds.duration
        self._planner = Planner(world.signal, self._longest)
        self._history = ExactFailure(world.nodes, self._longest)
        self.horizon = menu.capacity.horizon
        self._paths = max(TIMES_PATHS * paths, LEAST_PATHS)
        self._booked: IntArray = np.zeros(menu.capacity.horizon, dtype=np.int64)
        self._seen: IntArray = np.zeros(menu.capacity.horizon, dtype=np.int64)
        """(T,) highest price of a node so far."""

    def born(self, job: int, report: PlannedJob) -> None:
        """Look at the menu of a birth, before the job is planned."""
        rounds = len(report.values) - 1 + self._longest
        self._prices = price, sold_out = self._menu.node_prices(report.birth, rounds)
        seen = self._seen[report.birth : report.birth + rounds]
        fell = np.flatnonzero((price[: len(seen)] < seen) & ~sold_out[: len(seen)])
        if len(fell):
            self._fallen.append((job, report.birth + int(fell[0])))
        np.maximum(seen, price[: len(seen)], out=seen)
        if job in self._sampled:
            self._gains.append(self._best_gains(job, report))

    def planned(self, job: int, concurrency: int, plan: Plan) -> None:
        """Record a plan, and the price of what will come."""
        self._history.add(job, concurrency, plan)
        book_load(concurrency, plan.start, plan.duration, plan.probability, self._booked)
        self._points += len(plan.start)
        arrival, signal = int(self._jobs.arrival[job]), int(self._jobs.signal[job])
        same = np.flatnonzero((plan.arrival == arrival) & (plan.signal == signal))
        if len(same) and plan.start[same[0]] < NEVER_ROUND:
            self._start[job] = start = int(plan.start[same[0]])
            first = start - int(self._jobs.true.birth[job])
            ran = self._prices[0][first : first + int(self._jobs.duration[job])]
            self._price[job] = concurrency * int(ran.sum())

    def observed(
        self, round_: int, arrived: IntArray, signals: IntArray, completed: IntArray, removed: IntArray
    ) -> None:
        """Take the observations of a round, see `FailureOracle.observe`."""
        self._history.observe(round_, arrived, signals, completed, removed)

    def record(self) -> MechanismRecord:
        """All that was recorded, at the end of the run."""
        sampled = len(self._gains) - sum(exact for *_, exact in self._gains)
        gains, kinds, exact = zip(*self._gains, strict=True) if self._gains else ((),) * 3
        bound = None
        if self._mu is not None:
            least = self._least_failure if self._threshold else 0.0
            bound = 2 * (self._mu + least) * self._world.bounds.value
        return MechanismRecord(
            relaxed=self._menu.capacity.relaxed,
            least_failure=self._least_failure,
            booked=self._booked,
            start=self._start,
            price=self._price,
            points=self._points,
            fallen=tuple(self._fallen),
            regrets=Regrets(
                np.array(gains, dtype=np.float64),
                tuple(kinds),
                np.array(exact, dtype=np.bool_),
            ),
            estimate_error=0.5 / math.sqrt(self._paths) if sampled else 0.0,
            regret_bound=bound,
        )

    def _best_gains(self, job: int, report: PlannedJob) -> tuple[float, str, bool]:
        """Gain and kind of the best misreport."""
        truth = planned_job(self._jobs.true, job)
        worth = _Worth(self, truth)
        honest = worth.of(truth, self._menu.bought(report) if same_statement(report, truth) else None)
        best = (0.0, "")
        for lie in misreports(truth, self._world.bounds, self._world.signal):
            best = max(best, (worth.of(lie.report) - honest, lie.kind), key=_gain)
        return *best, worth.exact

    def plan(self, report: PlannedJob, bought: BoolArray | None) -> Launch:
        """Plan that the mechanism would make for this report now.

        Parameters
        ----------
        bought : (n,) points that the menu's programme of expected jobs buys; None for a report that it does
            not know, with which nothing is bought at zero surplus
        """
        failure = self._failures(report)
        if bought is None and self._menu.buys_at_zero:
            bought = np.zeros(len(report.arrival), dtype=np.bool_)
        made, _ = self._planner.plan(report, self._prices, failure, bought)
        return made

    def priced(self, birth: int, start: int, duration: int) -> int:
        """Price of a node from a start on, at the birth of the job that is looked at."""
        return int(self._prices[0][start - birth : start - birth + duration].sum())

    def failures_now(self) -> tuple[FailureOracle, bool]:
        """The audit's own estimates, and whether they are exact."""
        if self._history.outcomes() <= MOST_OUTCOMES:
            return self._history, True
        oracle = SampledFailure(
            self._world.nodes, self._longest, self._paths, self._streams, purpose="audit-failure"
        )
        oracle.draw_anew(self._history.state())
        return oracle, False


def _gain(found: tuple[float, str]) -> float:
    return found[0]


class _Worth:
    """Expected true utility of the reports of one job, by the audit's own estimates of failure."""

    def __init__(self, audit: MisreportAudit, truth: PlannedJob) -> None:
        self._audit, self._truth = audit, truth
        self._oracle, self.exact = audit.failures_now()
        self._known: dict[int, FloatArray] = {}

    def of(self, report: PlannedJob, bought: BoolArray | None = None) -> float:
        """Value of the true finish less the payment, in units, expected over what truly comes.

        An arrival and signal that was not reported is not launched. With fewer nodes than it needs, a job is
        worth nothing.
        """
        truth, made = self._truth, self._audit.plan(report, bought)
        failure, total = self._failure(report.concurrency), 0.0
        last = len(truth.values) - 1
        for i, (arrival, signal, duration) in enumerate(
            zip(truth.arrival.tolist(), truth.signal.tolist(), truth.duration.tolist(), strict=True)
        ):
            group = np.flatnonzero((report.arrival == arrival) & (report.signal == signal))
            horizon = self._audit.horizon
            if not len(group) or made.start[group[0]] + duration > horizon:
                continue
            begin = int(made.start[group[0]])
            chosen = group[report.duration[group] == duration]
            paid = (
                int(made.price[chosen[0]])
                if len(chosen)
                else report.concurrency * self._audit.priced(truth.birth, begin, duration)
            )
            after = min(begin + duration - truth.birth, last)
            value = int(truth.values[after]) if report.concurrency >= truth.concurrency else 0
            fails = float(failure[begin - truth.birth, duration])
            total += float(truth.probability[i]) * (value - paid) * (1 - fails)
        return total / NANO

    def _failure(self, concurrency: int) -> FloatArray:
        if concurrency not in self._known:
            birth = self._truth.birth
            last = birth + len(self._truth.values) - 1
            self._known[concurrency] = self._oracle.failures(birth, concurrency, last)
        return self._known[concurrency]
