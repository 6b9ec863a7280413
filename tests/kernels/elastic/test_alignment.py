"""Packing by score against its definition: a loop over all pairs for each bundle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.elastic.alignment import Packing, alignment, balance, new_packing, pack, work
from ray_sim.kernels.elastic.server_tree import leaves, new_server_tree

Amounts = list[list[int]]


class Round(NamedTuple):
    """Demands of the jobs' bundles, how many each may have, time left, and the servers."""

    demand: Amounts
    most: list[int]
    time_left: list[float]
    capacity: Amounts
    free: Amounts


def packing_of(given: Round) -> Packing:
    """The round, with equal servers side by side as the policy has them."""
    demand, most = np.array(given.demand, dtype=np.int64), np.array(given.most)
    capacity, free = np.array(given.capacity, dtype=np.int64), np.array(given.free, dtype=np.int64)
    order = np.lexsort(capacity.T)
    tree = new_server_tree(order, capacity[order], free[order], demand.min(axis=0))
    return new_packing(demand, most, np.array(given.time_left, dtype=np.float64), tree, sum(given.most))


def packed(given: Round, weight: float) -> list[tuple[int, int]]:
    """(job, server) of each bundle placed."""
    packing = packing_of(given)
    placed = pack(packing, weight)
    assert (packing.tree.free >= 0).all()
    return list(zip(packing.job[:placed].tolist(), packing.server[:placed].tolist(), strict=True))


def fits(demand: list[int], free: list[int]) -> bool:
    return all(d <= f for d, f in zip(demand, free, strict=True))


def score(given: Round, free: Amounts, job: int, server: int, weight: float) -> float:
    """In the kernel's order of operations, so that equal scores are equal bit by bit."""
    aligned, asked = 0.0, 0.0
    for d, c, f in zip(given.demand[job], given.capacity[server], free[server], strict=True):
        unit = 1 / c if c else 0.0
        aligned += d * (f * unit * unit)
        asked += d * unit
    return aligned - weight * (asked * given.time_left[job])


def by_all_pairs(given: Round, weight: float) -> list[tuple[int, int]]:
    """The best of all pairs that fit, again and again; ties to the earlier job, then the lower server."""
    free, got = [list(amounts) for amounts in given.free], [0] * len(given.most)
    placed: list[tuple[int, int]] = []
    while True:
        pairs = [
            (-score(given, free, job, server, weight), job, server)
            for job, server in np.ndindex(len(got), len(free))
            if got[job] < given.most[job] and fits(given.demand[job], free[server])
        ]
        if not pairs:
            return placed
        _, job, server = min(pairs)
        free[server] = [f - d for f, d in zip(free[server], given.demand[job], strict=True)]
        got[job] += 1
        placed.append((job, server))


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    resources, jobs = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    amounts = st.lists(st.integers(0, 4), min_size=resources, max_size=resources)
    demand = draw(st.lists(amounts, min_size=jobs, max_size=jobs))
    most = draw(st.lists(st.integers(1, 6), min_size=jobs, max_size=jobs))
    time_left = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 30.0]), min_size=jobs, max_size=jobs))
    kinds = draw(
        st.lists(st.lists(st.integers(0, 9), min_size=resources, max_size=resources), min_size=1, max_size=2)
    )
    capacity = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=9))
    free = [[draw(st.integers(c // 2, c)) for c in amounts] for amounts in capacity]
    return Round(demand, most, time_left, capacity, free)


ONE_SERVER = Round([[4, 2], [2, 6]], [1, 1], [10, 2], [[16, 32]], [[8, 10]])
"""A has 10 left, B 2; 8 of 16 and 10 of 32 are free."""
A, B = 0, 1


def test_alignment_and_work_of_the_worked_example() -> None:
    packing = packing_of(ONE_SERVER)
    leaf = leaves(packing.tree)
    # A: 4/16 x 8/16 + 2/32 x 10/32; (4/16 + 2/32) x 10.
    assert [alignment(packing, leaf, job) for job in (A, B)] == pytest.approx([0.14453125, 0.12109375])
    assert [work(packing, leaf, job) for job in (A, B)] == pytest.approx([3.125, 0.625])
    eps = balance(packing, np.array([0]), np.array([1]))
    assert eps == pytest.approx(0.1328125 / 1.875)
    assert [alignment(packing, leaf, j) - eps * work(packing, leaf, j) for j in (A, B)] == pytest.approx(
        [-0.0768, 0.0768], abs=5e-5
    )


def test_short_work_beats_alignment_in_the_worked_example() -> None:
    assert packed(ONE_SERVER, 0.0708)[0] == (B, 0)
    assert packed(ONE_SERVER, 0.0)[0] == (A, 0)


@given(rounds(), st.sampled_from([0.0, 0.01, 0.3]))
def test_lazy_bounds_do_what_a_loop_over_all_pairs_does(given: Round, weight: float) -> None:
    assert packed(given, weight) == by_all_pairs(given, weight)


@given(rounds())
def test_the_balance_is_the_ratio_of_the_means_over_all_pairs_that_fit(given: Round) -> None:
    packing = packing_of(given)
    size, servers = leaves(packing.tree), range(len(given.capacity))
    pairs = [
        (alignment(packing, size + k, job), work(packing, size + k, job))
        for job, k in np.ndindex(len(given.most), len(servers))
        if fits(given.demand[job], packing.tree.free[k].tolist())
    ]
    works = sum(pair[1] for pair in pairs)
    expected = sum(pair[0] for pair in pairs) / works if works else 0.0
    alike = np.ones(len(servers), dtype=np.int64)
    assert balance(packing, np.arange(len(servers)), alike) == pytest.approx(expected)


def test_one_of_several_equal_servers_counts_for_all() -> None:
    """A, of little alignment, fits on three servers, B on one of them: 3 x 0.25 + 0.5 over 3 x 1 + 4."""
    given = Round([[1], [2]], [1, 1], [4.0, 8.0], [[4]] * 3, [[4]] * 3)
    packing = packing_of(given)
    one = balance(packing, np.array([0]), np.array([3]))
    assert one == balance(packing, np.arange(3), np.ones(3, dtype=np.int64)) == (0.25 + 0.5) / (1.0 + 4.0)
