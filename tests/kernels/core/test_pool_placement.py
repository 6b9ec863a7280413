"""Placement of single-GPU tasks on a pool: jobs get the GPUs in order, one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.core.pool_placement import fill_servers
from tests.kernels.by_hand import SEEDS, ints
from tests.proofs import instances


def filled(free: list[int], gpus: list[int]) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """Free GPUs afterwards, and (server, tasks) of each job."""
    left, ptr = ints(free), np.empty(len(gpus) + 1, np.int64)
    server, tasks = np.empty((2, len(gpus) + len(free)), np.int64)
    rows = fill_servers(left, ints(gpus), ptr, server, tasks)
    assert (ptr[0], ptr[-1]) == (0, rows)
    pairs = list(zip(server[:rows].tolist(), tasks[:rows].tolist(), strict=True))
    return left.tolist(), [pairs[ptr[i] : ptr[i + 1]] for i in range(len(gpus))]


def test_three_jobs_on_servers_of_2_0_4_and_1() -> None:
    left, placed = filled([2, 0, 4, 1], [1, 3, 2])
    assert placed == [[(0, 1)], [(0, 1), (2, 2)], [(2, 2)]]
    assert left == [0, 0, 0, 1]
    assert filled([2, 1], []) == ([2, 1], [])


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_gpus_are_dealt_out_one_by_one_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = rng.integers(0, 5, int(rng.integers(1, 8))).tolist()
    gpus: list[int] = []
    while sum(gpus) < sum(free) and rng.random() < 0.8:
        gpus.append(int(rng.integers(0, min(4, sum(free) - sum(gpus)) + 1)))
    each = [server for server, n in enumerate(free) for _ in range(n)]
    expected = []
    for wanted in gpus:
        expected.append(sorted(Counter(each[:wanted]).items()))
        each = each[wanted:]
    left, placed = filled(free, gpus)
    assert placed == expected
    assert left == [each.count(server) for server in range(len(free))]
