"""Rounding and its repair, and the factors that favour one side."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.kernels.planning.parametric_slot_lp import SlotOffer
from ray_sim.kernels.planning.random_bits import substate, uniform
from ray_sim.kernels.planning.slot_tasks import Room, Spread, Tasks, draw
from ray_sim.model.streams import Streams
from ray_sim.solvers.planning.market import Constants, Market
from ray_sim.solvers.planning.rounding_factor import TaskRounding, covering_gain, packing_gain, packing_widths
from ray_sim.solvers.planning.slot_costs import SlotCosts, WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import slot_rooms
from tests.proofs import seeds
from tests.solvers.planning.plain import PlainSlot
from tests.solvers.planning.small import B_FREE, B_PRICE, B_UNITS, EXAMPLE_A, EXAMPLE_B, floats, ints, servers


def market_b(slots: int) -> Market:
    """Example 1.B in every slot: capacities are what is free, prices are given."""
    market = Market.empty(servers(*B_FREE[0].tolist()), Constants(1.0, floats(3, 3)), slots)
    market.price[:] = B_PRICE[0]
    return market


def apart(job: SlotJob, workers: float, slots: int) -> SlotJob:
    """It needs so many workers for one slot on several servers, and can use one slot of ``slots`` only."""
    return replace(job, samples=workers / job.theta_external, utility=np.ones(slots))


def test_one_of_eight_roundings_of_example_1_b_is_feasible_and_costs_33() -> None:
    # w = (2.5, 0.5), s = (0, 1.5): all eight outcomes are as likely; only w = (2, 1), s = (0, 2) fits.
    job = apart(EXAMPLE_B, 3.0, 1)
    slot = PlainSlot(job, B_FREE[0], B_PRICE[0], B_UNITS)
    costs = []
    for bits in range(8):
        up = np.array([[bits & 1, 0], [bits >> 1 & 1, bits >> 2 & 1]])
        held = np.array([[2, 0], [0, 1]]) + up
        total = held.sum(axis=0)
        if slot.fits(held) and total[0] >= 3 and 2 * total[1] >= total[0]:
            costs.append(slot.cost(held))
    assert costs == [33.0]


@pytest.mark.slow
def test_a_try_finds_it_with_a_chance_of_one_eighth_and_fifty_tries_find_it() -> None:
    # One try fails with 7/8: of 4,000 slots, 500 +- 21 succeed at once; fifty fail with 0.13 %.
    slots, found = 4000, Counter[float]()
    job = apart(EXAMPLE_B, 3.0, slots)
    quanta = WorkParts(1, 1, ints(99), floats(3.0))  # no way to have 99 workers on one server
    market = market_b(slots)
    costs = SlotCosts.of(job, market, quanta, TaskRounding(tries=50), Streams(3))
    found.update(float(costs.rounded(slot)[1]) for slot in range(200))
    assert found == {33.0: 200}
    tasks = costs.tasks(0, 1)
    assert tasks is not None
    assert (tasks.held * tasks.price).sum() == 33
    once = 0
    for slot in range(slots):
        drawn = Streams(3).uniforms("rounding", *(np.full(4, each) for each in (0, slot, 1, 0)), np.arange(4))
        once += int(drawn[0] >= 0.5 and drawn[2] < 0.5 and drawn[3] < 0.5)
    assert abs(once - 500) < 5 * math.sqrt(4000 / 8 * 7 / 8)


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.7, 1.0, 1.5])
def test_rounding_keeps_the_mean(gain: float) -> None:
    """Neither repaired nor trimmed: the mean of whole tasks is that of the fractions, times the gain."""
    n, fractions = 4000, np.array([[2.3, 0.6], [0.0, 1.5]])
    rooms = slot_rooms(EXAMPLE_B, np.full((1, 2, 2), 10**6), B_PRICE, B_UNITS)
    room = Room(rooms.free[0], rooms.demand, 9, 2.0, SlotOffer(*(part[0] for part in rooms.offers)))
    spread = Spread(fractions, np.arange(2), np.ones(2, np.int64), np.array([2]))
    tasks = Tasks(np.zeros((2, 2), np.int64), np.zeros(2, np.int64), *np.zeros((3, 2), np.int64))
    total = np.zeros((2, 2))
    for key in Streams(5).states("rounding", np.arange(n)):
        with np.errstate(over="ignore"):
            assert draw(room, spread, gain, key, True, tasks)
        total += tasks.held
    share = gain * fractions % 1
    assert (np.abs(total / n - gain * fractions) <= 5 * np.sqrt(share * (1 - share) / n)).all()


def test_kernels_draw_the_numbers_of_the_streams() -> None:
    streams = Streams(11)
    job, slot, done, attempt, place = (np.array([7, 0, 2**40]) + n for n in range(5))
    states = streams.states("rounding", job, slot, done)
    drawn = []
    for state, a, p in zip(states, attempt.tolist(), place.tolist(), strict=True):
        with np.errstate(over="ignore"):
            of_try = np.uint64(substate(state, a))  # kernels give Python's integers to Python
            drawn.append(uniform(np.uint64(substate(of_try, p))))
    assert drawn == streams.uniforms("rounding", job, slot, done, attempt, place).tolist()


def test_the_factors_of_example_1_c() -> None:
    width, rows, delta = 50.0, 401, 0.5
    g = packing_gain(rows, width, delta)
    assert g == pytest.approx(0.511284, abs=5e-7)
    assert math.exp(-((1 / g - 1) ** 2) * g * width / 3) == pytest.approx(4.15628e-4, rel=1e-5)
    assert math.exp(-((1 / g - 1) ** 2) * g * width / 3) == pytest.approx(delta / (3 * rows), rel=1e-12)
    g = covering_gain(10.0, 0.3)
    assert g == pytest.approx(1.946873, abs=5e-7)
    assert math.exp(-((1 - 1 / g) ** 2) * g * 10 / 2) == pytest.approx(0.1, rel=1e-12)
    assert covering_gain(50.0, 0.5) == pytest.approx(1.305936, abs=5e-7)


def test_the_packing_width_leaves_out_servers_without_room_for_a_task() -> None:
    # 10 / 4, 10 / 2 and 8 / 4, 12 / 2 workers; 10 / 2, 10 / 4 and 8 / 2, 12 / 4 parameter servers.
    free = np.concatenate([B_FREE, np.zeros((1, 1, 2), np.int64)], axis=1)
    price = np.concatenate([B_PRICE, np.ones((1, 1, 2))], axis=1)
    assert packing_widths(slot_rooms(EXAMPLE_B, free, price, B_UNITS)).tolist() == [2.0]


def test_a_worker_goes_before_a_parameter_server_comes_that_needs_its_room() -> None:
    # alpha = beta = gamma = 1, C = (4, 4), W = 4: w = (3, 2), s = (1, 2) has no room for two more of s
    # until a worker goes; then w = s = (2, 2).
    job = replace(EXAMPLE_A, worker_demand=ints(1), most_workers=6)
    slot = PlainSlot(job, np.array([[4], [4]]), np.ones((2, 1)), ints(1))
    held = np.array([[3, 1], [2, 2]])
    assert slot.repair(held, 4)
    assert held.tolist() == [[2, 2], [2, 2]]


def drawn_costs(seed: int, rounding: TaskRounding) -> tuple[SlotCosts, Market, Streams]:
    rng = np.random.default_rng(seed)
    resources = int(rng.integers(1, 4))
    n = int(rng.integers(1, 6))
    demand = rng.integers(0, 4, (2, resources))
    demand[0, 0] += 1
    job = replace(
        EXAMPLE_A,
        number=int(rng.integers(100)),
        most_workers=int(rng.integers(1, 12)),
        workers_per_ps=float(rng.choice([1, 1.5, 2, 4])),
        worker_demand=demand[0],
        ps_demand=demand[1],
        samples=float(rng.integers(50, 400)),
        utility=np.ones(3),
    )
    cluster = servers(*rng.integers(0, 12, (n, resources)).tolist())
    constants = Constants(0.01, np.full(resources, 5.0))
    market = Market.empty(cluster, constants, 3)
    market.load[:] = rng.integers(0, cluster.capacity + 1, (3, n, resources))
    market.price[:] = constants.prices(market.load, cluster.capacity)
    streams = Streams(seed)
    return SlotCosts.of(job, market, WorkParts.of(job, 8), rounding, streams), market, streams


@pytest.mark.parametrize("favour", ["neither", "packing", "covering"])
@pytest.mark.parametrize("seed", seeds(60))
def test_rounded_costs_are_those_of_the_plain_method(seed: int, favour: str) -> None:
    """Every slot and quantum by itself, without the streams of others, and with the same numbers."""
    rounding = TaskRounding(favour, 0.5, tries=5)  # type: ignore[arg-type]  # pytest knows no literals
    costs, market, streams = drawn_costs(seed, rounding)
    job, n = costs.job, len(market.cluster.capacity)
    for slot in range(3):
        plain = PlainSlot(job, market.cluster.capacity - market.load[slot], market.price[slot], ints(1))
        found = costs.rounded(slot)
        fractions = costs.in_fractions(slot)
        for done in range(1, costs.parts.most + 1):
            samples = done * job.samples / 8
            entities = [np.full(2 * n, each) for each in (job.number, slot, done)]

            def numbers(attempt: int, entities: list[np.ndarray] = entities) -> np.ndarray:
                each = np.arange(len(entities[0]))
                return streams.uniforms("rounding", *entities, np.full_like(each, attempt), each).reshape(
                    -1, 2
                )

            gain = costs.gain[costs.state[slot], done - 1]
            outside = plain.rounded(samples, gain, 5, numbers)
            inside = plain.on_one_server(samples)
            assert found[done] == pytest.approx(min(outside[0], inside[0]), rel=1e-12)
            assert found[done] >= fractions[done] * (1 - 1e-9)
            tasks = costs.tasks(slot, done)
            held = outside[1] if outside[0] < inside[0] * (1 - 1e-12) else inside[1]
            assert (tasks is None) == (held is None)
            if tasks is not None and held is not None:
                assert held[tasks.server].tolist() == tasks.held.tolist()
                assert held.sum() == tasks.held.sum()


@pytest.mark.parametrize("seed", seeds(40))
def test_rounded_tasks_fit_and_are_enough(seed: int) -> None:
    costs, market, _ = drawn_costs(seed, TaskRounding(tries=3))
    job = costs.job
    for slot in range(3):
        free = market.cluster.capacity - market.load[slot]
        for done in range(1, costs.parts.most + 1):
            tasks = costs.tasks(slot, done)
            if tasks is None:
                continue
            workers, ps = tasks.held.sum(axis=0)
            assert (tasks.held @ job.demand <= free[tasks.server]).all()
            assert workers <= job.most_workers
            assert ps == math.ceil(workers / job.workers_per_ps - 1e-9)
            theta = job.theta_internal if len(tasks.server) == 1 else job.theta_external
            assert workers / theta >= done * job.samples / 8 * (1 - 1e-9)


def test_a_slot_gets_the_same_numbers_wherever_it_is_priced() -> None:
    costs, _, _ = drawn_costs(4, TaskRounding(tries=2))
    once = [costs.rounded(slot).tolist() for slot in range(3)]
    again = [costs.rounded(slot).tolist() for slot in (2, 1, 0)][::-1]
    assert once == again
