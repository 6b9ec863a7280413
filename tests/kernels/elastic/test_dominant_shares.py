"""Progressive filling against its definition, written out with exact fractions, and what makes it fair."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.elastic.dominant_shares import Filling, fill, new_filling, product_above
from ray_sim.kernels.elastic.least_loaded import new_loads
from ray_sim.kernels.elastic.server_tree import new_server_tree

Amounts = list[list[int]]

LARGE = st.integers(0, 2**62 - 1)
NOWHERE = np.empty(0, dtype=np.int64)


class Round(NamedTuple):
    """Demands of the jobs' bundles, how many each can use, and the servers."""

    demand: Amounts
    most: list[int]
    capacity: Amounts


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    resources = draw(st.integers(1, 3))
    amounts = st.lists(st.integers(0, 4), min_size=resources, max_size=resources)
    demand = draw(st.lists(amounts, min_size=1, max_size=6))
    most = draw(st.lists(st.integers(1, 7), min_size=len(demand), max_size=len(demand)))
    sizes = st.lists(st.integers(0, 9), min_size=resources, max_size=resources)
    return Round(demand, most, draw(st.lists(sizes, min_size=1, max_size=7)))


def filled(
    demand: Amounts, most: list[int], capacity: Amounts, *, pooled: bool = False, stop: bool = False
) -> tuple[Filling, list[tuple[int, int]]]:
    """The round, and (job, server) of each bundle placed."""
    offered = np.array(capacity, dtype=np.int64)
    asked = np.array(demand, dtype=np.int64)
    tree = new_server_tree(np.arange(len(offered)), offered, offered, asked.min(axis=0))
    filling = new_filling(asked, np.array(most), offered.sum(axis=0), sum(most))
    placed = fill(filling, new_loads(tree), pooled, stop)
    assert (tree.free >= 0).all()
    return filling, list(zip(filling.job[:placed].tolist(), filling.server[:placed].tolist(), strict=True))


def in_pool(demand: Amounts, total: list[int], most: int = 10**6) -> npt.NDArray[np.int64]:
    """Bundles of each job, of a pool without servers."""
    asked = np.array(demand, dtype=np.int64)
    nothing = np.empty((0, len(total)), dtype=np.int64)
    tree = new_server_tree(NOWHERE, nothing, nothing, asked.min(axis=0))
    filling = new_filling(asked, np.full(len(demand), most), np.array(total, dtype=np.int64), 0)
    assert fill(filling, new_loads(tree), True, False) == 0
    return filling.got


def share(bundles: int, demand: list[int], total: list[int]) -> Fraction:
    return max(
        (Fraction(bundles * d, c) for d, c in zip(demand, total, strict=True) if c), default=Fraction(0)
    )


def fits(demand: list[int], free: list[int]) -> bool:
    return all(d <= f for d, f in zip(demand, free, strict=True))


def load(capacity: list[int], free: list[int]) -> float:
    return sum((c - f) / c for c, f in zip(capacity, free, strict=True) if c)


def plain_filling(given: Round, pooled: bool, stop: bool) -> tuple[list[int], list[tuple[int, int]]]:
    """Bundles of each job, and (job, server) of each that is placed, bundle by bundle."""
    demand, most, capacity = given
    total = [sum(column) for column in zip(*capacity, strict=True)]
    pool, free = list(total), [list(amounts) for amounts in capacity]
    got, placed, there = [0] * len(demand), [], set(range(len(demand)))
    while there:
        job = min(there, key=lambda j: (share(got[j], demand[j], total), j))
        holding = [s for s in range(len(free)) if fits(demand[job], free[s])]
        if not (fits(demand[job], pool) if pooled else holding):
            if stop:
                break
            there.remove(job)
            continue
        got[job] += 1
        pool = [p - d for p, d in zip(pool, demand[job], strict=True)]
        if holding:
            server = min(holding, key=lambda s: (load(capacity[s], free[s]), s))
            free[server] = [f - d for f, d in zip(free[server], demand[job], strict=True)]
            placed.append((job, server))
        if got[job] == most[job]:
            there.remove(job)
    return got, placed


@given(LARGE, LARGE, LARGE, LARGE)
def test_products_of_large_numbers_are_compared_exactly(a: int, b: int, c: int, d: int) -> None:
    assert product_above(a, b, c, d) == (a * b > c * d) - (a * b < c * d)
    assert product_above(a, b, b, a) == 0


def test_two_jobs_in_the_papers_example() -> None:
    # 9 CPU, 18 GB; A <1, 4>, B <3, 1>. Shares 4x/18 = 3y/9 = 2/3 at x = 3, y = 2; all 9 CPU are used.
    assert in_pool([[1, 4], [3, 1]], [9, 18]).tolist() == [3, 2]
    filling, placed = filled([[1, 4], [3, 1]], [99, 99], [[9, 18]])
    assert filling.got.tolist() == [3, 2]
    # Shares before each bundle: 0 A, 0 B, 2/9 A, 1/3 B, 4/9 A.
    assert [job for job, _ in placed] == [0, 1, 0, 1, 0]


def test_equal_shares_are_equal_whatever_their_denominators() -> None:
    # 3 x 1/30 and 1/10: in floating point 0.1 and 0.30000000000000004 / 3 may differ. Job 0 comes first.
    _, placed = filled([[0, 10], [3, 0]], [2, 4], [[30, 100]])
    assert [job for job, _ in placed] == [0, 1, 0, 1, 1, 1]


@given(rounds(), st.booleans(), st.booleans())
def test_heap_and_tree_do_what_plain_progressive_filling_does(given: Round, pooled: bool, stop: bool) -> None:
    filling, placed = filled(*given, pooled=pooled, stop=stop)
    assert (filling.got.tolist(), placed) == plain_filling(given, pooled, stop)


@given(rounds())
def test_each_bundle_goes_to_a_minimal_share_and_none_fits_in_the_end(given: Round) -> None:
    demand, most, capacity = given
    total = [sum(column) for column in zip(*capacity, strict=True)]
    filling, placed = filled(*given)
    got, free = [0] * len(demand), [list(amounts) for amounts in capacity]
    for job, server in placed:
        for other in range(len(demand)):
            lower = share(got[other], demand[other], total) < share(got[job], demand[job], total)
            if lower and got[other] < most[other]:
                assert not any(fits(demand[other], amounts) for amounts in free)
        got[job] += 1
        free[server] = [f - d for f, d in zip(free[server], demand[job], strict=True)]
    assert got == filling.got.tolist()
    for job in range(len(demand)):
        assert got[job] == most[job] or not any(fits(demand[job], amounts) for amounts in free)


DIVISIBLE = 100_000
"""Quanta of each resource in a pool whose bundles are so small that it is as good as divisible."""

LARGEST = 40
DEMANDS = st.lists(st.lists(st.integers(1, LARGEST), min_size=2, max_size=2), min_size=2, max_size=4)


@given(DEMANDS)
def test_everybody_gets_as_much_as_on_a_share_of_his_own(demand: Amounts) -> None:
    """Sharing incentive: the dominant share is at least 1/n, up to a bundle of each job."""
    for job, bundles in enumerate(in_pool(demand, [DIVISIBLE] * 2).tolist()):
        assert bundles * max(demand[job]) >= DIVISIBLE / len(demand) - len(demand) * LARGEST


@given(DEMANDS)
def test_nobody_could_do_more_with_what_another_has(demand: Amounts) -> None:
    """Envy-freeness, up to a bundle of each."""
    got = in_pool(demand, [DIVISIBLE] * 2).tolist()
    for job, own in enumerate(demand):
        for other, theirs in enumerate(demand):
            instead = min(got[other] * t // o for t, o in zip(theirs, own, strict=True))
            assert instead * max(own) <= got[job] * max(own) + 2 * LARGEST


@given(DEMANDS, st.lists(st.integers(1, 40), min_size=2, max_size=2))
def test_nobody_gains_by_asking_for_something_else(demand: Amounts, lie: list[int]) -> None:
    """Strategy-proofness: what he can do with what he gets for a lie is no more, up to 1 %."""
    honest = int(in_pool(demand, [DIVISIBLE] * 2)[0])
    lied = int(in_pool([lie, *demand[1:]], [DIVISIBLE] * 2)[0])
    useful = min(lied * told // true for told, true in zip(lie, demand[0], strict=True))
    assert useful <= honest * 1.01 + 1


@pytest.mark.parametrize("stop", [False, True])
def test_a_demand_for_what_there_is_not_gets_nothing(stop: bool) -> None:
    filling, _ = filled([[1, 1], [1, 0]], [2, 2], [[3, 0]], stop=stop)
    assert filling.got.tolist() == ([0, 0] if stop else [0, 2])
