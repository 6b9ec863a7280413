"""One preemptive machine, tick by tick; and equivalent servers paired, by enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core.server_matching import MOST_SQUARED, match, weigh_pairs
from ray_sim.kernels.core.srpt_relaxation import serve_smallest_first

JOBS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=6)


@given(jobs=JOBS, remaining=st.booleans())
def test_flows_and_mean_busy_times_are_those_of_a_machine_run_tick_by_tick(
    jobs: list[tuple[int, int]], remaining: bool
) -> None:
    jobs = sorted(jobs)
    release, sizes = (np.array(column) for column in zip(*jobs, strict=True))
    left = sizes.copy()
    flow, moment = np.zeros(len(jobs), np.int64), np.zeros(len(jobs))
    key = left if remaining else sizes.copy()
    heap, position = np.zeros(len(jobs), np.int64), np.full(len(jobs), -1)
    serve_smallest_first(release, key, left, heap, position, flow, moment)
    rest, naive_flow, naive_moment = sizes.tolist(), [0] * len(jobs), [Fraction(0)] * len(jobs)
    tick = 0
    while any(rest):
        ready = [j for j, (at, _) in enumerate(jobs) if at <= tick and rest[j]]
        if ready:
            j = min(ready, key=lambda j: (rest[j] if remaining else jobs[j][1], j))
            rest[j] -= 1
            naive_moment[j] += tick - jobs[j][0] + Fraction(1, 2)
            naive_flow[j] = tick + 1 - jobs[j][0]
        tick += 1
    assert flow.tolist() == naive_flow
    assert moment.tolist() == naive_moment
    assert not left.any()


@given(groups=st.lists(st.integers(0, 4), max_size=12).map(sorted), room=st.integers(0, 60))
def test_every_server_of_a_group_is_weighed_with_every_other(groups: list[int], room: int) -> None:
    n = len(groups)
    target, now, weight = np.arange(n), np.arange(100, 100 + n), np.array([10 * g for g in groups], np.int64)
    pairs = np.full((room, 3), -1)
    count = weigh_pairs(np.array(groups, np.int64), target, now, weight, pairs)
    expected = []
    for _, members in groupby(range(n), key=lambda i: groups[i]):
        same = list(members)
        expected += [[i, 100 + k, 10 * groups[i]] for i in same for k in same]
    assert count == len(expected)  # also where they do not fit, so that the caller makes room
    assert pairs[:count].tolist() == expected[:room]


def test_a_large_group_is_weighed_in_order() -> None:
    n = MOST_SQUARED + 1
    pairs = np.empty((n, 3), np.int64)
    ones = np.ones(n, np.int64)
    assert weigh_pairs(ones, np.arange(n), np.arange(n), ones, pairs) == n
    assert pairs[:, 0].tolist() == pairs[:, 1].tolist() == list(range(n))


@given(
    wishes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10),
)
def test_pairs_are_made_in_order_of_preference_and_nobody_twice(wishes: list[tuple[int, int]]) -> None:
    target, now = (np.array([wish[i] for wish in wishes], np.int64) for i in (0, 1))
    name, taken = np.full(5, -1), np.zeros(5, np.bool_)
    match(target, now, name, taken)
    naive: dict[int, int] = {}
    for wanted, held in wishes:
        if wanted not in naive and held not in naive.values():
            naive[wanted] = held
    for server in range(5):
        if server not in naive and server not in naive.values():
            naive[server] = server
    assert {int(s): int(name[s]) for s in np.flatnonzero(name >= 0)} == naive
