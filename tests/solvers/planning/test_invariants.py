"""What must hold whenever jobs come one after the other, in tiny markets: the paper's analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.solvers.planning.market import Constants, Market, traced_constants
from ray_sim.solvers.planning.rounding_factor import TaskRounding
from ray_sim.solvers.planning.schedule import Outcome, Planning, Schedule, best_schedule
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import solve_slots
from tests.proofs import instances
from tests.solvers.planning.exact import best_payoff, least_costs, optimum
from tests.solvers.planning.small import drawn_job, ints, servers
from tests.solvers.planning.test_schedule import drawn

PLANNING = Planning(quanta=6, rounding=TaskRounding(tries=4))
SLOTS = 2


@dataclass
class Run:
    """Jobs in the order of arrival."""

    jobs: Sequence[SlotJob]
    market: Market
    outcomes: list[Outcome]
    prices: list[FloatArray]
    """Before the first job and after each."""
    duals: list[float]
    """The same: payoffs of those admitted, and what everything costs."""

    @property
    def utilities(self) -> list[float]:
        """After each job, of those admitted."""
        won = [outcome.utility if isinstance(outcome, Schedule) else 0.0 for outcome in self.outcomes]
        return [0.0, *np.cumsum(won).tolist()]


def run(jobs: Sequence[SlotJob], market: Market, seed: int) -> Run:
    outcomes: list[Outcome] = []
    prices, duals, payoffs = [market.price.copy()], [market.dual], 0.0
    for job in jobs:
        outcome = best_schedule(job, market, PLANNING, Streams(seed))
        if isinstance(outcome, Schedule):
            market.sell(job, outcome.plan)
            payoffs += outcome.payoff
        outcomes.append(outcome)
        prices.append(market.price.copy())
        duals.append(payoffs + market.dual)
    return Run(jobs, market, outcomes, prices, duals)


def drawn_run(seed: int, factor: float = 1.0) -> Run | None:
    """Three jobs on one or two servers; None where no job can end."""
    draw = np.random.default_rng(seed)
    n_servers, resources = int(draw.integers(1, 3)), int(draw.integers(1, 3))
    cluster = servers(*draw.integers(2, 7, (n_servers, resources)).tolist())
    jobs = [drawn_job(draw, n, SLOTS, resources) for n in range(3)]
    jobs = [replace(job, utility=factor * job.utility) for job in sorted(jobs, key=lambda job: job.arrival)]
    try:
        constants = traced_constants(jobs, cluster)
    except InvalidInputError:
        return None
    return run(jobs, Market.empty(cluster, constants, SLOTS), seed)


def certificate(jobs: Sequence[SlotJob], market: Market, price: FloatArray) -> float:
    """D': payoffs over-estimated by costs in fractions with all capacity free, and the price of all of it."""
    total = 0.0
    for job in jobs:
        free = np.tile(market.cluster.capacity, (len(job.utility), 1, 1))
        slots = solve_slots(job, free, price[job.arrival :], market.cluster.quanta_per_unit)
        costs = slots.bounds(np.arange(len(job.utility)), job.samples * job.fastest)
        total += max(0.0, float((job.utility - costs).max()))
    units = market.cluster.capacity / market.cluster.quanta_per_unit
    return total + float((price * units).sum())


def check_a_run(seed: int) -> None:
    done = drawn_run(seed)
    if done is None:
        return
    # (a) weak duality after every arrival; (c) prices rise, between L and U.
    assert all(won <= dual * (1 + 1e-12) for won, dual in zip(done.utilities, done.duals, strict=True))
    constants = done.market.constants
    for before, after in zip(done.prices, done.prices[1:], strict=False):
        assert (after >= before).all()
        assert ((after >= constants.lowest) & (after <= constants.highest)).all()
    # (d) capacities; the rest of a schedule is in test_schedule.
    assert (done.market.load <= done.market.cluster.capacity).all()
    # (b) the optimum is at least what was won, and at most what either end of the prices certifies.
    best = optimum(done.jobs, done.market.cluster, SLOTS)
    assert done.utilities[-1] <= best
    for price in (done.prices[0], done.prices[-1]):
        assert best <= certificate(done.jobs, done.market, price) * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=instances(2000, 38), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_utility_is_at_most_the_optimum_and_the_dual_and_the_certificate_at_least_it(seed: int) -> None:
    check_a_run(seed)


@settings(max_examples=instances(60), deadline=None)
@given(seed=st.integers(0, 2**32), power=st.integers(-20, 20))
def test_utilities_times_a_power_of_two_change_no_decision(seed: int, power: int) -> None:
    factor = 2.0**power
    one, other = drawn_run(seed), drawn_run(seed, factor)
    if one is None or other is None:
        assert one is other
        return
    assert other.duals == [factor * dual for dual in one.duals]
    assert (other.prices[-1] == factor * one.prices[-1]).all()
    for before, after in zip(one.outcomes, other.outcomes, strict=True):
        assert type(before) is type(after)
        if isinstance(before, Schedule) and isinstance(after, Schedule):
            assert after.payoff == factor * before.payoff
            assert [each.tolist() for each in vars_of(after)] == [each.tolist() for each in vars_of(before)]


def vars_of(schedule: Schedule) -> list[np.ndarray]:
    plan = schedule.plan
    return [plan.slot, plan.server, plan.workers, plan.ps]


@settings(max_examples=instances(80), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_more_time_never_costs_more_and_more_work_never_less(seed: int) -> None:
    job, market = drawn(seed)
    free, units = market.cluster.capacity - market.load, market.cluster.quanta_per_unit
    costs = least_costs(job, free, market.price, units)
    finite = costs[np.isfinite(costs)]
    assert (np.diff(finite) <= 1e-12).all()
    assert not np.isfinite(costs[: len(costs) - len(finite)]).any()
    more = least_costs(replace(job, samples=1.5 * job.samples), free, market.price, units)
    assert (more >= costs - 1e-12).all()


@settings(max_examples=instances(80), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_job_that_an_empty_cluster_rejects_is_rejected_by_every_other(seed: int) -> None:
    job, market = drawn(seed)
    capacity, units = market.cluster.capacity, market.cluster.quanta_per_unit
    empty = Market.empty(market.cluster, market.constants, len(market.load))
    alone = best_payoff(job, np.broadcast_to(capacity, market.load.shape), empty.price, units)
    assert best_payoff(job, capacity - market.load, market.price, units) <= alone + 1e-12


@settings(max_examples=instances(80), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_more_bandwidth_between_servers_never_lowers_a_payoff_at_the_same_prices(seed: int) -> None:
    job, market = drawn(seed)
    free, units = market.cluster.capacity - market.load, market.cluster.quanta_per_unit
    faster = replace(job, theta_external=job.theta_internal)
    assert (
        best_payoff(faster, free, market.price, units) >= best_payoff(job, free, market.price, units) - 1e-12
    )


def test_a_schedule_with_a_positive_payoff_may_be_blocked_before_prices_say_so() -> None:
    # A server of 3 sells 2. The second job would pay 10 for 2 at 0.1 x 200^(2/3) = 3.4, but 1 is left.
    job = SlotJob(0, 0, 50.0, 0.02, 0.02, 1, 1.0, ints(2), ints(0), np.array([10.0]))
    market = Market.empty(servers([3]), Constants(0.1, np.array([20.0])), 1)
    done = run([job, replace(job, number=1)], market, 0)
    assert [isinstance(outcome, Schedule) for outcome in done.outcomes] == [True, False]
    assert best_payoff(job, np.array([[[3]]]), market.price, ints(1)) == pytest.approx(
        10 - 0.2 * 200 ** (2 / 3)
    )
