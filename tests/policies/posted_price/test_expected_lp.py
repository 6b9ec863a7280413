"""Menu B: its programme against one written out, the proof of its prices, and what it sells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import Bounds, linprog, milp

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import FloatArray
from ray_sim.policies.posted_price import expected_lp
from ray_sim.policies.posted_price.expected_lp import (
    ExpectedPrices,
    Population,
    expected_optimum,
)
from ray_sim.policies.posted_price.menu import RelaxedCapacity
from ray_sim.policies.posted_price.planner import PlannedJob, planned_job, rounds_touched
from tests.policies.posted_price.random_jobs import (
    Signal,
    Sizes,
    job_of,
    planner_for,
    random_job,
    statements_of,
)
from tests.proofs import instances

EXACT = 1e-9
"""Relative."""

SIZES = Sizes(births=4, concurrency=2, duration=3, value=8, points=3, rounds=5)


class Column(NamedTuple):
    job: int
    point: int
    start: int
    finish: int
    weight: float
    """Probability of the point."""
    value: float


def columns_of(jobs: list[PlannedJob], horizon: int) -> list[Column]:
    found = []
    for number, job in enumerate(jobs):
        for i, arrival in enumerate(job.arrival.tolist()):
            for start in range(arrival, horizon):
                finish = start + int(job.duration[i])
                if finish <= horizon and finish - job.birth < len(job.values):
                    value = int(job.values[finish - job.birth]) / NANO
                    found.append(Column(number, i, start, finish, float(job.probability[i]), value))
    return found


class Dense(NamedTuple):
    value: float
    columns: list[Column]
    x: FloatArray


def written_out(jobs: list[PlannedJob], capacity: float, horizon: int) -> Dense:
    """The programme with a variable in [0, 1] for each job, point and start, and dense rows."""
    columns = columns_of(jobs, horizon)
    once: dict[tuple[int, int], int] = {}
    for column in columns:
        once.setdefault((column.job, column.point), len(once))
    rows = np.zeros((len(once) + horizon, len(columns)))
    for k, column in enumerate(columns):
        rows[once[column.job, column.point], k] = 1
        load = column.weight * jobs[column.job].concurrency
        rows[len(once) + column.start : len(once) + column.finish, k] = load
    result: Any = linprog(
        [-column.weight * column.value for column in columns],
        A_ub=rows,
        b_ub=np.concatenate([np.ones(len(once)), np.full(horizon, capacity)]),
        method="highs-ipm",
    )
    assert result.status == 0
    return Dense(-float(result.fun), columns, result.x)


def random_jobs(rng: np.random.Generator, count: int, signal: Signal = Signal.FULL) -> list[PlannedJob]:
    """Some jobs are equal, so that types hold several."""
    jobs = [random_job(rng, signal, SIZES) for _ in range(count)]
    jobs += [jobs[int(rng.integers(count))] for _ in range(count // 2)]
    return sorted(jobs, key=lambda job: job.birth)


class TestPopulation:
    def test_equal_statements_of_a_round_are_one_type(self) -> None:
        one = job_of(0, 1, [2, 2, 0], {(0, 1): 1.0})
        other = job_of(0, 2, [2, 2, 0], {(0, 1): 1.0})
        later = job_of(3, 1, [2, 2, 0], {(3, 1): 1.0})
        population = Population.of(statements_of([one, other, one, one, later]))
        assert population.statements.birth[population.job].tolist() == [0, 0, 3]
        assert population.statements.concurrency[population.job].tolist() == [1, 2, 1]
        assert population.jobs.tolist() == [3, 1, 1]


class TestProgramme:
    HORIZON = 8

    def test_value_equals_the_one_written_out(self) -> None:
        for seed in range(instances(2000, 5)):
            rng = np.random.default_rng(seed)
            jobs, capacity = random_jobs(rng, 8), float(rng.integers(1, 6))
            found = expected_optimum(Population.of(statements_of(jobs)), capacity, self.HORIZON)
            dense = written_out(jobs, capacity, self.HORIZON)
            assert found.value == pytest.approx(dense.value, rel=1e-7), seed

    def test_complementary_slackness_with_any_optimal_solution(self) -> None:
        """A round with a price is full, and only starts of the highest surplus are chosen."""
        for seed in range(instances(2000, 5)):
            rng = np.random.default_rng(seed)
            jobs, capacity = random_jobs(rng, 8), float(rng.integers(1, 6))
            found = expected_optimum(Population.of(statements_of(jobs)), capacity, self.HORIZON)
            dense = written_out(jobs, capacity, self.HORIZON)
            load, best = np.zeros(self.HORIZON), dict[tuple[int, int], float]()
            for column, x in zip(dense.columns, dense.x, strict=True):
                nodes = jobs[column.job].concurrency
                load[column.start : column.finish] += x * column.weight * nodes
                surplus = column.value - nodes * found.prices[column.start : column.finish].sum()
                key = column.job, column.point
                best[key] = max(best.get(key, 0.0), surplus)
            np.testing.assert_allclose(load[found.prices > 1e-6], capacity, rtol=1e-4)
            for column, x in zip(dense.columns, dense.x, strict=True):
                paid = jobs[column.job].concurrency * found.prices[column.start : column.finish].sum()
                if x > 1e-4:
                    assert column.value - paid == pytest.approx(best[column.job, column.point], abs=1e-6)

    def test_one_job_per_round_is_priced_at_the_next_value(self) -> None:
        """Two jobs compete for a round of the only node; the price is between their values."""
        jobs = [job_of(0, 1, [v, v, 0], {(0, 1): 1.0}) for v in (5, 3)]
        found = expected_optimum(Population.of(statements_of(jobs)), 1.0, 4)
        assert found.value == pytest.approx(5.0)
        assert 3.0 - EXACT <= float(found.prices[0]) <= 5.0 + EXACT
        assert found.prices[1:].tolist() == [0, 0, 0]

    def test_jobs_that_cannot_finish_by_the_horizon_are_worth_nothing(self) -> None:
        population = Population.of(statements_of([job_of(0, 1, [5] * 6 + [0], {(2, 3): 1.0})]))
        assert expected_optimum(population, 1.0, 4).value == 0.0
        assert expected_optimum(population, 1.0, 5).value == pytest.approx(5.0)

    def test_too_many_variables_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        population = Population.of(statements_of([job_of(0, 1, [5] * 6 + [0], {(0, 1): 0.5, (0, 2): 0.5})]))
        monkeypatch.setattr(expected_lp, "MOST_VARIABLES", 9)
        expected_optimum(population, 1.0, 9)
        monkeypatch.setattr(expected_lp, "MOST_VARIABLES", 8)
        with pytest.raises(InvalidScenarioError, match=r"menu=expected: 9 variables .* use longer rounds"):
            expected_optimum(population, 1.0, 9)


def realised_optimum(jobs: list[PlannedJob], nodes: int, horizon: int) -> float:
    """Welfare of the best schedule of jobs with one point each."""
    columns = columns_of(jobs, horizon)
    if not columns:
        return 0.0
    rows = np.zeros((len(jobs) + horizon, len(columns)))
    for k, column in enumerate(columns):
        rows[column.job, k] = 1
        rows[len(jobs) + column.start : len(jobs) + column.finish, k] = jobs[column.job].concurrency
    limits = np.concatenate([np.ones(len(jobs)), np.full(horizon, nodes)])
    result: Any = milp(
        [-column.value for column in columns],
        constraints=(rows, -np.inf, limits),
        integrality=np.ones(len(columns), dtype=np.int64),
        bounds=Bounds(0, 1),
    )
    assert result.status == 0
    return -float(result.fun)


def test_bound_on_the_offline_optimum_that_knows_all() -> None:
    """All outcomes of three jobs, each solved exactly."""
    for seed in range(instances(2000, 4)):
        rng = np.random.default_rng(seed)
        jobs = sorted((random_job(rng, Signal.FULL, SIZES) for _ in range(3)), key=lambda job: job.birth)
        expected = 0.0
        for outcome in np.ndindex(*(len(job.arrival) for job in jobs)):
            drawn = [
                job._replace(
                    arrival=job.arrival[i : i + 1],
                    duration=job.duration[i : i + 1],
                    probability=np.ones(1),
                )
                for job, i in zip(jobs, outcome, strict=True)
            ]
            chance = np.prod([job.probability[i] for job, i in zip(jobs, outcome, strict=True)])
            expected += float(chance) * realised_optimum(drawn, 2, 7)
        bound = expected_optimum(Population.of(statements_of(jobs)), 2, 7).value
        assert expected <= bound * (1 + EXACT)


def sold(menu: ExpectedPrices, statements: Statements, *, at_zero: bool) -> tuple[float, int]:
    """Welfare in the relaxed problem, and number of points sold, of jobs in turn."""
    welfare, count = 0.0, 0
    for number in range(len(statements)):
        job = planned_job(statements, number)
        bought = menu.bought(job)
        (start, *_), _ = planner_for(job).plan(
            job,
            menu.node_prices(job.birth, rounds_touched(job, int(job.duration.max()))),
            bought=bought if at_zero else np.zeros_like(bought),
        )
        for t, d, p in zip(start.tolist(), job.duration.tolist(), job.probability, strict=True):
            if t < NEVER_ROUND:
                finish = t + d - job.birth
                welfare += p * (job.values[finish] if finish < len(job.values) else 0) / NANO
                count += 1
        menu.book(job.concurrency, start, job.duration, job.probability)
    return float(welfare), count


class TestSelling:
    def test_equal_jobs_buy_at_zero_surplus_until_rounds_sell_out(self) -> None:
        """Ten jobs of one node and three rounds, worth 1 each, on 4 nodes: the price is 1/3, and rounds down.

        Three are sold at y = 0, 1, 2; kappa = 3 admits a fourth, which makes y = 4 = C'.
        """
        statements = statements_of([job_of(0, 1, [1, 1, 1, 1, 0], {(0, 3): 1.0})] * 10)
        capacity = RelaxedCapacity(4, 1, 0.0, 8)

        def menu() -> ExpectedPrices:
            return ExpectedPrices(capacity, Population.of(statements))

        assert menu().node_prices(0, 3)[0].sum() <= NANO
        assert sold(menu(), statements, at_zero=True) == (4.0, 4)
        assert sold(menu(), statements, at_zero=False) == (0.0, 0)

    def test_a_job_that_the_programme_leaves_out_does_not_buy_at_zero_surplus(self) -> None:
        """At prices that equal the value per node-round of both, the job at a loss to others is not known."""
        statements = statements_of([job_of(0, 1, [1, 1, 0], {(0, 1): 1.0})] * 3)
        menu = ExpectedPrices(RelaxedCapacity(2, 1, 0.0, 4), Population.of(statements))
        known = planned_job(statements, 0)
        assert menu.bought(known).tolist() == [True]
        assert menu.bought(known._replace(birth=1)).tolist() == [False]
        assert menu.bought(known._replace(concurrency=2)).tolist() == [False]

    def test_what_the_programme_buys_is_never_at_a_loss(self) -> None:
        """Rounding down, in nano; every bought point has a start without loss."""
        for seed in range(instances(2000, 5)):
            rng = np.random.default_rng(seed)
            statements = statements_of(random_jobs(rng, 10))
            menu = ExpectedPrices(RelaxedCapacity(4, 2, 0.0, 8), Population.of(statements))
            for number in range(len(statements)):
                job = planned_job(statements, number)
                bought = menu.bought(job)
                prices = menu.node_prices(job.birth, rounds_touched(job, int(job.duration.max())))
                (start, *_), _ = planner_for(job).plan(job, prices, bought=bought)
                assert (start[bought] < NEVER_ROUND).all(), (seed, number)

    @pytest.mark.parametrize("signal", Signal)
    def test_booked_load_and_welfare_stay_below_their_bounds(self, signal: Signal) -> None:
        for seed in range(instances(2000, 8)):
            rng = np.random.default_rng(seed)
            statements = statements_of(random_jobs(rng, 20, signal))
            menu = ExpectedPrices(RelaxedCapacity(6, 2, 0.0, 8), Population.of(statements))
            welfare, _ = sold(menu, statements, at_zero=True)
            assert menu.booked.max() <= 6 * NANO + 2
            assert welfare <= expected_optimum(Population.of(statements), 6, 8).value * (1 + EXACT)

    def test_a_restored_menu_sells_alike(self) -> None:
        statements = statements_of(random_jobs(np.random.default_rng(3), 20))
        menu, other = (ExpectedPrices(RelaxedCapacity(6, 2, 0.0, 8), Population.of(statements)) for _ in "12")
        sold(menu, statements, at_zero=True)
        other.restore(menu.state())
        for one, two in zip(menu.node_prices(0, 9), other.node_prices(0, 9), strict=True):
            assert one.tolist() == two.tolist()
