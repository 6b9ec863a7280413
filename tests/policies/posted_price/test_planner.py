"""Planner: example 4.C, exact brute force, and what no report gains."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest

from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.planner import (
    Launch,
    PlannedJob,
    Planner,
    planned_job,
    rounds_touched,
    threshold,
)
from tests.policies.posted_price.random_jobs import (
    Points,
    Signal,
    Sizes,
    job_of,
    planner_for,
    random_job,
    random_points,
    random_values,
    statements_of,
)
from tests.proofs import instances

SMALL = Sizes(births=3, concurrency=3, duration=4, value=8, delay=2, points=5, rounds=6)
ROUNDS = 14
"""Rounds with a price, more than any job of `SMALL` touches."""

Prices = tuple[IntArray, BoolArray]


def prices_of(node: list[float], sold_out: list[int] | None = None) -> Prices:
    flags: BoolArray = np.zeros(len(node), dtype=np.bool_)
    flags[sold_out or []] = True
    return np.rint(np.array(node) * NANO).astype(np.int64), flags


def from_birth(prices: Prices, job: PlannedJob) -> Prices:
    return prices[0][job.birth :], prices[1][job.birth :]


LONGEST = 2 * SMALL.duration
"""D_m of random worlds."""


def plan(
    job: PlannedJob, prices: Prices, failure: FloatArray | None = None, planner: Planner | None = None
) -> tuple[IntArray, IntArray, float]:
    made, utility = (planner or planner_for(job)).plan(job, from_birth(prices, job), failure)
    return made.start, paid(made), utility


def paid(made: Launch) -> IntArray:
    """Prices of the points that are launched, 0 of the others."""
    return np.where(made.start < NEVER_ROUND, made.price, 0)


def random_prices(rng: np.random.Generator, closed: float = 0.1) -> Prices:
    """Few distinct prices, so that starts tie; multiples of 1/4."""
    return prices_of(
        (rng.integers(0, 5, ROUNDS) / 4).tolist(), np.flatnonzero(rng.random(ROUNDS) < closed).tolist()
    )


def random_failure(rng: np.random.Generator, concurrencies: int = 1) -> FloatArray:
    """(concurrencies, start, duration) multiples of 1/8, non-decreasing in nodes and duration."""
    steps = rng.integers(0, 3, (concurrencies, ROUNDS, 2 * SMALL.duration + 1)) / 8
    return np.minimum(np.cumsum(np.cumsum(steps, axis=0), axis=2) / 2, 1.0)


class TestExample4C:
    """V = 3, menu price 0.5, probability of failure 0.6."""

    JOB = job_of(2, 1, [3, 3, 0], {(2, 1): 1.0})

    def test_utility(self) -> None:
        failure = np.array([[0.0, 0.6]])
        start, paid, utility = plan(self.JOB, prices_of([0, 0, 0.5]), failure)
        assert (start.tolist(), paid.tolist()) == ([2], [NANO // 2])
        assert utility == pytest.approx(1.0, abs=1e-15)

    def test_threshold(self) -> None:
        assert threshold(np.array([0.0, 0.04, 0.05, 0.06, 0.6]), 0.5).tolist() == [0, 0, 0, 0.06, 0.6]
        kept = threshold(np.array([[0.0, 0.04]]), 0.5)
        assert plan(self.JOB, prices_of([0, 0, 0.5]), kept)[2] == 2.5


def exact_plan(
    job: PlannedJob, prices: Prices, failure: FloatArray | None, signal: Signal
) -> tuple[list[int], list[int], Fraction]:
    """The rule written out, in fractions."""
    node, sold_out = from_birth(prices, job)
    points = [
        (int(a), int(s), int(d), Fraction(float(p)))
        for a, s, d, p in zip(job.arrival, job.signal, job.duration, job.probability, strict=True)
    ]
    starts, paid, total = [], [], Fraction(0)
    for (arrival, told), group in groupby(points, key=lambda point: point[:2]):
        longest = {"full": told, "none": LONGEST, "partial": min(2**told - 1, LONGEST)}[signal.value]
        members = list(group)
        best, best_start = Fraction(0), None
        for start in range(arrival - job.birth, len(node)):
            utility = Fraction(0)
            if sold_out[start : start + longest].any():
                continue
            for _, _, d, p in members:
                if start + d > len(node):  # cancelled at the horizon
                    continue
                value = int(job.values[start + d]) if start + d < len(job.values) else 0
                charge = job.concurrency * sum(node[start : start + d].tolist())
                fails = Fraction(0) if failure is None else Fraction(float(failure[start, d]))
                utility += p * (value - charge) * (1 - fails)
            if utility > best:
                best, best_start = utility, start
        total += best
        for _, _, d, _ in members:
            if best_start is None:
                starts.append(NEVER_ROUND)
                paid.append(0)
            else:
                starts.append(job.birth + best_start)
                run = node[best_start : best_start + d].tolist()
                paid.append(job.concurrency * sum(run) if len(run) == d else 0)
    return starts, paid, total / NANO


@pytest.mark.parametrize("signal", Signal)
def test_plans_equal_the_exact_ones(signal: Signal) -> None:
    planner = Planner(signal.value, LONGEST)
    for seed in range(instances(2000, 30)):
        rng = np.random.default_rng(seed)
        job, prices = random_job(rng, signal, SMALL), random_prices(rng)
        failure = random_failure(rng)[0] if rng.random() < 0.5 else None
        made, utility = planner.plan(job, from_birth(prices, job), failure)
        exact = exact_plan(job, prices, failure, signal)
        assert (made.start.tolist(), paid(made).tolist(), utility) == (*exact[:2], float(exact[2])), seed


class TestPlans:
    """One job of one node, born in round 0."""

    JOB = job_of(0, 1, [4, 4, 4, 4, 4, 0], {(1, 1): 1.0})

    def test_the_earliest_of_equal_starts(self) -> None:
        assert plan(self.JOB, prices_of([0, 2, 1, 1, 3]))[0].tolist() == [2]

    def test_zero_surplus_is_not_bought(self) -> None:
        start, paid, utility = plan(self.JOB, prices_of([4] * 5))
        assert (start.tolist(), paid.tolist(), utility) == ([NEVER_ROUND], [0], 0.0)
        assert plan(self.JOB, prices_of([4, 4, 4 - 1e-9, 4, 4]))[0].tolist() == [2]

    def test_zero_surplus_is_bought_where_the_menu_says_so(self) -> None:
        def start(node: float, bought: bool) -> list[int]:
            found = planner_for(self.JOB).plan(self.JOB, prices_of([node] * 5), bought=np.array([bought]))[0]
            return [int(at) for at in found.start]

        assert start(4, True) == [1]
        assert start(4, False) == [NEVER_ROUND]
        # Prices that are rounded down by less than a nano leave an apparent surplus of one.
        assert start(4 - 1e-9, False) == [NEVER_ROUND]
        assert start(4 - 2e-9, False) == [1]
        assert start(4 + 1e-9, True) == [NEVER_ROUND]

    def test_a_finish_without_value_is_not_bought_at_a_price_of_zero(self) -> None:
        node, sold_out = prices_of([0] * 9, sold_out=[1, 2, 3])
        (start, *_), _ = planner_for(self.JOB).plan(self.JOB, (node, sold_out), bought=np.array([True]))
        assert start.tolist() == [NEVER_ROUND]

    def test_no_point_of_a_group_touches_a_sold_out_round(self) -> None:
        points = {(0, 1): 0.5, (0, 3): 0.5}
        prices = prices_of([0] * 9, sold_out=[2])
        assert plan(job_of(0, 1, [4] * 8 + [0], points, Signal.NONE), prices)[0].tolist() == [3, 3]
        assert plan(job_of(0, 1, [4] * 8 + [0], points, Signal.FULL), prices)[0].tolist() == [0, 3]

    def test_a_run_that_the_horizon_ends_is_worth_nothing_and_pays_nothing(self) -> None:
        job = job_of(0, 1, [4] * 8 + [0], {(2, 3): 1.0})
        assert plan(job, prices_of([0] * 5))[0].tolist() == [2]
        assert plan(job, prices_of([0] * 4))[0].tolist() == [NEVER_ROUND]
        either = job_of(0, 1, [4] * 8 + [0], {(2, 1): 0.25, (2, 3): 0.75}, Signal.NONE)
        start, paid, utility = plan(either, prices_of([1] * 4))
        assert (start.tolist(), paid.tolist(), utility) == ([2, 2], [NANO, 0], 0.25 * (4 - 1))

    def test_a_start_is_open_if_all_durations_that_its_signal_allows_are(self) -> None:
        """Round 2 is sold out. Told two binary digits, a job of 2 rounds may last 3; none, D_m = 4."""
        prices = prices_of([0] * 9, sold_out=[2])
        for signal, starts in ((Signal.FULL, 0), (Signal.PARTIAL, 3), (Signal.NONE, 3)):
            job = job_of(0, 1, [4] * 8 + [0], {(0, 2): 1.0}, signal)
            assert plan(job, prices, planner=Planner(signal.value, 4))[0].tolist() == [starts]
        beside = prices_of([0] * 9, sold_out=[3])
        partial = job_of(0, 1, [4] * 8 + [0], {(0, 2): 1.0}, Signal.PARTIAL)
        assert plan(partial, beside, planner=Planner("partial", 4))[0].tolist() == [0]

    def test_rounds_touched_are_enough(self) -> None:
        for seed in range(instances(500, 20)):
            rng = np.random.default_rng(seed)
            job, (node, sold_out) = random_job(rng, Signal.NONE, SMALL), random_prices(rng)
            enough = slice(job.birth, job.birth + rounds_touched(job, LONGEST))
            planner = Planner("none", LONGEST)
            few = planner.plan(job, (node[enough], sold_out[enough]))
            assert few[0].start.tolist() == plan(job, (node, sold_out), planner=planner)[0].tolist()

    def test_jobs_of_statements(self) -> None:
        rng = np.random.default_rng(1)
        jobs = [random_job(rng, Signal.PARTIAL, SMALL, birth=b) for b in (0, 0, 2)]
        statements = statements_of(jobs)
        for number, job in enumerate(jobs):
            read = planned_job(statements, number)
            width = len(job.values)
            assert read.values[:width].tolist() == job.values.tolist()
            assert not read.values[width:].any()
            for name in ("arrival", "duration", "probability", "signal"):
                assert getattr(read, name).tolist() == getattr(job, name).tolist()
            assert (read.birth, read.concurrency) == (job.birth, job.concurrency)


@dataclass(frozen=True)
class Truth:
    concurrency: int
    values: list[float]
    points: Points
    signal: Signal

    def reported(self, birth: int = 0) -> PlannedJob:
        return job_of(birth, self.concurrency, self.values, self.points, self.signal)


@dataclass(frozen=True)
class Offers:
    """A fixed menu and fixed probabilities of failure; both non-decreasing in nodes and duration."""

    prices: Prices
    failure: FloatArray
    """(c, start, d)."""
    signal: Signal

    def plan(self, job: PlannedJob) -> tuple[IntArray, IntArray, float]:
        planner = Planner(self.signal.value, LONGEST)
        return plan(job, self.prices, self.failure[job.concurrency - 1], planner)

    def utility(self, truth: Truth, report: PlannedJob) -> float:
        """Expected true utility of a report: value minus price on completion.

        Without a plan for what occurs a job is not launched. A job that runs for longer than was reported
        pays for that, and a job with too few nodes completes and is worth nothing.
        """
        start, _, _ = self.plan(report)
        plans: dict[tuple[int, int], int] = {}
        for a, s, t in zip(report.arrival, report.signal, start, strict=True):
            plans[int(a), int(s)] = int(t)
        total = 0.0
        for (a, d), p in truth.points.items():
            key = (a, truth.signal.of(d))
            t = plans.get(key, NEVER_ROUND)
            if t + d > ROUNDS:
                continue
            worth = truth.values[t + d] if t + d < len(truth.values) else 0.0
            if report.concurrency < truth.concurrency:
                worth = 0.0
            paid = report.concurrency * float(self.prices[0][t : t + d].sum()) / NANO
            total += p * (worth - paid) * (1.0 - float(self.failure[report.concurrency - 1, t, d]))
        return total


def random_truth(rng: np.random.Generator, signal: Signal) -> Truth:
    return Truth(int(rng.integers(1, 3)), random_values(rng, SMALL), random_points(rng, 0, SMALL), signal)


def random_offers(rng: np.random.Generator, signal: Signal) -> Offers:
    """Probabilities of failure that depend on the nodes with signal full only; `TestReports` tells why."""
    failure = random_failure(rng, 3)
    return Offers(random_prices(rng), failure if signal is Signal.FULL else failure[[0, 0, 0]], signal)


def misreports(rng: np.random.Generator, truth: Truth) -> list[PlannedJob]:
    """Values scaled, other deadlines, other nodes, other distributions, and all of these at once."""
    values = [
        *([scale * value for value in truth.values] for scale in (0.25, 0.5, 2.0, 4.0)),
        *([truth.values[0]] * later + truth.values for later in (1, 2)),
        [*truth.values[1:], 0.0],
        random_values(rng, SMALL),
    ]
    points: list[Points] = [
        *(random_points(rng, 0, SMALL) for _ in range(4)),
        {(a + 1, d): p for (a, d), p in truth.points.items()},
        {(a, 2 * d): p for (a, d), p in truth.points.items()},
        dict(zip(truth.points, reversed(list(truth.points.values())), strict=True)),
        {max(truth.points, key=lambda point: point[1]): 1.0},
        {min(truth.points, key=lambda point: point[1]): 1.0},
    ]
    reports = [job_of(0, truth.concurrency, one, truth.points, truth.signal) for one in values]
    reports += [job_of(0, truth.concurrency, truth.values, one, truth.signal) for one in points]
    reports += [job_of(0, c, truth.values, truth.points, truth.signal) for c in (1, 2, 3)]
    reports += [
        job_of(0, int(rng.integers(1, 4)), value, point, truth.signal) for value in values for point in points
    ]
    return reports


class TestReports:
    """Truthfulness: one job against a fixed menu and fixed probabilities of failure.

    With signal none or partial one start serves several durations, and a plan may lose by some of them: V is
    below the price. There a report gains if it makes the job fail, for a job that fails pays nothing.
    """

    @pytest.mark.parametrize("signal", Signal)
    def test_no_report_gains(self, signal: Signal) -> None:
        for seed in range(instances(3000, 6)):
            rng = np.random.default_rng(seed)
            truth, offers = random_truth(rng, signal), random_offers(rng, signal)
            honest = offers.utility(truth, truth.reported())
            assert honest == pytest.approx(offers.plan(truth.reported())[2], abs=1e-12)
            for report in misreports(rng, truth):
                assert offers.utility(truth, report) <= honest + 1e-12, (seed, report)

    def test_hidden_long_durations_are_paid_for(self) -> None:
        """Worth 4 if it ends in round 1, it lasts 1 or 5 rounds, at 1 each: (4 - 1) / 2 - 5 / 2 < 0."""
        truth = Truth(1, [4.0, 4.0, 0.0], {(0, 1): 0.5, (0, 5): 0.5}, Signal.NONE)
        offers = Offers(prices_of([1.0] * ROUNDS), np.zeros((3, ROUNDS, 9)), Signal.NONE)
        assert offers.utility(truth, truth.reported()) == 0.0
        hidden = job_of(0, 1, truth.values, {(0, 1): 1.0}, Signal.NONE)
        assert offers.utility(truth, hidden) == -1.0

    def test_needless_nodes_gain_with_signal_none(self) -> None:
        """More nodes fail more often, here after 5 rounds, which cost more than they are worth."""
        truth = Truth(1, [4.0, 4.0, 0.0], {(0, 1): 0.5, (0, 5): 0.5}, Signal.NONE)
        failure = np.zeros((3, ROUNDS, 9))
        failure[1:, :, 5:] = 1.0
        offers = Offers(prices_of([0.5] * ROUNDS), failure, Signal.NONE)
        assert offers.utility(truth, truth.reported()) == 0.5
        needless = job_of(0, 2, truth.values, truth.points, Signal.NONE)
        assert offers.utility(truth, needless) == 1.5

    def test_the_threshold_costs_at_most_its_share_of_the_value(self) -> None:
        """With eps = 0.5, V - price is 2.00 at E = 0.04, or 1.95 at E = 0; the threshold hides this."""
        job = job_of(0, 1, [2, 2, 2, 0], {(0, 1): 1.0})
        prices, failure = prices_of([0.0, 0.05, 0.0]), np.array([[0, 0.04], [0, 0.0], [0, 0]])
        assert plan(job, prices, failure)[0].tolist() == [1]
        start, _, utility = plan(job, prices, threshold(failure, 0.5))
        assert (start.tolist(), utility) == ([0], 2.0)
        regret = 1.95 - utility * (1 - 0.04)
        assert regret == pytest.approx(0.03)

    @pytest.mark.parametrize("signal", Signal)
    def test_higher_values_never_lower_the_utility(self, signal: Signal) -> None:
        for seed in range(instances(3000, 20)):
            rng = np.random.default_rng(seed)
            truth, offers = random_truth(rng, signal), random_offers(rng, signal)
            extra = np.cumsum(rng.integers(0, 3, len(truth.values) - 1)[::-1])[::-1] / 4
            higher = [*(np.array(truth.values[:-1]) + extra).tolist(), 0.0]
            raised = job_of(0, truth.concurrency, higher, truth.points, signal)
            assert offers.plan(raised)[2] >= offers.plan(truth.reported())[2]

    @pytest.mark.parametrize("signal", Signal)
    def test_scaled_values_launch_at_least_as_much(self, signal: Signal) -> None:
        for seed in range(instances(3000, 20)):
            rng = np.random.default_rng(seed)
            truth, offers = random_truth(rng, signal), random_offers(rng, signal)
            before = offers.plan(truth.reported())[0]
            scaled = [2 * value for value in truth.values]
            after = offers.plan(job_of(0, truth.concurrency, scaled, truth.points, signal))[0]
            assert not ((before < NEVER_ROUND) & (after == NEVER_ROUND)).any()
