"""Optimus's allocation: its example, brute force, and a plain greedy loop."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation import TERMS, Claims, costs, marginal_gains, step_s
from tests.proofs import instances

A = [0.02 * 128, 0.5, 0.3, 0.01, 0.02, 0, 0]
B = [0.05 * 64, 0.2, 0.4, 0.01, 0.02, 0, 0]


def claims_of(
    steps: list[float],
    time: list[list[float]] | FloatArray,
    demand: IntArray,
    pool: IntArray,
    priority: float = 1.0,
    with_ps: bool = True,
    most: int = 10**6,
) -> Claims:
    """``demand`` (n, 2, R)."""
    n = len(steps)
    return Claims(
        steps=np.array(steps, dtype=np.float64),
        time=np.array(time, dtype=np.float64).reshape(n, TERMS),
        demand=demand,
        cost=costs(demand, pool, np.ones(demand.shape[2], np.int64), "share"),
        most_workers=np.full(n, most),
        with_ps=np.full(n, with_ps),
        priority=np.full(n, priority),
    )


def example_3a(steps: list[float], capacity: int = 20) -> tuple[Claims, IntArray]:
    """Worker 2, parameter server 1 of the only resource."""
    pool = np.array([capacity])
    return claims_of(steps, [A, B], np.array([[[2], [1]]] * 2), pool), pool


def objective(claims: Claims, tasks: IntArray) -> float:
    times = [step_s(claims.time[i], int(w), int(p)) for i, (w, p) in enumerate(tasks)]
    return float(np.dot(claims.steps, times))


def greedy(claims: Claims, pool: IntArray) -> tuple[IntArray, list[tuple[int, int, float]]]:
    """The rule of the paper, without a heap; also the tasks added, as (job, role, gain)."""
    left = pool.astype(np.int64).copy()
    n = len(claims.steps)
    tasks = np.zeros((n, 2), dtype=np.int64)
    open_jobs = []
    for job in range(n):
        least = np.array([1, int(claims.with_ps[job])])
        need = least @ claims.demand[job]
        if (need <= left).all():
            left -= need
            tasks[job] = least
            open_jobs.append(job)
        else:
            break
    added: list[tuple[int, int, float]] = []
    while True:
        best: tuple[float, int, int] | None = None
        for job, role in product(open_jobs, (PARAMETER_SERVER, WORKER)):
            w, p = (int(x) for x in tasks[job])
            cost = claims.cost[job, role]
            free_enough = role == PARAMETER_SERVER and (cost > 0 or p < w) and claims.with_ps[job]
            if not (free_enough or (role == WORKER and w < claims.most_workers[job])):
                continue
            more = (w + 1, p) if role == WORKER else (w, p + 1)
            saved = claims.steps[job] * step_s(claims.time[job], w, p)
            saved -= claims.steps[job] * step_s(claims.time[job], *more)
            gain = saved / cost if cost > 0 else (np.inf if saved > 0 else saved)
            candidate = (-gain * claims.priority[job], 0 if role == PARAMETER_SERVER else 1, job)
            if best is None or candidate < best:
                best = candidate
        if best is None or best[0] >= 0:
            return tasks, added
        role, job = (PARAMETER_SERVER if best[1] == 0 else WORKER), best[2]
        if (claims.demand[job, role] > left).any():
            return tasks, added
        left -= claims.demand[job, role]
        tasks[job, role] += 1
        added.append((job, role, -best[0]))


def test_example_3a_goes_step_by_step_and_ends_at_the_optimum() -> None:
    """First gain (339 - 242) / (2 / 20) = 970; in the end 4 x 2 + 4 + 3 x 2 + 2 = 20 are used."""
    claims, pool = example_3a([100, 30])
    tasks, added = greedy(claims, pool)
    w, p = WORKER, PARAMETER_SERVER
    assert [(job, role) for job, role, _ in added] == [
        (0, w), (0, p), (1, w), (0, w), (0, p), (1, p), (0, p), (0, w), (1, w)
    ]  # fmt: skip
    gains = [970, 560, 357, 266.67, 260, 228, 110, 128.33, 97]
    assert [gain for _, _, gain in added] == pytest.approx(gains, abs=0.005)
    assert tasks.tolist() == [[4, 4], [3, 2]]
    np.testing.assert_array_equal(marginal_gains(claims, pool), tasks)
    assert objective(claims, tasks) == pytest.approx(214.1, abs=0.05)
    assert objective(claims, tasks) == pytest.approx(optimum(claims, 20))


def optimum(claims: Claims, capacity: int) -> float:
    """The least objective of two jobs, over all that fits."""
    best = np.inf
    (a, b), (c, d) = claims.demand[:, :, 0].tolist()
    for w, p, v, q in product(range(1, capacity), repeat=4):
        if a * w + b * p + c * v + d * q <= capacity:
            best = min(best, objective(claims, np.array([[w, p], [v, q]])))
    return best


def test_a_jobs_gains_need_not_fall() -> None:
    """Job A's gain of a worker at (p, w) = (1,1), (1,2), (2,2), (2,3), (3,3), (4,3), from Example 3.A."""
    claims, _ = example_3a([100, 30])
    gains = []
    for p, w in [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (4, 3)]:
        saved = step_s(claims.time[0], w, p) - step_s(claims.time[0], w + 1, p)
        gains.append(100 * saved / (2 / 20))
    assert gains == pytest.approx([970, 116.67, 266.67, 53.33, 103.33, 128.33], abs=0.005)


TIMES = st.lists(st.floats(0, 10).map(lambda x: round(x, 3)), min_size=TERMS, max_size=TERMS)


@settings(max_examples=instances(40), deadline=None)
@given(
    steps=st.lists(st.floats(0, 1000), min_size=2, max_size=2), times=st.lists(TIMES, min_size=2, max_size=2)
)
def test_greedy_is_never_better_than_brute_force(steps: list[float], times: list[list[float]]) -> None:
    pool = np.array([9])
    claims = claims_of(steps, times, np.array([[[2], [1]], [[1], [1]]]), pool)
    tasks = marginal_gains(claims, pool)
    assert objective(claims, tasks) >= optimum(claims, 9) * (1 - 1e-12)


@st.composite
def allocation_problems(draw: st.DrawFn) -> tuple[Claims, IntArray]:
    """Up to six jobs of two resources; some tasks take nothing, some jobs are alike."""
    n = draw(st.integers(1, 6))
    pool = np.array(draw(st.lists(st.integers(0, 40), min_size=2, max_size=2)))
    quanta = st.integers(0, 4)
    demand = np.array(draw(st.lists(quanta, min_size=4 * n, max_size=4 * n))).reshape(n, 2, 2)
    times = draw(st.lists(TIMES | st.just([1.0] * TERMS), min_size=n, max_size=n))
    steps = draw(st.lists(st.floats(0, 1000) | st.just(10.0), min_size=n, max_size=n))
    claims = claims_of(steps, times, demand, pool, most=draw(st.integers(1, 12)))
    with_ps = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    priority = np.array(draw(st.lists(st.sampled_from([1.0, 0.95]), min_size=n, max_size=n)))
    return claims._replace(with_ps=with_ps, priority=priority), pool


@settings(max_examples=instances(150), deadline=None)
@given(instance=allocation_problems())
def test_the_heap_does_what_a_search_through_all_jobs_does(instance: tuple[Claims, IntArray]) -> None:
    claims, pool = instance
    expected, added = greedy(claims, pool)
    found = marginal_gains(claims, pool)
    np.testing.assert_array_equal(found, expected)
    assert (np.einsum("jk,jkr->r", found, claims.demand) <= pool).all()
    assert all(gain > 0 for _, _, gain in added)


@settings(max_examples=instances(30), deadline=None)
@given(instance=allocation_problems(), factor=st.sampled_from([2.0, 0.5]))
def test_only_the_ratio_of_what_is_left_counts(instance: tuple[Claims, IntArray], factor: float) -> None:
    claims, pool = instance
    more = claims._replace(steps=claims.steps * factor)
    np.testing.assert_array_equal(marginal_gains(claims, pool), marginal_gains(more, pool))


@pytest.mark.parametrize("capacity", [12, 15, 30])
def test_greedy_is_optimal_where_gains_of_one_kind_fall(capacity: int) -> None:
    """Jobs without parameter servers, of unit demand: sum Q a / w is separable and convex."""
    pool = np.array([capacity])
    claims = claims_of(
        [100, 30, 7],
        [[a, 0, 0, 0, 0, 0, 0] for a in (1, 5, 9)],
        np.ones((3, 2, 1), np.int64),
        pool,
        with_ps=False,
    )
    splits = (split for split in product(range(1, capacity), repeat=3) if sum(split) <= capacity)
    best = min(100 / a + 150 / b + 63 / c for a, b, c in splits)
    assert objective(claims, marginal_gains(claims, pool)) == pytest.approx(best)


def test_early_jobs_come_first_while_the_pool_lasts() -> None:
    """Least needs 3, 3, 3 of 8; then 3, 9, 3 of 8: the second does not fit, and holds up the third."""
    pool = np.array([8])
    alike = claims_of([1, 1, 1], [[0] * TERMS] * 3, np.array([[[2], [1]]] * 3), pool)
    assert marginal_gains(alike, pool).tolist() == [[1, 1], [1, 1], [0, 0]]
    large = claims_of([1, 1, 1], [[0] * TERMS] * 3, np.array([[[2], [1]], [[8], [1]], [[2], [1]]]), pool)
    assert marginal_gains(large, pool).tolist() == [[1, 1], [0, 0], [0, 0]]


def test_a_young_job_comes_after_an_equal_one() -> None:
    """Two alike jobs and room for one more worker: the earlier gets it, unless it is young."""
    pool = np.array([5])
    claims = claims_of([9, 9], [[1, 0, 0, 0, 0, 0, 0]] * 2, np.ones((2, 2, 1), np.int64), pool)
    assert marginal_gains(claims, pool).tolist() == [[2, 1], [1, 1]]
    young = claims._replace(priority=np.array([0.95, 1.0]))
    assert marginal_gains(young, pool).tolist() == [[1, 1], [2, 1]]


def test_parameter_servers_that_take_nothing_follow_the_workers() -> None:
    """Only workers take a GPU: three workers, and a parameter server for each of them."""
    pool = np.array([3])
    claims = claims_of([100], [[5, 0, 1, 0, 0, 0, 0]], np.array([[[1], [0]]]), pool)
    assert marginal_gains(claims, pool).tolist() == [[3, 3]]


def test_shares_and_amounts_differ_with_several_resources() -> None:
    """A worker takes 8 GB of 1000 and 2 GPUs of 8: its share is 2 / 8, the amount of that resource 2."""
    demand = np.array([[[8000, 2000], [8000, 0]]])
    pool, quanta = np.array([1_000_000, 8000]), np.array([1000, 1000])
    assert costs(demand, pool, quanta, "share").tolist() == [[0.25, 0.008]]
    assert costs(demand, pool, quanta, "amount").tolist() == [[2.0, 8.0]]
    assert costs(demand, np.array([1_000_000, 0]), quanta, "share").tolist() == [[np.inf, 0.008]]
