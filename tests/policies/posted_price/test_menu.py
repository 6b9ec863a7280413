"""Menu of exponential prices: example 4.A, closed forms, and the bound on booked load."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.posted_price.menu import (
    ExponentialPrices,
    Menu,
    RelaxedCapacity,
    book_load,
    exponential_price,
    price_rounds,
)
from ray_sim.policies.posted_price.planner import PlannedJob, Planner, rounds_touched
from tests.kernels.by_hand import SEEDS, ints
from tests.policies.posted_price.random_jobs import Signal, Sizes, job_of, planner_for, random_job
from tests.proofs import instances


def menu_4a(horizon: int = 8) -> ExponentialPrices:
    """H = 4, C_m = 1, D_m = 2, C' = 5; booked: round 1: 2, round 2: 1."""
    menu = ExponentialPrices(RelaxedCapacity(5, 1, 0.0, horizon), most_duration=2, most_value=4.0)
    menu.book(1, np.array([1, 1]), np.array([1, 2]), np.array([1.0, 1.0]))
    return menu


def steep_menu(horizon: int = 12) -> ExponentialPrices:
    """C' = 20, H = 8, C_m = 2, D_m = 3."""
    return ExponentialPrices(RelaxedCapacity(20, 2, 0.0, horizon), most_duration=3, most_value=8.0)


STEEP = Sizes(births=3, concurrency=2, duration=3, value=8)


def price(menu: Menu, start: int, concurrency: int, duration: int) -> float:
    """Price of a job in nano; inf where it touches a sold-out round."""
    node, sold_out = menu.node_prices(start, duration)
    return math.inf if sold_out.any() else int(node.sum()) * concurrency


def plan(menu: Menu, job: PlannedJob) -> tuple[IntArray, IntArray, float]:
    longest = int(job.duration.max())
    made, utility = planner_for(job).plan(job, menu.node_prices(job.birth, rounds_touched(job, longest)))
    return made.start, made.price, utility


class TestExample4A:
    JOB = job_of(1, 1, [4, 4, 2, 0], {(1, 1): 0.5, (1, 2): 0.5})

    def test_loads_and_prices(self) -> None:
        menu = menu_4a()
        assert menu.booked.tolist() == [0, 2 * NANO, NANO, 0, 0, 0, 0, 0]
        node, sold_out = menu.node_prices(0, 4)
        np.testing.assert_allclose(node / NANO, [0, 0.7808, 0.2576, 0], atol=5e-5)
        assert not sold_out.any()

    def test_plan(self) -> None:
        start, paid, utility = plan(menu_4a(), self.JOB)
        assert start.tolist() == [1, 1]
        np.testing.assert_allclose(paid / NANO, [0.7808, 1.0384], atol=5e-5)
        assert utility == pytest.approx(2.0904, abs=5e-5)

    def test_booking(self) -> None:
        menu = menu_4a()
        start, _, _ = plan(menu, self.JOB)
        menu.book(1, start, self.JOB.duration, self.JOB.probability)
        assert menu.booked.tolist() == [0, 3 * NANO, 3 * NANO // 2, 0, 0, 0, 0, 0]
        np.testing.assert_allclose(menu.node_prices(1, 2)[0] / NANO, [1.8430, 0.4734], atol=5e-5)

    def test_misreport(self) -> None:
        lie = job_of(1, 1, [4, 4, 4, 0], {(1, 1): 0.5, (1, 2): 0.5})
        start, paid, _ = plan(menu_4a(), lie)
        assert start[0] == 2
        assert 4 - paid[0] / NANO == pytest.approx(3.7424, abs=5e-5)
        assert 2 - paid[0] / NANO == pytest.approx(1.7424, abs=5e-5)


class TestPrices:
    @given(
        nodes=st.integers(2, 10**5),
        share=st.floats(1e-6, 0.9),
        duration=st.integers(1, 1000),
        value=st.floats(1.0, 100.0),
        eps=st.floats(0.0, 0.9),
    )
    @settings(max_examples=60, deadline=None)
    def test_an_empty_round_is_free_and_a_full_one_costs_the_highest_value(
        self, nodes: int, share: float, duration: int, value: float, eps: float
    ) -> None:
        capacity = RelaxedCapacity(nodes, max(int(share * nodes), 1), eps, 3)
        menu = ExponentialPrices(capacity, duration, value)
        assert menu.node_prices(0, 3)[0].tolist() == [0, 0, 0]
        menu.restore({"booked": np.array([0, capacity.safe_load, capacity.safe_load])})
        node, sold_out = menu.node_prices(0, 3)
        # A price is a multiple of a nano and of 2^-52 of its larger factor.
        np.testing.assert_allclose(node[1:], round(value * NANO), rtol=1e-12, atol=1)
        assert not sold_out.any()

    @given(load=st.integers(0, 18 * NANO))
    @settings(max_examples=100, deadline=None)
    def test_formula(self, load: int) -> None:
        menu = steep_menu(1)
        menu.restore({"booked": np.array([load])})
        scale, base = Fraction(1, 12), 97.0
        assert menu.node_prices(0, 1)[0][0] == pytest.approx(
            NANO * float(scale) * math.expm1(math.log(base) * load / (18 * NANO)), abs=0.51
        )

    def test_a_round_is_sold_out_one_nano_above_kappa(self) -> None:
        menu = steep_menu(2)
        menu.restore({"booked": np.array([18 * NANO, 18 * NANO + 1])})
        assert menu.node_prices(0, 3)[1].tolist() == [False, True]

    def test_prices_end_at_the_horizon(self) -> None:
        menu = steep_menu(4)
        node, sold_out = menu.node_prices(3, 3)
        assert (node.tolist(), sold_out.tolist()) == ([0], [False])
        assert len(menu.node_prices(9, 2)[1]) == 0

    def test_prices_of_a_birth_do_not_change_later(self) -> None:
        menu = menu_4a()
        node, _ = menu.node_prices(0, 4)
        before = node.copy()
        menu.book(1, np.array([0]), np.array([2]), np.array([1.0]))
        assert node.tolist() == before.tolist()
        assert menu.node_prices(0, 4)[0].tolist() != before.tolist()

    def test_what_is_not_launched_books_nothing(self) -> None:
        menu = menu_4a()
        before = menu.state()
        menu.book(1, np.array([NEVER_ROUND] * 2), np.array([1, 2]), np.array([0.5, 0.5]))
        assert menu.booked.tolist() == before["booked"].tolist()

    def test_a_restored_menu_goes_on_alike(self) -> None:
        menu = menu_4a()
        other = ExponentialPrices(menu.capacity, 2, 4.0)
        other.restore(menu.state())
        for one in (menu, other):
            one.book(1, np.array([2]), np.array([3]), np.array([0.3]))
        assert menu.node_prices(0, 8)[0].tolist() == other.node_prices(0, 8)[0].tolist()
        assert menu.booked.tolist() == other.booked.tolist()


class TestRefusals:
    def test_capacity_that_one_job_may_exceed(self) -> None:
        with pytest.raises(InvalidScenarioError, match=re.escape("give -0.2: use more nodes")):
            RelaxedCapacity(nodes=4, most_concurrency=4, eps=0.5, horizon=1)
        RelaxedCapacity(nodes=4, most_concurrency=3, eps=0.5, horizon=1)

    def test_prices_beyond_64_bits(self) -> None:
        capacity = RelaxedCapacity(1000, 100, 0.5, 10)
        ExponentialPrices(capacity, 1000, 46_000.0)
        with pytest.raises(InvalidScenarioError, match="H = 47000, C_m = 100 nodes and D_m = 1,000 rounds"):
            ExponentialPrices(capacity, 1000, 47_000.0)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_prices_never_fall_with_nodes_duration_or_time(seed: int) -> None:
    rng, menu = np.random.default_rng(seed), steep_menu(8)
    keys = [(t, c, d) for t in range(8) for c in (1, 2) for d in (1, 2, 3)]
    before = dict.fromkeys(keys, 0.0)
    for _ in range(30):
        now = {key: price(menu, *key) for key in keys}
        for t, c, d in keys:
            assert now[t, c, d] >= before[t, c, d]
            assert now.get((t, c + 1, d), math.inf) >= now[t, c, d]
            assert now.get((t, c, d + 1), math.inf) >= now[t, c, d]
        before = now
        job = random_job(rng, Signal.NONE, STEEP)
        start, _, _ = plan(menu, job)
        menu.book(job.concurrency, start, job.duration, job.probability)


def random_start(rng: np.random.Generator, menu: Menu, longest: int) -> int:
    """Any start that touches no sold-out round, at any price."""
    open_starts = [t for t in range(12) if price(menu, t, 1, longest) < math.inf]
    return int(rng.choice(open_starts)) if open_starts else NEVER_ROUND


ROUNDING = 4
"""Nano nodes: one for each point of a job of `STEEP`; each is rounded by at most half of it."""


class TestBookedLoad:
    """At most C' = 20 for every signal, although the price of a round says little of the load."""

    @pytest.mark.parametrize("signal", Signal)
    def test_plans_stay_below_the_relaxed_capacity(self, signal: Signal) -> None:
        planner, highest = Planner(signal.value, STEEP.duration), 0
        for seed in range(instances(3000, 8)):
            rng, menu = np.random.default_rng(seed), steep_menu()
            for _ in range(60):
                job = random_job(rng, signal, STEEP)
                prices = menu.node_prices(job.birth, rounds_touched(job, STEEP.duration))
                (start, *_), _ = planner.plan(job, prices)
                menu.book(job.concurrency, start, job.duration, job.probability)
            highest = max(highest, int(menu.booked.max()))
        assert 15 * NANO < highest <= 20 * NANO + ROUNDING

    def test_bookings_at_any_price_stay_below_it(self) -> None:
        highest = 0
        for seed in range(instances(2000, 5)):
            rng, menu = np.random.default_rng(seed), steep_menu()
            for _ in range(150):
                job = random_job(rng, Signal.FULL, STEEP)
                start = np.full(len(job.arrival), random_start(rng, menu, int(job.duration.max())))
                menu.book(job.concurrency, start, job.duration, job.probability)
            highest = max(highest, int(menu.booked.max()))
        assert 19 * NANO < highest <= 20 * NANO + ROUNDING

    def test_prices_alone_do_not_bound_it(self) -> None:
        """With signal none, the tail of a long duration counts by its probability.

        Jobs of 1 round fill round 2 up to kappa. Then jobs that last 1 round, or longer with probability 1/4,
        buy a cheap round before it, and with it a quarter of round 2 at a price above the highest value.
        """
        planner, booked = Planner("none", 3), np.zeros(12)
        full = job_of(2, 1, [8, 8, 0], {(2, 1): 1.0}, Signal.NONE)
        tail_1 = job_of(1, 1, [8, 8, 8, 0], {(1, 1): 3 / 4, (1, 2): 1 / 4}, Signal.NONE)
        tail_0 = job_of(0, 1, [8, 8, 8, 8, 0], {(0, 1): 3 / 4, (0, 3): 1 / 4}, Signal.NONE)
        for one in [full] * 30 + [tail_1] * 30 + [tail_0] * 30:
            node = np.rint(NANO / 12 * (97.0 ** (booked / 18) - 1)).astype(np.int64)
            no_flags: BoolArray = np.zeros(rounds_touched(one, 3), dtype=np.bool_)
            (start, *_), _ = planner.plan(one, (node[one.birth :][: len(no_flags)], no_flags))
            for s, d, p in zip(start, one.duration, one.probability, strict=True):
                if s < NEVER_ROUND:
                    booked[s : s + d] += one.concurrency * p
        assert booked.max() > 20.5


def relaxed_optimum(jobs: list[PlannedJob], capacity: float, horizon: int) -> float:
    """Welfare of the best fractional schedule that knows each arrival and duration."""
    columns = [
        (job, i, start)
        for job in jobs
        for i in range(len(job.arrival))
        for start in range(job.arrival[i], horizon - job.duration[i] + 1)
        if start + job.duration[i] - job.birth < len(job.values)
    ]
    tasks = sorted({(id(job), i) for job, i, _ in columns})
    rows = np.zeros((len(tasks) + horizon, len(columns)))
    gain = np.zeros(len(columns))
    for column, (job, i, start) in enumerate(columns):
        finish = start + job.duration[i]
        gain[column] = job.probability[i] * job.values[finish - job.birth] / NANO
        rows[tasks.index((id(job), i)), column] = 1.0
        rows[len(tasks) + start : len(tasks) + finish, column] = job.probability[i] * job.concurrency
    limits = np.concatenate([np.ones(len(tasks)), np.full(horizon, capacity)])
    result: Any = linprog(-gain, A_ub=rows, b_ub=limits, method="highs")
    assert result.status == 0
    return -float(result.fun)


def test_welfare_against_the_relaxed_optimum() -> None:
    """With signal full, alpha = 1.5 (C' / kappa) ln B times a factor for finite steps."""
    base, kappa, capacity = 97.0, 18.0, 20.0
    step = 2.0 / kappa
    alpha = 1.5 * capacity / kappa * math.log(base)
    assert alpha == pytest.approx(7.62, abs=0.005)
    alpha *= (base**step - 1) / (step * math.log(base))
    assert alpha == pytest.approx(9.94, abs=0.01)
    worst = 1.0
    for seed in range(instances(2000, 5)):
        rng, menu, welfare = np.random.default_rng(seed), steep_menu(9), 0.0
        jobs = [random_job(rng, Signal.FULL, STEEP, birth=number // 12) for number in range(48)]
        for job in jobs:
            start, _, _ = plan(menu, job)
            launched = start < NEVER_ROUND
            finish = np.where(launched, start + job.duration - job.birth, len(job.values) - 1)
            welfare += float(job.probability @ job.values[finish]) / NANO
            menu.book(job.concurrency, start, job.duration, job.probability)
        optimum = relaxed_optimum(jobs, capacity, 9)
        assert welfare <= optimum * (1 + 1e-9)
        worst = max(worst, optimum / welfare)
    assert 1.05 < worst <= alpha


def test_a_plan_of_three_points_of_which_one_is_not_launched() -> None:
    # 4 nodes: 1 from round 2 to 4 with 1/4, 2 in round 3 with 1/2.
    booked = ints([0] * 6)
    start, duration = ints([2, 3, NEVER_ROUND]), ints([3, 1, 2])
    changed = book_load(4, start, duration, np.array([0.25, 0.5, 0.25]), booked)
    assert changed == (2, 5)
    assert booked.tolist() == [0, 0, NANO, 3 * NANO, NANO, 0]
    assert book_load(4, start[2:], duration[2:], np.array([0.25]), booked) == (0, 0)


def test_prices_of_nothing_half_and_more_than_all() -> None:
    # scale (base^(load / full) - 1) with base 9: 0, 2 and 8 times the scale.
    prices = ints([0] * 4)
    price_rounds(ints([0, 5, 10, 99]), 10, 7.0, 9.0, prices)
    assert prices.tolist() == [0, 14, 56, 56]
    assert exponential_price(5, 10, 0.2, 9.0) == 0  # 0.4, rounded


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_loads_are_those_of_adding_round_by_round_and_no_other_round_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds, n, nodes = 12, int(rng.integers(1, 6)), int(rng.integers(1, 9))
    start = np.where(rng.random(n) < 0.2, NEVER_ROUND, rng.integers(0, rounds, n))
    duration, probability = rng.integers(1, 8, n), rng.dirichlet(np.ones(n))
    expected = rng.integers(0, NANO, rounds)
    booked = expected.copy()
    changed = set()
    for i in range(n):
        for tau in range(rounds):
            if start[i] <= tau < start[i] + duration[i]:
                expected[tau] += round(probability[i] * nodes * NANO)
                changed.add(tau)
    first, end = book_load(nodes, start, duration, probability, booked)
    np.testing.assert_allclose(booked, expected, rtol=0, atol=n)  # each load is rounded to a nano
    assert (first, end) == (min(changed, default=0), max(changed, default=-1) + 1)
