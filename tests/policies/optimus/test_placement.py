"""Optimus's placement: even over few servers, with the transfer times that the paper derives."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, SYNC, WORKER
from ray_sim.kernels.elastic.step_time import PER_TASK, cross_mb_per_sample, one_way_s
from ray_sim.model.units import IntArray
from ray_sim.policies.optimus.placement import dominant_shares, place, scarcest_resource
from tests.placement_tables import rows_in, table_of
from tests.proofs import instances
from tests.training import Placement
from tests.training import rows as rows_of

Row = tuple[int, int, int, int]
NOWHERE = table_of([])


def put(
    tasks: list[tuple[int, int]],
    free: list[list[int]],
    quanta: list[list[list[int]]] | None = None,
    rule: str = "even",
    shrink: bool = True,
    resource: int = 0,
    home: list[Row] | None = None,
    idle: bool = False,
) -> list[Row]:
    """Rows of jobs, by number of tasks, whose tasks take one quantum each unless said otherwise."""
    each = quanta or [[[1], [1]]] * len(tasks)
    at_home = table_of(home or [])
    found, _ = place(
        *(np.array(tasks), np.array(each), at_home, np.array(free), resource),
        rule=rule,
        size=np.array(tasks).sum(axis=1),
        shrink=shrink,
        idle=idle,
    )
    return [(job, server, role, count) for job, server, role, count in rows_in(found)]


def on(job: int, *here: tuple[int, int, int]) -> list[Row]:
    """Rows of a job from (server, workers, parameter servers)."""
    rows = [(job, s, role, n) for s, w, p in here for role, n in ((WORKER, w), (PARAMETER_SERVER, p))]
    return [row for row in rows if row[3]]


def moved_mb(placement: Placement) -> float:
    """Megabytes a step from server to server, of a model of 100 MB trained in step."""
    return cross_mb_per_sample(SYNC, 1.0, 100.0, rows_of(placement), 0)


def bottleneck_mb(placement: Placement) -> float:
    """Megabytes through the busiest task, one way."""
    w, p = (sum(here[role] for here in placement) for role in (WORKER, PARAMETER_SERVER))
    return one_way_s(
        rows_of(placement), 0, PER_TASK, w, p, 100.0, 0.0, 1.0, 0.0, 0.0, np.ones(len(placement))
    )


def test_example_3b_less_data_in_all_may_pass_no_faster() -> None:
    """Two parameter servers, four workers, 100 MB; pairs are (workers, parameter servers) of each server."""
    assert moved_mb([(4, 2)]) == 0
    assert moved_mb([(2, 1), (2, 1)]) == 2 * 100 * 4 * (1 - 1 / 2)
    assert moved_mb([(1, 2), (3, 0)]) == 2 * 100 / 2 * (8 - 2)
    assert moved_mb([(3, 2), (1, 0)]) == 200
    assert bottleneck_mb([(2, 1), (2, 1)]) == bottleneck_mb([(3, 2), (1, 0)]) == 100


@pytest.mark.parametrize(("p", "w", "k"), [(2, 4, 2), (2, 2, 2), (3, 3, 3), (2, 6, 2), (4, 4, 2)])
def test_no_placement_with_both_roles_on_each_of_k_servers_beats_the_even_one(p: int, w: int, k: int) -> None:
    """The paper's theorem, over all of them; of even ones, fewer servers are better."""

    def splits(n: int, parts: int) -> list[tuple[int, ...]]:
        return [c for c in product(range(1, n + 1), repeat=parts) if sum(c) == n]

    even = bottleneck_mb([(w // k, p // k)] * k)
    others = [bottleneck_mb(list(zip(ws, ps, strict=True))) for ws, ps in product(splits(w, k), splits(p, k))]
    assert even == pytest.approx(min(others))
    assert bottleneck_mb([(w, p)]) == 0 < even


def test_even_placement_moves_more_with_every_server_and_random_placement_as_much_as_with_all() -> None:
    """B = 2 S w (1 - 1 / k), with 100 MB and six workers; all placements of two and two on three servers."""
    even = [moved_mb([(6 // k, 6 // k)] * k) for k in (1, 2, 3, 6)]
    assert even == pytest.approx([2 * 100 * 6 * (1 - 1 / k) for k in (1, 2, 3, 6)])
    anywhere = []
    for first, second, third, fourth in product(range(3), repeat=4):
        here = [(int(first == s) + int(second == s), int(third == s) + int(fourth == s)) for s in range(3)]
        anywhere.append(moved_mb(here))
    assert np.mean(anywhere) == pytest.approx(2 * 100 * 2 * (1 - 1 / 3))


def test_a_job_goes_evenly_to_the_freest_servers_and_as_few_as_hold_it() -> None:
    """Six tasks: server 1 has room for them all; without it servers 2 and 0 hold three each."""
    assert put([(4, 2)], [[3], [6], [4]]) == on(0, (1, 4, 2))
    assert put([(4, 2)], [[3], [2], [4]]) == on(0, (0, 2, 1), (2, 2, 1))
    # Five workers, two parameter servers: workers 0, 2, 4 and server 0 to the freest, the others to the next.
    assert put([(5, 2)], [[3], [4]]) == on(0, (0, 2, 1), (1, 3, 1))


def test_small_jobs_are_placed_first_and_ties_go_to_the_first_server() -> None:
    rows = put([(2, 2), (1, 1), (1, 1)], [[4], [4], [4]])
    assert rows == on(0, (2, 2, 2)) + on(1, (0, 1, 1)) + on(2, (1, 1, 1))


def test_a_job_that_fits_on_no_k_servers_evenly_is_placed_in_turn_and_shrunk_to_what_fits() -> None:
    """Four and four on rooms of 1, 3, 1: in turn p0 on 0, w on 1, p on 1, w on 1, p on 2; the rest is cut."""
    rows = put([(4, 4)], [[1], [3], [1]])
    assert rows == on(0, (0, 0, 1), (1, 2, 1), (2, 0, 1))
    assert put([(4, 4)], [[1], [3], [1]], shrink=False) == []
    assert put([(1, 1)], [[1], [1]], shrink=False) == on(0, (0, 0, 1), (1, 1, 0))  # all of it fits in turn
    assert put([(1, 1)], [[1], [0]]) == []  # a parameter server alone trains nothing
    assert put([(1, 1), (3, 0)], [[2], [0]]) == on(0, (0, 1, 1))  # the second job waits


def test_a_job_that_waits_is_shrunk_where_no_job_runs() -> None:
    """Four and four on rooms of 1, 3, 1, as above; two jobs that do not fit wait for each other no longer."""
    rooms = [[1], [3], [1]]
    shrunk = on(0, (0, 0, 1), (1, 2, 1), (2, 0, 1))
    assert put([(4, 4)], rooms, shrink=False, idle=True) == shrunk
    assert put([(4, 4), (5, 5)], rooms, shrink=False, idle=True) == shrunk
    assert put([(4, 4), (1, 1)], rooms, shrink=False, idle=True) == on(1, (1, 1, 1))
    # Of the first, no server holds a worker: the next is shrunk.
    each = [[[5], [1]], [[1], [1]]]
    assert put([(1, 1), (4, 4)], rooms, each, shrink=False, idle=True) == [(1, *row[1:]) for row in shrunk]


def test_the_size_of_a_job_is_its_largest_share_of_a_resource() -> None:
    """Of 10 and 40: two workers of (1, 2) take 0.2 and 0.1, one of (1, 16) takes 0.1 and 0.4."""
    tasks, quanta = (
        np.array([[2, 0], [1, 0], [0, 0]]),
        np.array([[[1, 2], [0, 0]], [[1, 16], [0, 0]], [[1, 1]] * 2]),
    )
    assert dominant_shares(tasks, quanta, np.array([10, 40])).tolist() == [0.2, 0.4, 0]
    assert dominant_shares(tasks, quanta, np.array([10, 0])).tolist() == [0.2, 0.1, 0]


def test_what_a_job_does_not_get_is_left_to_the_next() -> None:
    """Job 0 needs a worker of five quanta, which nobody holds; its parameter server is given back."""
    rows = put([(1, 1), (2, 2)], [[4]], [[[5], [1]], [[1], [1]]])
    assert rows == on(1, (0, 2, 2))


def test_servers_without_the_other_resource_do_not_stand_in_the_way() -> None:
    """Servers by free quanta of resource 0; the freest has none of resource 1."""
    free = [[9, 0], [5, 4], [4, 4]]
    each = [[[1, 1], [1, 0]]]
    assert put([(2, 2)], free, each) == on(0, (1, 2, 2))
    assert put([(6, 2)], free, each) == on(0, (1, 3, 1), (2, 3, 1))


def test_jobs_without_parameter_servers_and_jobs_that_wait() -> None:
    assert put([(0, 0), (4, 0)], [[2], [2]]) == on(1, (0, 2, 0), (1, 2, 0))


def test_spread_takes_the_freest_server_for_each_task_and_pack_the_fullest() -> None:
    """Rooms 3, 2, 4; a parameter server, then a worker, ...: to 2, 0, 2, 0 by spread, 1, 1, 0, 0 by pack."""
    free = [[3], [2], [4]]
    assert put([(2, 2)], free, rule="spread") == on(0, (0, 2, 0), (2, 0, 2))
    assert put([(2, 2)], free, rule="pack") == on(0, (0, 1, 1), (1, 1, 1))
    assert put([(9, 9)], free, rule="pack", shrink=False) == []


def test_a_job_that_was_placed_one_by_one_moves_once_it_fits_evenly() -> None:
    # Two workers apart from six parameter servers have six peers elsewhere each; evenly on two servers three.
    home = on(0, (0, 0, 3), (1, 0, 3), (2, 1, 0), (3, 1, 0))
    evenly = on(0, (4, 1, 3), (5, 1, 3))
    assert put([(2, 6)], [[3], [3], [1], [1]], home=home) == home
    assert put([(2, 6)], [[3], [3], [1], [1], [4], [4]], home=home) == evenly
    # A worker beside two of its four parameter servers has two elsewhere; so it has evenly on two servers.
    half = on(0, (0, 1, 2), (1, 0, 2))
    assert put([(1, 4)], [[3], [2], [3], [3]], home=half) == half
    assert put([(1, 4)], [[3], [2], [5], [3]], home=half) == on(0, (2, 1, 4))


def test_a_job_stays_at_home_but_for_fewer_servers() -> None:
    """Two and two on servers 0 and 1; all on one only if it has room for them, its own counted."""
    home = on(0, (0, 1, 1), (1, 1, 1))
    assert put([(2, 2)], [[2], [2], [3]], home=home) == home
    assert put([(2, 2)], [[2], [2], [4]], home=home) == on(0, (2, 2, 2))
    assert put([(2, 2)], [[4], [2], [3]], home=home) == on(0, (0, 2, 2))
    # The small job comes first and takes server 2; what is left where the large one is stays its own.
    assert put([(2, 2), (1, 0)], [[2], [2], [4]], home=home) == home + on(1, (2, 1, 0))
    assert put([(2, 2)], [[2], [2], [4]], rule="spread", home=home) == home


def test_servers_are_ordered_by_the_resource_that_runs_out_first() -> None:
    """Two workers of (1, 2) and a parameter server of (3, 0): 5 of 10 and 4 of 5."""
    quanta = np.array([[[1, 2], [3, 0]]])
    assert scarcest_resource(np.array([[2, 1]]), quanta, np.array([10, 5])) == 1
    assert scarcest_resource(np.array([[2, 1]]), quanta, np.array([5, 5])) == 0
    assert scarcest_resource(np.array([[0, 0]]), quanta, np.array([0, 5])) == 0


def plain(
    tasks: IntArray,
    quanta: IntArray,
    free: IntArray,
    resource: int,
    *,
    by_demand: bool,
    shrink: bool,
    idle: bool,
) -> list[Row]:
    """The even rule as the paper tells it, one job after the other on sorted lists."""
    left, rows = free.copy(), []
    pool = free.sum(axis=0)

    def size(job: int) -> Fraction:
        taken = tasks[job] @ quanta[job]
        shares = [Fraction(int(n), int(c)) for n, c in zip(taken, pool, strict=True) if c > 0]
        return max(shares, default=Fraction(0)) if by_demand else Fraction(int(tasks[job].sum()))

    order = sorted(
        (job for job in range(len(tasks)) if tasks[job, WORKER] > 0), key=lambda job: (size(job), job)
    )
    waiting = []
    for job in order:
        here = evenly(tasks[job], quanta[job], left, resource) or in_turn(
            tasks[job], quanta[job], left, shrink
        )
        if not here:
            waiting.append(job)
        rows += taken_by(job, here, quanta[job], left)
    while idle and waiting and not rows:
        job = waiting.pop(0)
        rows += taken_by(job, in_turn(tasks[job], quanta[job], left, True), quanta[job], left)
    total: dict[tuple[int, int, int], int] = {}
    for job, s, role, n in rows:
        total[job, s, role] = total.get((job, s, role), 0) + n
    return [(*key, n) for key, n in sorted(total.items())]


Here = list[tuple[int, int, int]]
"""Server, workers and parameter servers."""


def taken_by(job: int, here: Here, quanta: IntArray, left: IntArray) -> list[Row]:
    for s, w, p in here:
        left[s] -= np.array([w, p]) @ quanta
    return on(job, *here)


def evenly(tasks: IntArray, quanta: IntArray, left: IntArray, resource: int) -> Here:
    w, p = (int(n) for n in tasks)
    pair = quanta[WORKER] + quanta[PARAMETER_SERVER] * (p > 0)
    queue = [s for s in range(len(left)) if (pair <= left[s]).all()]
    queue.sort(key=lambda s: (-left[s, resource], s))
    for k in range(1, min(max(w, p), len(queue)) + 1):
        here = [(s, len(range(rank, w, k)), len(range(rank, p, k))) for rank, s in enumerate(queue[:k])]
        if all((np.array(n) @ quanta <= left[s]).all() for s, *n in here):
            return here
    return []


def in_turn(tasks: IntArray, quanta: IntArray, left: IntArray, shrink: bool) -> Here:
    here: Here = []
    tried, got = left.copy(), [0, 0]
    moved = True
    while moved:
        moved = False
        for role in (PARAMETER_SERVER, WORKER):
            room = [s for s in range(len(left)) if (quanta[role] <= tried[s]).all()]
            if got[role] < tasks[role] and room:
                tried[room[0]] -= quanta[role]
                got[role] += 1
                here.append((room[0], int(role == WORKER), int(role == PARAMETER_SERVER)))
                moved = True
    partly = got[WORKER] > 0 and (got[PARAMETER_SERVER] > 0 or tasks[PARAMETER_SERVER] == 0)
    return here if got == tasks.tolist() or (shrink and partly) else []


@settings(max_examples=instances(200), deadline=None)
@given(data=st.data(), by_demand=st.booleans(), shrink=st.booleans(), idle=st.booleans())
def test_the_kernel_does_what_the_paper_tells(
    data: st.DataObject, by_demand: bool, shrink: bool, idle: bool
) -> None:
    n, servers = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))

    def draw(shape: tuple[int, ...], most: int) -> IntArray:
        size = int(np.prod(shape))
        flat = data.draw(st.lists(st.integers(0, most), min_size=size, max_size=size))
        return np.array(flat, dtype=np.int64).reshape(shape)

    tasks, quanta, free = draw((n, 2), 6), draw((n, 2, 2), 3), draw((servers, 2), 12)
    resource = data.draw(st.integers(0, 1))
    tasks[tasks[:, WORKER] == 0] = 0
    size = dominant_shares(tasks, quanta, free.sum(axis=0)) if by_demand else tasks.sum(axis=1)

    def found(rule: str) -> list[Row]:
        rows, _ = place(
            tasks, quanta, NOWHERE, free, resource, rule=rule, size=size, shrink=shrink, idle=idle
        )
        return [(job, server, role, count) for job, server, role, count in rows_in(rows)]

    expected = plain(tasks, quanta, free, resource, by_demand=by_demand, shrink=shrink, idle=idle)
    assert found("even") == expected
    for rule in ("spread", "pack"):
        left, rows = free.copy(), found(rule)
        for job, s, role, count in rows:
            left[s] -= count * quanta[job, role]
        assert (left >= 0).all()
        keys = [row[:3] for row in rows]
        assert keys == sorted(keys)
        assert len(set(keys)) == len(keys)
