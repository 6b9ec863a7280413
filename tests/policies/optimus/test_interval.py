"""One interval: who stays, who is at home, and the shares of other policies for comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.units import IntArray
from ray_sim.policies.optimus.allocation import Claims, drf_tasks, tetris_tasks
from ray_sim.policies.optimus.interval import (
    Choices,
    IntervalJobs,
    Target,
    part_of,
    stay_factors,
    target_of,
    tasks_of,
)
from ray_sim.policies.shared.typed_servers import TypeResources
from tests.placement_tables import rows_in, table_of


def claims_of(demand: list[list[list[int]]], steps: list[float], with_ps: bool = True) -> Claims:
    """Jobs whose step takes 1 / w seconds."""
    n = len(steps)
    time = np.zeros((n, 7))
    time[:, 0] = 1.0
    return Claims(
        steps=np.array(steps, dtype=np.float64),
        time=time,
        demand=np.array(demand),
        cost=np.zeros((n, 2)),
        most_workers=np.full(n, 100),
        with_ps=np.full(n, with_ps),
        priority=np.ones(n),
    )


def interval_of(
    claims: Claims, rows: Sequence[list[int]] = (), stays: list[int] | None = None
) -> IntervalJobs:
    n, held = len(claims.steps), table_of(rows)
    staying = np.isin(np.arange(n), stays or [])
    return IntervalJobs(claims, np.full(n, 2), held, tasks_of(held, n), staying)


def choose(allocation: str = "optimus", *, keep_places: bool = True, shrink: bool = True) -> Choices:
    return Choices(
        allocation=allocation,
        normalise="share",
        quanta=np.ones(1, np.int64),
        gpu=0,
        placement="even",
        shrink=shrink,
        keep_places=keep_places,
        by_demand=True,
    )


def target_on(interval: IntervalJobs, servers: IntArray, capacity: IntArray, choices: Choices) -> Target:
    """The target on servers without GPU types."""
    nothing = np.zeros((len(interval.held), 2, 0), np.int64), np.zeros((len(servers), 0), np.int64)
    return target_of(interval, servers, capacity, choices, TypeResources(*nothing))


def found(
    interval: IntervalJobs,
    capacity: list[int],
    choices: Choices | None = None,
    servers: IntArray | None = None,
) -> list[list[int]]:
    at = np.arange(len(capacity)) if servers is None else servers
    target = target_on(interval, at, np.array(capacity)[:, None], choices or choose())
    return sorted(rows_in(target.placements))


ONE_EACH = [[1], [1]]
W, P = WORKER, PARAMETER_SERVER


def test_a_job_that_stays_keeps_all_it_holds_and_the_others_share_the_rest() -> None:
    """Job 0 holds six of ten; the best for job 1 would be much more than the four that are left."""
    held = [[0, 0, W, 3], [0, 0, P, 3]]
    claims = claims_of([ONE_EACH] * 2, [1, 100])
    staying = found(interval_of(claims, held, stays=[0]), [10])
    assert staying == [[0, 0, W, 3], [0, 0, P, 3], [1, 0, W, 3], [1, 0, P, 1]]
    shared = found(interval_of(claims, held), [10])
    assert tasks_of(table_of(shared), 2).tolist() == [[1, 1], [7, 1]]


def test_servers_may_be_any_of_the_clusters() -> None:
    """The job stays on server 5 of 3, 5 and 9, unless all are placed anew: server 3 comes first."""
    held = [[0, 5, W, 1], [0, 5, P, 1]]
    claims = claims_of([ONE_EACH], [1])._replace(most_workers=np.array([1]))
    servers = np.array([3, 5, 9])
    assert found(interval_of(claims, held), [4, 4, 4], servers=servers) == held
    anew = found(interval_of(claims, held), [4, 4, 4], choose(keep_places=False), servers)
    assert anew == [[0, 3, W, 1], [0, 3, P, 1]]


def test_tasks_on_a_server_that_is_gone_do_not_stay() -> None:
    """They demand nothing, so that they did not notice."""
    held = [[0, 0, W, 1], [0, 1, P, 1]]
    claims = claims_of([[[1], [0]]], [1])._replace(most_workers=np.array([1]))
    for stays in ([0], []):
        gone = found(interval_of(claims, held, stays=stays), [4], servers=np.array([1]))
        assert gone == [[0, 1, W, 1], [0, 1, P, 1]]


def test_jobs_for_whose_tasks_there_is_no_room_are_counted() -> None:
    """Two workers of three quanta, a parameter server of one: all fit in 4 and 3, not in 4, 2 and 2."""
    small = claims_of([[[3], [1]]], [9])._replace(most_workers=np.array([2]))
    for rooms, shrunk, workers in (([4, 3], 0, 2), ([4, 2, 2], 1, 1)):
        target = target_on(interval_of(small), np.arange(len(rooms)), np.array(rooms)[:, None], choose())
        assert (target.shrunk, target.without_room) == (shrunk, 0)
        assert tasks_of(target.placements, 1).tolist() == [[workers, 1]]
    # The pool of 16 holds a worker of five and its parameter server, but no server of 4 does.
    large = claims_of([[[5], [1]]], [9])
    target = target_on(interval_of(large), np.arange(4), np.full((4, 1), 4), choose())
    assert (target.shrunk, target.without_room, len(target.placements.job)) == (0, 1, 0)


def test_of_jobs_that_wait_one_is_shrunk_unless_another_runs() -> None:
    """Two workers of three quanta as above; with job 1 on server 0, which stays, job 0 waits."""
    alone = claims_of([[[3], [1]]], [9])._replace(most_workers=np.array([2]))
    waits = choose(shrink=False)
    assert found(interval_of(alone), [4, 2, 2], waits) == [[0, 0, W, 1], [0, 0, P, 1]]
    two = claims_of([[[3], [1]], ONE_EACH], [9, 1])._replace(most_workers=np.array([2, 1]))
    held = [[1, 0, W, 1], [1, 0, P, 1]]
    assert found(interval_of(two, held, stays=[1]), [5, 2, 2], waits) == held


def test_a_long_or_large_job_stays_for_less_time() -> None:
    """A step takes 1 / w s: 10, 30 and 20 s are left, mean 20; 1, 2 and 3 tasks run, mean 2."""
    claims = claims_of([ONE_EACH] * 4, [10, 60, 40, 5])
    held = np.array([[1, 0], [2, 0], [2, 1], [0, 0]])
    assert stay_factors(claims, held, "length").tolist() == [2, 20 / 30, 1, 1]
    assert stay_factors(claims, held, "size").tolist() == [2, 1, 2 / 3, 1]
    assert stay_factors(claims, held, "same").tolist() == [1, 1, 1, 1]


def test_a_part_of_the_jobs_is_numbered_anew() -> None:
    held = [[0, 0, W, 1], [2, 1, W, 2], [2, 1, P, 1]]
    part = part_of(interval_of(claims_of([ONE_EACH] * 3, [1, 2, 3]), held, stays=[2]), np.array([1, 2]))
    assert rows_in(part.placements) == [[1, 1, W, 2], [1, 1, P, 1]]
    assert part.held.tolist() == [[0, 0], [2, 1]]
    assert (part.claims.steps.tolist(), part.stays.tolist()) == ([2, 3], [False, True])


def test_drf_gives_pairs_by_dominant_shares() -> None:
    """Example 6.A with each bundle split in two: A (1, 4), B (3, 1) of (9, 18): three and two bundles."""
    claims = claims_of([[[1, 3], [0, 1]], [[2, 1], [1, 0]]], [1, 1])
    pool = np.array([9, 18])
    assert drf_tasks(claims, pool, pool).tolist() == [[3, 3], [2, 2]]
    assert drf_tasks(claims, pool, np.array([4, 18])).tolist() == [[1, 1], [1, 1]]
    assert drf_tasks(claims._replace(with_ps=np.zeros(2, np.bool_)), pool, pool).tolist()[0][1] == 0


def test_tetris_gives_pairs_to_short_jobs_first_and_no_more_than_asked_for() -> None:
    """Alike jobs with 10 and 1 steps left on a server with room for three pairs: two to the short one."""
    claims = claims_of([ONE_EACH] * 2, [10, 1])
    room = np.array([[6]])
    assert tetris_tasks(claims, np.array([2, 2]), room, room).tolist() == [[1, 1], [2, 2]]
    assert tetris_tasks(claims, np.array([9, 1]), room, room).tolist() == [[2, 2], [1, 1]]
    assert tetris_tasks(claims, np.array([2, 2]), room, np.array([[3]])).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("allocation", ["optimus", "drf", "tetris"])
def test_every_allocation_is_placed_evenly(allocation: str) -> None:
    """Two pairs that four servers of one pair each hold: task i on server i mod k."""
    claims = claims_of([ONE_EACH], [1])._replace(most_workers=np.array([2]))
    assert found(interval_of(claims), [2, 2], choose(allocation)) == [
        [0, 0, W, 1],
        [0, 0, P, 1],
        [0, 1, W, 1],
        *([[0, 1, P, 1]] if allocation != "optimus" else []),
    ]
