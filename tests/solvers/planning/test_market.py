"""Prices: the worked example, and what must hold for any jobs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.solvers.planning.market import (
    SMALLEST_PRICE,
    Constants,
    Market,
    MarketCapacity,
    Ranges,
    SlotPlan,
    declared_constants,
    job_demand,
    job_work,
    offered_load,
    traced_constants,
)
from ray_sim.solvers.planning.schedule import Infeasible, Planning, Schedule, best_schedule
from ray_sim.solvers.planning.slot_job import SlotJob
from tests.proofs import quick_first
from tests.solvers.planning.small import EXAMPLE_A, EXAMPLE_B, drawn_job, floats, ints, servers

JOBS_A = [
    EXAMPLE_A,
    replace(EXAMPLE_A, number=1, utility=floats(9, 3)),
    replace(EXAMPLE_A, number=2, utility=floats(2, 1)),
]


def test_the_constants_of_example_1_a() -> None:
    # N = ceil(100 x 0.04) = 4, S = 2 + 1 = 3: L = min(4, 3, 1) / (2 x 1 x 4 x 3).
    # d_min = ceil(100 x 0.02 / 4) = 1: U = 9 / 3.
    constants = traced_constants(JOBS_A, servers([6]))
    assert constants.lowest == pytest.approx(1 / 24, rel=1e-15)
    assert constants.highest == pytest.approx([3.0], rel=1e-15)


def test_the_offered_load_is_that_of_the_scarcest_resource() -> None:
    # Each job of example 1.B: 100 x 0.04 = 4 worker-slots of 4 + 2 and 2 + 4; 2 jobs: 48 of 3 x 20, 3 x 10.
    assert offered_load([EXAMPLE_B] * 2, servers([12, 4], [8, 6]), 3) == pytest.approx(48 / 30, rel=1e-15)
    assert offered_load([], servers([0, 4]), 3) == 0.0


def test_example_1_a_admits_two_jobs_and_keeps_its_dual_above_its_utility() -> None:
    cluster = servers([6])
    market = Market.empty(cluster, traced_constants(JOBS_A, cluster), 2)
    assert market.dual == pytest.approx(0.5)  # 2 x 6 x L
    payoffs, duals, utility = 0.0, [], 0.0
    outcomes = []
    for job in JOBS_A:
        outcome = best_schedule(job, market, Planning(), Streams(0))
        if isinstance(outcome, Schedule):
            market.sell(job, outcome.plan)
            payoffs += outcome.payoff
            utility += outcome.utility
        outcomes.append(outcome)
        duals.append(market.dual + payoffs)
        assert utility <= duals[-1]
    first, second, third = outcomes
    assert isinstance(first, Schedule)
    assert first.end == 0
    assert [first.cost, first.payoff] == pytest.approx([0.25, 4.75])
    assert first.plan.workers.tolist() == [2]  # within a server: 2 / 0.02 = 100 samples in the slot
    assert isinstance(second, Schedule)
    assert second.end == 1
    assert second.payoff == pytest.approx(2.75)
    assert isinstance(third, Infeasible)  # both slots are full
    assert utility == 8
    assert duals == pytest.approx([23.0, 43.5, 43.5])


def _drawn(seed: int) -> tuple[list[SlotJob], MarketCapacity]:
    draw = np.random.default_rng(seed)
    cluster = MarketCapacity(draw.integers(1, 9, (2, 3)), ints(1, 2, 4))
    return [drawn_job(draw, n, 4, 3) for n in range(6)], cluster


@pytest.mark.parametrize("seed", range(30))
def test_prices_rise_with_the_load_from_l_to_u(seed: int) -> None:
    jobs, cluster = _drawn(seed)
    constants = traced_constants(jobs, cluster)
    capacity = np.full(3, 50)
    prices = constants.prices(np.arange(51)[:, None] * np.ones(3, np.int64), capacity)
    assert (prices[0] == constants.lowest).all()
    assert prices[-1] == pytest.approx(constants.highest, rel=1e-12)
    assert (np.diff(prices, axis=0) > 0).all()
    assert ((prices >= constants.lowest) & (prices <= constants.highest)).all()
    assert (constants.highest >= math.e * constants.lowest * (1 - 1e-15)).all()


def test_a_price_is_l_times_u_over_l_to_the_share_that_is_taken() -> None:
    # L = 1 / 4 and U = 64: U / L = 2^8. At 0, C / 4, C / 2 and C: 2^-2 x 2^0, 2^2, 2^4, 2^8. A straight line
    # from L to U would have 16.19 and 32.13 in between.
    constants, capacity = Constants(0.25, floats(64.0)), ints(12)
    prices = constants.prices(ints(0, 3, 6, 12)[:, None], capacity)[:, 0]
    assert prices == pytest.approx([0.25, 1.0, 4.0, 64.0], rel=1e-14)
    # Two resources on servers of several sizes: U / L is 3^4 and 5^4, loads are quarters of each capacity.
    constants = Constants(2.0, floats(2.0 * 3**4, 2.0 * 5**4))
    sizes = np.array([[4, 8], [12, 4]])
    for quarter in range(5):
        expected = [[2.0 * 3**quarter, 2.0 * 5**quarter]] * 2
        assert constants.prices(sizes * quarter // 4, sizes) == pytest.approx(np.array(expected), rel=1e-14)


@pytest.mark.parametrize("seed", range(30))
def test_logarithms_of_prices_are_a_straight_line_in_the_load(seed: int) -> None:
    constants = traced_constants(*_drawn(seed))
    load = np.arange(51)[:, None] * np.ones(3, np.int64)
    logs = np.log(constants.prices(load, np.full(3, 50)))
    assert np.abs(np.diff(logs, n=2, axis=0)).max() < 1e-12 * np.abs(logs).max()
    step = np.log(constants.highest) - math.log(constants.lowest)
    assert np.diff(logs, axis=0) == pytest.approx(np.tile(step / 50, (50, 1)), rel=1e-9)


def test_a_market_sells_at_the_price_of_the_load_before_and_then_raises_it() -> None:
    # Two workers and two parameter servers of job A take 2 x 2 + 2 x 1 = 6 of 12: from L to sqrt(L U).
    cluster = servers([12])
    market = Market.empty(cluster, Constants(0.25, floats(64.0)), 2)
    plan = SlotPlan(slot=ints(1), server=ints(0), workers=ints(2), ps=ints(2))
    market.sell(EXAMPLE_A, plan)
    assert market.price[:, 0, 0] == pytest.approx([0.25, 4.0], rel=1e-14)


@pytest.mark.parametrize("seed", range(30))
def test_a_narrower_span_raises_the_lowest_price_only(seed: int) -> None:
    jobs, cluster = _drawn(seed)
    constants = traced_constants(jobs, cluster)
    widest = float(constants.log_ratio.max())
    assert constants.within(widest + 1).lowest == constants.lowest
    narrow = constants.within(1 + (widest - 1) / 2)
    assert narrow.log_ratio.max() == pytest.approx(max(1 + (widest - 1) / 2, 1))
    assert narrow.lowest >= constants.lowest
    assert (narrow.highest == np.maximum(constants.highest, math.e * narrow.lowest)).all()


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("power", quick_first([-30, 1, 40]))
def test_utilities_times_a_power_of_two_scale_all_prices_exactly(seed: int, power: int) -> None:
    jobs, cluster = _drawn(seed)
    factor = 2.0**power
    constants = traced_constants(jobs, cluster)
    scaled = traced_constants([replace(job, utility=factor * job.utility) for job in jobs], cluster)
    assert scaled.lowest == factor * constants.lowest
    assert (scaled.highest == factor * constants.highest).all()
    load = np.arange(9)[:, None, None] * np.ones((2, 3), np.int64) * cluster.capacity // 8
    assert (scaled.prices(load, cluster.capacity) == factor * constants.prices(load, cluster.capacity)).all()


@pytest.mark.parametrize("seed", range(30))
def test_declared_ranges_that_hold_every_job_hold_every_price(seed: int) -> None:
    jobs, cluster = _drawn(seed)
    ended = [job for job in jobs if job.can_end]
    demand = np.array([job_demand(job, cluster) for job in ended])
    ranges = Ranges(
        utility=(min(float(j.utility[-1]) for j in ended), max(float(j.utility[0]) for j in ended)),
        least_demand=np.where(demand > 0, demand, np.inf).min(axis=0),
        work=(min(job_work(j, cluster) for j in ended), max(job_work(j, cluster) for j in ended)),
    )
    ranges = replace(ranges, least_demand=np.where(np.isinf(ranges.least_demand), 0, ranges.least_demand))
    traced, declared = traced_constants(jobs, cluster), declared_constants(ranges, cluster, 4)
    assert declared.lowest <= traced.lowest * (1 + 1e-12)
    used = demand.any(axis=0)
    assert (declared.highest[used] >= traced.highest[used] * (1 - 1e-12)).all()


def test_a_resource_that_no_job_uses_costs_e_times_l_at_most() -> None:
    jobs = [replace(EXAMPLE_A, worker_demand=ints(2, 0), ps_demand=ints(1, 0))]
    constants = traced_constants(jobs, servers([6, 6]))
    assert constants.highest[1] == pytest.approx(math.e * constants.lowest)


def test_jobs_that_cannot_end_even_alone_make_no_price() -> None:
    late = replace(EXAMPLE_A, samples=1e6, utility=floats(1e9, 1e-9))
    assert not late.can_end
    cluster = servers([6])
    with_it, without = traced_constants([EXAMPLE_A, late], cluster), traced_constants([EXAMPLE_A], cluster)
    assert (with_it.lowest, with_it.highest.tolist()) == (without.lowest, without.highest.tolist())


def test_utilities_that_vanish_leave_prices_that_are_numbers() -> None:
    # exp(-800) has no floating-point number: its floor is 1e-300 of the largest utility.
    jobs = [replace(EXAMPLE_A, utility=floats(100, 0))]
    constants = traced_constants(jobs, servers([6]))
    assert constants.lowest >= SMALLEST_PRICE
    prices = constants.prices(np.arange(7)[:, None], ints(6))
    assert np.isfinite(prices).all()
    assert (np.diff(prices[:, 0]) > 0).all()
    assert prices[-1] == pytest.approx(constants.highest)


def test_a_server_without_a_resource_sells_it_at_the_highest_price() -> None:
    constants = Constants(0.1, floats(3.0))
    assert constants.prices(np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)).tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([replace(EXAMPLE_A, samples=1e6)], "no job can end before the horizon"),
        ([replace(EXAMPLE_A, utility=floats(0, 0))], "no job has utility"),
    ],
)
def test_no_prices_without_a_job_that_counts(jobs: list[SlotJob], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        traced_constants(jobs, servers([6]))


def test_ranges_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must rise"):
        declared_constants(Ranges((2.0, 1.0), floats(1), (1.0, 1.0)), servers([6]), 2)
    with pytest.raises(InvalidInputError, match="no resources"):
        declared_constants(Ranges((1.0, 2.0), floats(1), (1.0, 1.0)), servers([0]), 2)
