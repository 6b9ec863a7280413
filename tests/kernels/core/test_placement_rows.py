"""Linked rows of placements: free quanta are capacity minus what the rows hold, and no row is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER, Pool, new_pool
from ray_sim.kernels.core.job_rows import Held
from ray_sim.kernels.core.job_rows import Rows as JobRows
from ray_sim.kernels.core.placement_rows import (
    add_placement,
    change_placements,
    hold,
    release,
    rigid_rate,
    rigid_rates,
)
from tests.kernels.by_hand import SEEDS, Rows, all_there, ints, quanta_of, rows_of, world_arrays
from tests.proofs import instances
from tests.worlds import changes_of

TWO = world_arrays([[10, 20], [10, 20]], [[[2, 3], [0, 1]], [[1, 0], [1, 4]]], [[2, 1], [1, 1]])
"""Workers ask (2, 3) and (1, 0) quanta of GPU and core, parameter servers (0, 1) and (1, 4)."""


def spare_rows(pool: Pool) -> int:
    """Number of rows in the list of spare ones."""
    n, row = 0, int(pool.top[0])
    while row >= 0:
        n, row = n + 1, int(pool.row_next[row])
    return n


def test_two_jobs_hold_swap_and_release() -> None:
    pool, used = new_pool(2, 4, TWO, all_there(TWO)), ints([0, 0])
    a: Rows = [(0, WORKER, 2), (0, PARAMETER_SERVER, 1)]
    b: Rows = [(1, WORKER, 3)]
    changes = changes_of([(0, a), (1, b)])
    hold(TWO, pool, used, changes, 0)
    hold(TWO, pool, used, changes, 1)
    # Server 0: 10 - 2 x 2 GPU, 20 - 2 x 3 - 1 cores. Server 1: 10 - 3 x 1 GPU.
    assert pool.free.tolist() == [[6, 13], [7, 20]]
    assert used.tolist() == [7, 7]
    change_placements(TWO, pool, used, changes_of([(0, [(1, WORKER, 2)]), (1, [(0, WORKER, 3)])]))
    assert pool.free.tolist() == [[7, 20], [6, 14]]
    assert used.tolist() == [7, 6]
    assert (rows_of(pool, 0), rows_of(pool, 1)) == ([(1, WORKER, 2)], [(0, WORKER, 3)])
    release(TWO, pool, used, 0)
    assert (pool.head[0], pool.free.tolist(), used.tolist()) == (-1, [[7, 20], [10, 20]], [3, 0])


def test_a_full_server_is_swapped_without_room_for_both() -> None:
    full = world_arrays([[4], [4]], [[[1]], [[1]]], [[4], [4]])
    pool, used = new_pool(2, 2, full, all_there(full)), ints([0])
    change_placements(full, pool, used, changes_of([(0, [(0, WORKER, 4)]), (1, [(1, WORKER, 4)])]))
    change_placements(full, pool, used, changes_of([(0, [(1, WORKER, 4)]), (1, [(0, WORKER, 4)])]))
    assert (rows_of(pool, 0), rows_of(pool, 1)) == ([(1, WORKER, 4)], [(0, WORKER, 4)])
    assert pool.free.tolist() == [[0], [0]]
    assert pool.top[1] == 2  # rows that were released are used again: no third one


@settings(max_examples=instances(300, 50))
@given(seed=SEEDS)
def test_free_quanta_and_rows_are_those_of_a_dictionary_after_any_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_jobs, n_servers, roles = 5, 4, 2
    demand = rng.integers(0, 4, (n_jobs, roles, 3))
    arrays = world_arrays(rng.integers(0, 9, (n_servers, 3)), demand, np.ones((n_jobs, roles)))
    pool = new_pool(n_jobs, n_jobs * n_servers * roles, arrays, all_there(arrays))
    used = ints([0] * 3)
    expected: dict[int, Rows] = {job: [] for job in range(n_jobs)}
    most = 0
    for _ in range(5):
        drawn: dict[int, Rows] = {}
        for job in sorted(rng.choice(n_jobs, rng.integers(0, n_jobs + 1), replace=False).tolist()):
            places = [(server, role) for server in range(n_servers) for role in range(roles)]
            drawn[job] = [(s, role, int(rng.integers(1, 4))) for s, role in places if rng.random() < 0.4]
        expected |= drawn
        most = max(most, sum(map(len, expected.values())))
        change_placements(arrays, pool, used, changes_of(list(drawn.items())))
        held = quanta_of(arrays, expected)
        np.testing.assert_array_equal(pool.free, arrays.capacity - held)
        np.testing.assert_array_equal(used, held.sum(axis=0))
        assert {job: rows_of(pool, job) for job in expected} == expected
        assert spare_rows(pool) + sum(map(len, expected.values())) == pool.top[1] == most
    free = pool.free.copy()
    for job in expected:
        add_placement(arrays, pool, job, 1, free)
    np.testing.assert_array_equal(free, arrays.capacity)


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        ([(1, WORKER, 2), (2, WORKER, 1)], 1.0),
        ([(2, WORKER, 1)], 2.0),
        ([(1, WORKER, 1), (2, PARAMETER_SERVER, 1)], 1.0),
        ([(1, PARAMETER_SERVER, 1), (2, WORKER, 1)], 2.0),  # a parameter server does not slow the workers
        ([(0, PARAMETER_SERVER, 1), (1, WORKER, 1), (2, WORKER, 1)], 1.0),
    ],
)
def test_the_slowest_server_with_a_worker_sets_the_rate(rows: Rows, rate: float) -> None:
    pool, used, speed = new_pool(2, 3, TWO, all_there(TWO)), ints([0, 0]), np.array([0.5, 1.0, 2.0])
    three = TWO._replace(capacity=ints([[10, 20]] * 3), empty=ints([[10, 20]] * 3))
    pool = pool._replace(free=three.capacity.copy())
    hold(three, pool, used, changes_of([(1, rows)]), 0)
    assert rigid_rate(speed, pool, 1) == rate
    rates = np.empty(2)
    rigid_rates(speed, Held(pool, JobRows(*[ints([])] * 4)), ints([1, 1]), rates)
    assert rates.tolist() == [rate, rate]
