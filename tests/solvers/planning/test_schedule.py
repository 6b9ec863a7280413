"""The best schedule of a job: as the plain method finds it, feasible, and never better than the exact one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray
from ray_sim.solvers.planning.market import Constants, Market
from ray_sim.solvers.planning.rounding_factor import TaskRounding
from ray_sim.solvers.planning.schedule import (
    Infeasible,
    NotWorthIt,
    Obstacle,
    Planning,
    Schedule,
    best_schedule,
)
from ray_sim.solvers.planning.slot_costs import SlotCosts, SlotTasks, WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.trim_schedule import samples_trained, trim
from tests.command_line import python
from tests.proofs import instances, quick_first
from tests.solvers.planning.exact import best_payoff, is_enough, least_costs
from tests.solvers.planning.plain import plain_search
from tests.solvers.planning.small import EXAMPLE_A, drawn_job, floats, ints, offered_beside, servers

COARSE = Planning(quanta=6, rounding=TaskRounding(tries=4))


def drawn_market(draw: np.random.Generator, slots: int, n_servers: int, resources: int) -> Market:
    """Loaded here and there, two slots alike."""
    cluster = servers(*draw.integers(1, 9, (n_servers, resources)).tolist())
    constants = Constants(float(draw.choice([0.01, 0.2])), np.full(resources, float(draw.choice([1, 8]))))
    market = Market.empty(cluster, constants, slots)
    if draw.random() < 0.7:
        market.load[:] = draw.integers(0, cluster.capacity + 1, market.load.shape)
        market.load[-1] = market.load[0]
        market.price[:] = constants.prices(market.load, cluster.capacity)
    return market


def drawn(seed: int, n_servers: int = 2) -> tuple[SlotJob, Market]:
    draw = np.random.default_rng(seed)
    slots, resources = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    market = drawn_market(draw, slots, int(draw.integers(1, n_servers + 1)), resources)
    return drawn_job(draw, 5, slots, resources), market


def drawn_typed(seed: int, n_servers: int = 2) -> tuple[SlotJob, Market, BoolArray]:
    """A job that may not take the first resource of some servers, and half-empty servers.

    Its workers take that resource, its parameter servers seldom.
    """
    draw = np.random.default_rng(seed)
    slots = int(draw.integers(1, 4))
    market = drawn_market(draw, slots, n_servers, 2)
    market.load[:] //= 2
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)
    job = drawn_job(draw, 5, slots, 2)
    worker, ps = int(draw.integers(1, 3)), int(draw.choice([0, 0, 0, 1]))
    barred = draw.permutation(np.arange(n_servers) < draw.integers(1, n_servers))
    return replace(job, worker_demand=ints(worker, 0), ps_demand=ints(ps, 1)), market, barred


def check_against_the_plain_method(job: SlotJob, market: Market, barred: BoolArray, seed: int) -> None:
    streams = Streams(seed)
    outcome = best_schedule(job, offered_beside(market, barred), COARSE, streams)
    plain = plain_search(job, market, COARSE, streams, barred)
    if plain is None:
        assert isinstance(outcome, Infeasible) or (isinstance(outcome, NotWorthIt) and outcome.by_bound)
        return
    trimmed = trim(job, plain[1])
    cost = sum(float((tasks.price * tasks.held).sum()) for tasks in trimmed)
    payoff = float(job.utility[trimmed[-1].slot - job.arrival]) - cost
    if isinstance(outcome, NotWorthIt):
        assert payoff <= 1e-9
        assert outcome.by_bound or outcome.payoff == pytest.approx(payoff, rel=1e-9, abs=1e-9)
    else:
        assert isinstance(outcome, Schedule)
        assert outcome.payoff == pytest.approx(payoff, rel=1e-9)
        rows = [
            (t.slot, s, *held) for t in trimmed for s, held in zip(t.server, t.held.tolist(), strict=True)
        ]
        plan = outcome.plan
        assert list(zip(plan.slot, plan.server, plan.workers, plan.ps, strict=True)) == rows


@pytest.mark.slow
@settings(max_examples=instances(3000, 38), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_shortcuts_change_nothing(seed: int) -> None:
    """Shared states, one table, quanta that one server does as cheaply, early ends and instant rejections."""
    job, market = drawn(seed, n_servers=3)
    nowhere = np.zeros(len(market.cluster.capacity), np.bool_)
    check_against_the_plain_method(job, market, nowhere, seed)


@pytest.mark.parametrize("seed", range(instances(300)))
def test_nor_where_a_job_may_not_take_the_gpus_of_some_servers(seed: int) -> None:
    check_against_the_plain_method(*drawn_typed(seed, n_servers=3), seed)


def check_a_schedule(job: SlotJob, market: Market, outcome: Schedule) -> None:
    plan = outcome.plan
    assert (
        market.load[plan.slot, plan.server] + plan.quanta(job) <= market.cluster.capacity[plan.server]
    ).all()
    assert len(set(zip(plan.slot.tolist(), plan.server.tolist(), strict=True))) == len(plan.slot)
    assert (plan.slot >= job.arrival).all()
    assert outcome.end == plan.slot.max()
    counts = [0, 0]
    for slot in np.unique(plan.slot):
        here = plan.slot == slot
        workers, ps = int(plan.workers[here].sum()), int(plan.ps[here].sum())
        assert 1 <= workers <= job.most_workers
        assert ps == -(-workers // int(job.workers_per_ps))
        counts[int(here.sum() > 1)] += workers
    assert is_enough(job, (counts[0], counts[1]))
    units = plan.quanta(job) / market.cluster.quanta_per_unit
    assert outcome.cost == pytest.approx(float((units * market.price[plan.slot, plan.server]).sum()))
    assert outcome.payoff == pytest.approx(float(job.utility[outcome.end - job.arrival]) - outcome.cost)
    assert outcome.payoff > 0


def check_against_enumeration(job: SlotJob, market: Market, barred: BoolArray, seed: int) -> None:
    free = market.cluster.capacity - market.load
    costs = least_costs(job, free, market.price, market.cluster.quanta_per_unit, barred)
    planning = replace(COARSE, round="last" if seed % 3 == 0 else "each")
    offered = offered_beside(market, barred)
    outcome = best_schedule(job, offered, planning, Streams(seed))
    payoff = float((job.utility - costs).max())
    if isinstance(outcome, Schedule):
        check_a_schedule(job, market, outcome)
        assert not (barred[outcome.plan.server] & (outcome.plan.quanta(job)[:, 0] > 0)).any()
        assert outcome.payoff <= payoff + 1e-9
    elif isinstance(outcome, NotWorthIt) and outcome.by_bound:
        assert payoff <= 1e-9
        assert outcome.payoff >= payoff - 1e-9
    elif isinstance(outcome, Infeasible) and outcome.obstacle is Obstacle.HORIZON:
        assert payoff == -np.inf
    if job.can_end:
        quanta = WorkParts.of(job, 6)
        bounds = SlotCosts.of(job, offered, quanta, TaskRounding(), Streams(0)).bounds()
        assert (bounds <= costs * (1 + 1e-9) + 1e-12).all()
        assert (np.diff(bounds[np.isfinite(bounds)]) <= 1e-12).all()


@settings(max_examples=instances(3000), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_schedules_are_feasible_and_bounds_are_bounds(seed: int) -> None:
    job, market = drawn(seed)
    check_against_enumeration(job, market, np.zeros(len(market.cluster.capacity), np.bool_), seed)


@pytest.mark.parametrize("seed", range(instances(300)))
def test_so_are_those_of_a_job_that_may_not_take_the_gpus_of_some_servers(seed: int) -> None:
    check_against_enumeration(*drawn_typed(seed), seed)


def market_a(slots: int, n_servers: int = 1) -> Market:
    return Market.empty(servers(*[[6]] * n_servers), Constants(0.1, floats(1.0)), slots)


@pytest.mark.parametrize(
    ("job", "quanta", "obstacle"),
    [
        # 500 x 0.02 / 4 = 2.5 slots, of 2.
        (replace(EXAMPLE_A, samples=500.0), 40, Obstacle.HORIZON),
        # 300 x 0.02 / 4 = 1.5 slots: no slot does all of it.
        (replace(EXAMPLE_A, samples=300.0), 1, Obstacle.COARSE_PARTS),
        # 4 workers and 4 parameter servers take 12, and there are 6.
        (replace(EXAMPLE_A, samples=300.0), 40, Obstacle.ROOM),
    ],
)
def test_what_cannot_be_done_says_why(job: SlotJob, quanta: int, obstacle: Obstacle) -> None:
    outcome = best_schedule(job, market_a(2), Planning(quanta=quanta), Streams(0))
    assert isinstance(outcome, Infeasible)
    assert outcome.obstacle is obstacle
    assert outcome.effort.unsolved == 0


def test_a_job_that_is_worth_little_is_rejected_at_once() -> None:
    # At least 100 x 0.02 = 2 worker-slots of 3 units each at 0.1: 0.6.
    poor = replace(EXAMPLE_A, utility=floats(0.5, 0.5))
    outcome = best_schedule(poor, market_a(2), Planning(), Streams(0))
    assert isinstance(outcome, NotWorthIt)
    assert outcome.by_bound
    assert outcome.payoff == pytest.approx(-0.1)
    rich = best_schedule(replace(poor, utility=floats(0.7, 0.7)), market_a(2), Planning(), Streams(0))
    assert isinstance(rich, Schedule)
    assert rich.cost == pytest.approx(0.6)


def test_the_default_number_of_quanta() -> None:
    assert [Planning().number_of(slots) for slots in (5, 10, 20)] == [40, 40, 80]


def test_the_earliest_of_equally_good_ends_is_taken() -> None:
    # All slots cost the same and the utility does not fall.
    outcome = best_schedule(replace(EXAMPLE_A, utility=floats(5, 5, 5)), market_a(3), Planning(), Streams(0))
    assert isinstance(outcome, Schedule)
    assert outcome.end == 0


def test_the_cheaper_of_two_slots_is_taken_where_time_does_not_matter() -> None:
    market = market_a(2)
    market.load[0, 0, 0] = 1
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)
    outcome = best_schedule(replace(EXAMPLE_A, utility=floats(5, 5)), market, Planning(), Streams(0))
    assert isinstance(outcome, Schedule)
    assert outcome.plan.slot.tolist() == [1]


def test_a_job_that_demands_nothing_costs_nothing() -> None:
    job = replace(EXAMPLE_A, worker_demand=ints(0), ps_demand=ints(0))
    outcome = best_schedule(job, market_a(2), Planning(), Streams(0))
    assert isinstance(outcome, Schedule)
    assert (outcome.end, outcome.cost, outcome.plan.workers.tolist()) == (0, 0, [2])


def test_parameter_servers_that_demand_nothing_are_there_all_the_same() -> None:
    job = replace(EXAMPLE_A, ps_demand=ints(0), samples=150.0, most_workers=3, utility=floats(5))
    outcome = best_schedule(job, market_a(1, n_servers=2), Planning(), Streams(0))
    assert isinstance(outcome, Schedule)
    assert (outcome.plan.workers.tolist(), outcome.plan.ps.tolist()) == ([3], [3])


def test_slots_that_are_not_solved_are_counted_and_plans_stay_feasible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A server holds one worker and its parameter server, so 100 workers take more than the 64 steps left.
    job = replace(EXAMPLE_A, samples=2000.0, theta_external=0.05, most_workers=100, utility=floats(90))
    market = Market.empty(servers(*[[3]] * 100), Constants(0.01, floats(1.0)), 1)
    solved = best_schedule(job, market, Planning(quanta=8), Streams(0))
    assert isinstance(solved, Schedule)
    assert solved.effort.unsolved == 0
    monkeypatch.setattr("ray_sim.solvers.planning.slots._STEPS_PER_MOVE", 0)
    lost = best_schedule(job, market, Planning(quanta=8), Streams(0))
    assert isinstance(lost, Infeasible)
    assert (lost.obstacle, lost.effort.unsolved) == (Obstacle.ROOM, 1)


def held(*rows: tuple[int, int]) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def test_all_tasks_on_one_server_train_at_the_internal_rate() -> None:
    # 2 workers: 2 / 0.02 on one server, 2 / 0.04 on two; a parameter server apart counts too.
    assert samples_trained(EXAMPLE_A, held((2, 2), (0, 0))) == pytest.approx(100)
    assert samples_trained(EXAMPLE_A, held((1, 1), (1, 1))) == pytest.approx(50)
    assert samples_trained(EXAMPLE_A, held((2, 0), (0, 2))) == pytest.approx(50)


def test_trimming_drops_the_dearest_workers_first_and_parameter_servers_after_them() -> None:
    # 100 samples: 2 workers on one server do it. Slot 0 costs 3 a worker, slot 1 1: slot 0 is not needed.
    one = ints(0)
    slots = [
        SlotTasks(0, one, held((2, 2)), np.array([[2.0, 1.0]])),
        SlotTasks(1, one, held((3, 3)), np.array([[0.5, 0.5]])),
    ]
    trimmed = trim(EXAMPLE_A, slots)
    assert [(tasks.slot, tasks.held.tolist()) for tasks in trimmed] == [(1, [[2, 2]])]


def test_trimming_credits_the_rate_of_one_server_once_all_tasks_stand_on_it() -> None:
    # 4 workers on two servers do 100. Without the one on the second server and its parameter server, 3 on the
    # first do 150, and then 2 do 100.
    slots = [SlotTasks(0, ints(0, 1), held((3, 3), (1, 1)), np.array([[1.0, 1.0], [2.0, 2.0]]))]
    job = replace(EXAMPLE_A, samples=75.0)
    assert [tasks.held.tolist() for tasks in trim(job, slots)] == [[[2, 2]]]


def test_trimming_leaves_the_earliest_of_equal_slots() -> None:
    one = ints(0)
    slots = [SlotTasks(slot, one, held((2, 2)), np.array([[1.0, 1.0]])) for slot in (0, 1, 2)]
    assert [tasks.slot for tasks in trim(EXAMPLE_A, slots)] == [0]


def test_trimming_refuses_what_is_not_enough() -> None:
    with pytest.raises(ValueError, match="50 samples of 100"):
        trim(EXAMPLE_A, [SlotTasks(0, ints(0), held((1, 1)), np.array([[1.0, 1.0]]))])


@pytest.mark.parametrize("seed", quick_first(range(100), 2))
def test_a_trimmed_schedule_cannot_lose_a_worker(seed: int) -> None:
    job, market = drawn(seed)
    outcome = best_schedule(job, market, COARSE, Streams(seed))
    if not isinstance(outcome, Schedule):
        return
    for row in np.flatnonzero(outcome.plan.workers):
        fewer = outcome.plan.workers.copy()
        fewer[row] -= 1
        done = 0.0
        for slot in np.unique(outcome.plan.slot):
            here = outcome.plan.slot == slot
            # The dearest of the slot goes, so only slots on one server are told exactly here.
            if here.sum() > 1:
                return
            done += float(fewer[here].sum()) / job.theta_internal
        assert done < job.samples * (1 - 1e-9)


def test_the_best_payoff_is_found_exactly_where_quanta_are_worker_slots() -> None:
    # One server; 100 samples in 2 quanta: one worker-slot each.
    job = replace(EXAMPLE_A, most_workers=2, utility=floats(5, 4, 4))
    market = market_a(3)
    market.load[0, 0, 0] = 3
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)
    outcome = best_schedule(job, market, Planning(quanta=2), Streams(0))
    free = market.cluster.capacity - market.load
    assert isinstance(outcome, Schedule)
    assert outcome.payoff == pytest.approx(best_payoff(job, free, market.price, ints(1)))


PLANS = """
from tests.solvers.planning.test_schedule import COARSE, best_schedule, drawn
from ray_sim.model.streams import Streams
for seed in range(20):
    print(best_schedule(*drawn(seed, 3), COARSE, Streams(seed)))
"""


@pytest.mark.long
def test_the_kernels_of_plans_are_their_own_plain_twins() -> None:
    compiled, plain = (
        python("-W", "error", "-c", PLANS, NUMBA_DISABLE_JIT=disabled) for disabled in ("0", "1")
    )
    assert "Schedule" in plain
    assert plain == compiled
