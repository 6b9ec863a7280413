"""The slot problem in fractions: equal to the plain linear programme, for every number of workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from benchmarks.pd_ors import SlotLp
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import Slots, solve_slots
from tests.proofs import instances
from tests.solvers.planning.small import B_FREE, B_PRICE, B_UNITS, EXAMPLE_A, EXAMPLE_B, floats, ints


def point_at(slots: Slots, workers: float) -> FloatArray:
    """(S, 2) what servers hold at so many workers, on the way through the first slot."""
    held = np.zeros((slots.rooms.free.shape[1], 2))
    done = 0.0
    for step in range(int(slots.paths.ptr[1])):
        length = min(float(slots.paths.reach[step]), workers) - done
        for server, change in zip(slots.paths.server[step], slots.paths.change[step], strict=True):
            held[server] += length * change
        done += length
    return held


def drawn_slot(draw: np.random.Generator) -> tuple[SlotJob, IntArray, FloatArray]:
    """Up to six servers and four resources; often degenerate: nothing demanded, full, alike, equal prices."""
    servers, resources = int(draw.integers(1, 7)), int(draw.integers(1, 5))
    demand = draw.integers(0, draw.choice([2, 3, 5, 10]), (2, resources))
    for role in range(2):
        if draw.random() < 0.1:
            demand[role] = 0
    job = replace(
        EXAMPLE_A,
        most_workers=int(draw.integers(1, 20)),
        workers_per_ps=float(draw.choice([1, 1, 2, 3, 2.5, 1.1])),
        worker_demand=demand[0],
        ps_demand=demand[1],
    )
    free = draw.integers(0, draw.choice([2, 5, 20, 100]), (1, servers, resources))
    if draw.random() < 0.3:
        free[:] = free[:, :1]
    price = draw.uniform(0.01, 1, (1, servers, resources))
    kind = draw.integers(5)
    if kind == 0:
        price[:] = 1.0
    elif kind == 1:
        price[:] = price[:, :1]
    elif kind == 2:
        price = draw.integers(1, 4, (1, servers, resources)).astype(np.float64)
    elif kind == 3:
        price = np.exp(draw.normal(0, 3, (1, servers, resources)))
    return job, free, price


def check_a_drawn_slot(seed: int) -> None:
    """Values, and that the points on the way fit, are enough, and cost them."""
    draw = np.random.default_rng(seed)
    job, free, price = drawn_slot(draw)
    slots = solve_slots(job, free, price, np.ones(free.shape[2], np.int64))
    assert slots.unsolved == 0
    reach = slots.paths.reach[: slots.paths.ptr[1]]
    top = float(reach[-1]) if len(reach) else 0.0
    plain = SlotLp.of(slots.rooms, 0)
    some = np.sort(np.append(draw.uniform(0.01, 1, 3) * top, top))
    for workers, value in zip(some, slots.least_cost(some)[0], strict=True):
        assert value == pytest.approx(plain.cost(workers * (1 - 1e-12)), rel=1e-9, abs=1e-11)
        held = point_at(slots, workers)
        assert (held >= -1e-12).all()
        assert (held @ job.demand <= free[0] + 1e-9 * (1 + free[0])).all()
        assert held[:, 0].sum() == pytest.approx(workers, rel=1e-11)
        assert held[:, 1].sum() * job.workers_per_ps == pytest.approx(workers, rel=1e-11)
        assert (held * slots.rooms.offers.price[0]).sum() == pytest.approx(value, rel=1e-10)
    if top < job.most_workers - 1e-3:
        assert np.isinf(plain.cost(top + 1e-3))
        assert np.isinf(slots.least_cost(floats(top + 1e-3)))


@pytest.mark.slow
@settings(max_examples=instances(4000, 50), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_walk_finds_the_values_of_the_linear_programme(seed: int) -> None:
    check_a_drawn_slot(seed)


def test_the_values_of_example_1_b() -> None:
    # Slope 9 = 6 + 6 / 2 up to 2.5 workers, then 12 = 9 + 6 / 2 up to 3.6.
    slots = solve_slots(EXAMPLE_B, B_FREE, B_PRICE, B_UNITS)
    assert slots.rooms.offers.price[0].tolist() == [[6, 6], [9, 6]]
    costs = slots.least_cost(floats(1, 2, 2.5, 3, 3.5, 3.6, 4))[0]
    assert costs == pytest.approx([9, 18, 22.5, 28.5, 34.5, 35.7, np.inf], rel=1e-12)
    assert point_at(slots, 3.0) == pytest.approx(np.array([[2.5, 0.0], [0.5, 1.5]]), abs=1e-12)


@settings(max_examples=instances(200), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_costs_in_fractions_are_convex_and_never_fall(seed: int) -> None:
    job, free, price = drawn_slot(np.random.default_rng(seed))
    slots = solve_slots(job, free, price, np.ones(free.shape[2], np.int64))
    slope = slots.paths.slope[: slots.paths.ptr[1]]
    assert (slope >= 0).all()
    assert (np.diff(slope) >= 0).all()


@settings(max_examples=instances(100), deadline=None)
@given(seed=st.integers(0, 2**32), power=st.integers(-40, 40))
def test_prices_times_a_power_of_two_change_no_step(seed: int, power: int) -> None:
    job, free, price = drawn_slot(np.random.default_rng(seed))
    units = np.ones(free.shape[2], np.int64)
    one, other = solve_slots(job, free, price, units), solve_slots(job, free, 2.0**power * price, units)
    end = one.paths.ptr[1]
    assert other.paths.ptr[1] == end
    assert (one.paths.server[:end] == other.paths.server[:end]).all()
    assert (one.paths.reach[:end] == other.paths.reach[:end]).all()
    assert (other.paths.slope[:end] == 2.0**power * one.paths.slope[:end]).all()


@settings(max_examples=instances(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_slots_solved_together_are_solved_as_if_alone(seed: int) -> None:
    draw = np.random.default_rng(seed)
    job, free, price = drawn_slot(draw)
    fuller = np.concatenate([free, free // 2, np.zeros_like(free)])
    units = np.ones(free.shape[2], np.int64)
    together = solve_slots(job, fuller, np.concatenate([price, 2 * price, price]), units)
    workers = np.sort(draw.uniform(0, job.most_workers, 5))
    for slot, factor in enumerate((1.0, 2.0, 1.0)):
        alone = solve_slots(job, fuller[[slot]], factor * price, units)
        assert (together.least_cost(workers)[slot] == alone.least_cost(workers)[0]).all()


def test_of_equal_servers_the_lowest_is_used_first() -> None:
    # Each of three alike servers holds 2 workers with their parameter servers.
    job = replace(EXAMPLE_A, most_workers=6)
    slots = solve_slots(job, np.full((1, 3, 1), 6), np.ones((1, 3, 1)), ints(1))
    for workers in (1.0, 2.0):
        assert point_at(slots, workers).tolist() == [[workers, workers], [0, 0], [0, 0]]
    assert point_at(slots, 5.0) == pytest.approx(np.array([[2, 2], [2, 2], [1, 1]]), abs=1e-12)


def test_alike_servers_cost_what_one_server_with_all_their_room_costs() -> None:
    # Merging servers of equal prices and rooms is exact, and not needed: what is not used costs nothing.
    job = replace(
        EXAMPLE_A,
        most_workers=30,
        workers_per_ps=3.0,
        worker_demand=ints(3, 1),
        ps_demand=ints(1, 2),
    )
    workers = 0.5 * np.arange(1.0, 25.0)
    apart = solve_slots(job, np.full((1, 4, 2), 10), np.full((1, 4, 2), 0.7), B_UNITS)
    merged = solve_slots(job, np.full((1, 1, 2), 40), np.full((1, 1, 2), 0.7), B_UNITS)
    assert apart.least_cost(workers) == pytest.approx(merged.least_cost(workers), rel=1e-12)
    assert np.isfinite(apart.least_cost(workers)).sum() == 24


def test_a_price_range_beyond_what_solvers_bear_is_walked_through() -> None:
    # 400 decades from the cheapest server to the dearest, one worker each.
    job = replace(EXAMPLE_A, most_workers=5)
    price = floats(1e-300, 1e-200, 1e-100, 1, 1e100).reshape(1, 5, 1)
    slots = solve_slots(job, np.full((1, 5, 1), 3), price, ints(1))
    assert slots.unsolved == 0
    assert slots.paths.slope[:5] == pytest.approx(3 * price.ravel(), rel=1e-12)
    assert slots.paths.reach[:5].tolist() == [1, 2, 3, 4, 5]


def test_a_hundred_loaded_servers_agree_with_the_linear_programme() -> None:
    draw = np.random.default_rng(5)
    free = draw.integers(0, [9, 73, 193, 501], (1, 100, 4))
    price = np.exp(draw.uniform(-7, 2, (1, 100, 4)))
    job = replace(
        EXAMPLE_A,
        most_workers=200,
        workers_per_ps=4.0,
        worker_demand=ints(1, 5, 16, 7),
        ps_demand=ints(0, 3, 8, 7),
    )
    slots = solve_slots(job, free, price, np.ones(4, np.int64))
    plain = SlotLp.of(slots.rooms, 0)
    workers = floats(1, 10, 50, 100, 150, 199)
    assert slots.least_cost(workers)[0] == pytest.approx([plain.cost(w) for w in workers], rel=1e-9)


@settings(max_examples=instances(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_merged_by_slope_slots_cost_what_the_joint_programme_costs(seed: int) -> None:
    """Work spread over three slots: one programme over all segments, which pays for the cheapest of them."""
    draw = np.random.default_rng(seed)
    job, free, price = drawn_slot(draw)
    three = np.concatenate([free, free // 2, free])
    slots = solve_slots(
        job, three, np.concatenate([price, price, 3 * price]), np.ones(free.shape[2], np.int64)
    )
    ptr, reach, slope = slots.paths.ptr, slots.paths.reach, slots.paths.slope
    lengths = np.concatenate([np.diff(reach[ptr[i] : ptr[i + 1]], prepend=0.0) for i in range(3)])
    if not lengths.sum():
        assert np.isinf(slots.bounds(np.arange(3), 1.0)).all()
        return
    needed = float(draw.uniform(0.01, 1) * lengths.sum())
    unit = float(slope[: ptr[3]].min())
    plain = linprog(
        slope[: ptr[3]] / max(unit, 1e-300),
        A_eq=np.ones((1, len(lengths))),
        b_eq=[needed],
        bounds=[(0.0, length) for length in lengths],
        method="highs",
    )
    assert plain.fun is not None
    assert slots.bounds(np.arange(3), needed)[-1] == pytest.approx(plain.fun * max(unit, 1e-300), rel=1e-9)
