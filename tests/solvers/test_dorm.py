"""Dorm's allocation: worked examples, and brute force over all allocations of tiny instances."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.model.units import IntArray, tolerant_ceil
from ray_sim.solvers.dorm import (
    AllocationLimits,
    Applications,
    allocate,
    fair_containers,
    fairness_loss,
    most_together,
    place_in_turn,
    utilisation,
)
from ray_sim.solvers.milp import SearchEnd

Amounts = list[list[int]]


def applications(
    demand: Amounts,
    bounds: tuple[int, int],
    capacity: Amounts,
    held: Amounts | None = None,
    allowed: list[list[bool]] | None = None,
) -> Applications:
    n = len(demand)
    now = np.zeros((n, len(capacity)), dtype=np.int64) if held is None else np.array(held, dtype=np.int64)
    return Applications(
        demand=np.array(demand, dtype=np.int64),
        least=np.full(n, bounds[0]),
        most=np.full(n, bounds[1]),
        capacity=np.array(capacity, dtype=np.int64),
        allowed=np.ones((n, len(capacity)), dtype=np.bool_) if allowed is None else np.array(allowed),
        held=now,
        old=now.sum(axis=1) > 0,
    )


def limits(theta1: float, theta2: float = 1.0, nodes: int = 1000) -> AllocationLimits:
    return AllocationLimits(theta1, theta2, gap=0.0, nodes=nodes)


TWO_ON_ONE = applications([[4, 2], [1, 1]], (1, 12), [[12, 12]])


@pytest.mark.parametrize(
    ("theta1", "containers", "use", "loss"),
    # Use 1 x (4 + 2)/12 + 8 x (1 + 1)/12 and 2 x 6/12 + 4 x 2/12. Loss 4/12 + 4/12.
    [(1.0, [1, 8], 22 / 12, 8 / 12), (0.1, [2, 4], 20 / 12, 0.0)],
)
def test_the_bound_on_unfairness_costs_use(
    theta1: float, containers: list[int], use: float, loss: float
) -> None:
    assert fair_containers(TWO_ON_ONE).tolist() == [2, 4]  # shares 8/12 and 4/12
    ending, found = allocate(TWO_ON_ONE, limits(theta1))
    assert found is not None
    assert (ending, found[:, 0].tolist()) == (SearchEnd.FOUND, containers)
    assert utilisation(TWO_ON_ONE, found) == pytest.approx(use)
    assert fairness_loss(TWO_ON_ONE, found) == pytest.approx(loss)


OLD_AND_NEW = applications([[2, 2], [1, 4]], (1, 8), [[8, 16], [8, 16]], held=[[4, 0], [0, 0]])


def test_the_bound_on_adjustments_costs_use() -> None:
    assert fair_containers(OLD_AND_NEW).tolist() == [5, 5]  # 10/16 and 20/32
    _, free = allocate(OLD_AND_NEW, limits(1.0))
    assert free is not None
    assert utilisation(OLD_AND_NEW, free) == pytest.approx(1.875)  # several have that
    _, frozen = allocate(OLD_AND_NEW, limits(1.0, theta2=0.0))
    assert frozen is not None
    assert frozen.tolist() == [[4, 0], [0, 4]]
    assert utilisation(OLD_AND_NEW, frozen) == pytest.approx(1.5)
    assert fairness_loss(OLD_AND_NEW, frozen) == pytest.approx(0.25)


def test_bounds_that_cannot_be_met_together_are_infeasible() -> None:
    """The loss is 0.25 where the old one is frozen; 0.05 x 2 x 2 = 0.2 allowed."""
    assert allocate(OLD_AND_NEW, limits(0.05, theta2=0.0)) == (SearchEnd.INFEASIBLE, None)
    assert allocate(OLD_AND_NEW, limits(0.05, theta2=0.01))[0] is SearchEnd.FOUND  # rounded up: one change


def test_no_more_is_needed_than_fits() -> None:
    assert TWO_ON_ONE.may_fit()
    assert not applications([[7], [7]], (1, 2), [[10], [3]]).may_fit()  # 14 of 13
    assert not applications([[7]], (1, 2), [[4], [4]]).may_fit()  # on no server


@pytest.mark.slow
def test_the_node_limit_ends_a_search_with_the_best_found_until_then() -> None:
    draw = np.random.default_rng(0)
    many = applications(draw.integers(1, 9, (30, 3)).tolist(), (1, 9), [[64] * 3] * 20)
    ending, found = allocate(many, limits(1.0, nodes=1))
    assert ending is SearchEnd.LIMIT
    assert found is not None
    assert (np.einsum("nr,ns->sr", many.demand, found) <= many.capacity).all()
    again = allocate(many, limits(1.0, nodes=1))[1]
    assert again is not None
    assert found.tolist() == again.tolist()


@pytest.mark.slow
def test_a_search_may_end_before_it_has_found_anything() -> None:
    """Of 414 on four servers of 105 each, which no packing holds; one node does not tell."""
    sizes = [50, 58, 21, 25, 52, 57, 29, 32, 54, 36]
    tight = applications([[size] for size in sizes], (1, 1), [[105]] * 4)
    assert tight.may_fit()
    assert allocate(tight, limits(1.0, nodes=1)) == (SearchEnd.LIMIT, None)
    assert allocate(tight, limits(1.0)) == (SearchEnd.INFEASIBLE, None)


@st.composite
def tiny(draw: st.DrawFn) -> tuple[Applications, float, float]:
    """Up to three applications of at most two containers on up to two servers."""
    n, servers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pair = st.lists(st.integers(0, 3), min_size=2, max_size=2)
    demand = draw(st.lists(pair.filter(any), min_size=n, max_size=n))
    sizes = st.lists(st.integers(1, 6), min_size=2, max_size=2)
    capacity = draw(st.lists(sizes, min_size=servers, max_size=servers))
    free, held = np.array(capacity), np.zeros((n, servers), dtype=np.int64)
    for i, j in product(range(n), range(servers)):
        if draw(st.booleans()) and (free[j] >= demand[i]).all() and held[i].sum() < 2:
            held[i, j] += 1
            free[j] -= demand[i]
    theta = st.sampled_from([0.0, 0.05, 0.1, 0.3, 1.0])
    return applications(demand, (1, 2), capacity, held.tolist()), draw(theta), draw(theta)


def best_of_all(given: Applications, theta1: float, theta2: float) -> float | None:
    """The largest use of all allocations within the bounds; None if there is none."""
    n, servers = given.held.shape
    used = []
    for flat in product(range(3), repeat=n * servers):
        x: IntArray = np.array(flat, dtype=np.int64).reshape(n, servers)
        changed = (x != given.held).any(axis=1)[given.old].sum()
        if (
            (x.sum(axis=1) >= given.least).all()
            and (x.sum(axis=1) <= given.most).all()
            and (x.T @ given.demand <= given.capacity).all()
            and fairness_loss(given, x) <= theta1 * 2 * 2 + 1e-9
            and changed <= tolerant_ceil(theta2 * int(given.old.sum()))
        ):
            used.append(utilisation(given, x))
    return max(used, default=None)


@pytest.mark.slow
@given(tiny())
def test_no_allocation_within_the_bounds_uses_more(given: tuple[Applications, float, float]) -> None:
    them, theta1, theta2 = given
    best = best_of_all(them, theta1, theta2)
    ending, found = allocate(them, limits(theta1, theta2))
    if best is None:
        assert (ending, found) == (SearchEnd.INFEASIBLE, None)
    else:
        assert found is not None
        assert utilisation(them, found) == pytest.approx(best)
        assert fairness_loss(them, found) <= theta1 * 4 + 1e-6


@pytest.mark.slow
@given(tiny(), st.sampled_from([0.01, 0.3]))
def test_the_use_found_is_within_the_gap_of_the_best(
    given: tuple[Applications, float, float], gap: float
) -> None:
    """However it was found: among few that may change, or among all."""
    them, theta1, theta2 = given
    best = best_of_all(them, theta1, theta2)
    ending, found = allocate(them, AllocationLimits(theta1, theta2, gap=gap, nodes=1000))
    if best is None:
        assert (ending, found) == (SearchEnd.INFEASIBLE, None)
        return
    assert found is not None
    assert utilisation(them, found) * (1 + gap) >= best - 1e-6
    assert (found.T @ them.demand <= them.capacity).all()
    assert fairness_loss(them, found) <= theta1 * 4 + 1e-6
    changed = (found != them.held).any(axis=1)[them.old].sum()
    assert changed <= tolerant_ceil(theta2 * int(them.old.sum()))


@given(tiny())
def test_so_many_fit_together_as_have_an_allocation(given: tuple[Applications, float, float]) -> None:
    them, _, _ = given
    n = most_together(them, limits(1.0))
    assert n == 0 or best_of_all(them.first(n), 1.0, 1.0) is not None
    assert n == len(them.most) or best_of_all(them.first(n + 1), 1.0, 1.0) is None


@given(tiny(), st.lists(st.integers(0, 3), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3))
def test_in_turn_nobody_gets_more_than_asked_or_there_is(
    given: tuple[Applications, float, float], counts: list[int], free: list[bool]
) -> None:
    them, n = given[0], len(given[0].most)
    some = np.array(free[:n])
    placed = place_in_turn(them, np.array(counts[:n]), some)
    assert (placed >= 0).all()
    assert (placed[~some] == them.held[~some]).all()
    assert (placed.sum(axis=1) <= np.array(counts[:n]))[some].all()
    assert (placed.T @ them.demand <= them.capacity).all()


@given(tiny())
def test_in_turn_whoever_gets_less_than_its_least_gets_nothing(
    given: tuple[Applications, float, float],
) -> None:
    them, theta1, theta2 = given
    _, found = allocate(them, AllocationLimits(theta1, theta2, gap=0.0, nodes=1000, in_turn=True))
    if found is not None:
        total = found.sum(axis=1)
        assert ((total == 0) | (total >= them.least)).all()
        assert (total <= them.most).all()
        assert (found.T @ them.demand <= them.capacity).all()
    n = most_together(them, AllocationLimits(1.0, 1.0, gap=0.0, nodes=1000, in_turn=True))
    assert n <= most_together(them, limits(1.0))


@pytest.mark.parametrize("theta1", [1.0, 0.1])
def test_in_turn_on_one_server_is_the_best(theta1: float) -> None:
    _, found = allocate(TWO_ON_ONE, AllocationLimits(theta1, 1.0, gap=0.0, nodes=1000, in_turn=True))
    assert found is not None
    assert utilisation(TWO_ON_ONE, found) == pytest.approx({1.0: 22 / 12, 0.1: 20 / 12}[theta1])


def test_room_in_all_is_no_room_on_a_server() -> None:
    """4 are left, 2 on each server, and the new one needs 4 on one: one of the old ones has to move.

    With all servers taken as one, nobody has to.
    """
    given = applications([[4], [2], [2]], (1, 1), [[4], [4]], held=[[0, 0], [1, 0], [0, 1]])
    assert allocate(given, AllocationLimits(1.0, 0.0, gap=0.01, nodes=100)) == (SearchEnd.INFEASIBLE, None)
    ending, found = allocate(given, AllocationLimits(1.0, 0.5, gap=0.01, nodes=100))
    assert found is not None
    assert ending is SearchEnd.FOUND
    assert found.sum(axis=1).tolist() == [1, 1, 1]
    assert (found != given.held).any(axis=1)[1:].sum() == 1
