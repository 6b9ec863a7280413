"""A queue that a policy serves, against a loop over a sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.core.arrays import I64, WorldArrays, new_pool
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.queue_arrays import new_serving
from ray_sim.kernels.core.queue_steps import QueueBooks, push_jobs, serve_queue
from ray_sim.kernels.handle import handle
from tests.kernels.by_hand import SEEDS, all_there, ints, world_arrays
from tests.proofs import instances

POOLED = RULE_NAMES.index("pooled")
"""Fills servers by index."""


def books_of(arrays: WorldArrays, verdict: list[int] | None = None) -> QueueBooks:
    """An empty queue; ``verdict`` is given per job."""
    n_jobs, classes = len(arrays.job_class), len(arrays.class_job)
    by_class = np.zeros(classes, np.int64)
    by_class[arrays.job_class] = [0] * n_jobs if verdict is None else verdict
    return QueueBooks(
        serving=new_serving(arrays, n_jobs * len(arrays.capacity)),
        to_serve=np.zeros(len(arrays.part_class_ptr) - 1, np.bool_),
        verdict=by_class,
        refused=np.empty(n_jobs, np.int64),
    )


def started(books: QueueBooks) -> dict[int, list[tuple[int, int]]]:
    """(server, tasks) of each job that starts, in the order of `Changes.order`."""
    changes = books.serving.changes
    found = {}
    for i in changes.order[: changes.size[0]].tolist():
        rows = slice(changes.ptr[i], changes.ptr[i + 1])
        found[int(changes.job[i])] = list(
            zip(changes.server[rows].tolist(), changes.tasks[rows].tolist(), strict=True)
        )
    return found


def one_gpu_each(capacity: list[int], gang: list[int], **parts: list[int]) -> WorldArrays:
    return world_arrays([[gpus] for gpus in capacity], [[[1]]] * len(gang), [[n] for n in gang], **parts)


def test_a_strict_queue_stops_at_the_job_that_does_not_fit_and_backfilling_passes_it() -> None:
    # 5 free GPUs. By key: job 2 of 3, job 0 of 4 (does not fit the 2 left), job 1 of 2.
    arrays = one_gpu_each([4, 1], [4, 2, 3])
    for backfill, jobs in ((False, {2: [(0, 3)]}), (True, {1: [(0, 1), (1, 1)], 2: [(0, 3)]})):
        books = books_of(arrays)
        assert push_jobs(handle(books), ints([0, 1, 2]), ints([5, 6, 4])) == (-1, 0)
        pool = new_pool(3, 0, arrays, all_there(arrays))
        serve_queue(handle(books), POOLED, 0, backfill, False, pool, ints([]))
        assert started(books) == jobs
        assert pool.free.tolist() == [[4], [1]]  # the free quanta are read only
        assert books.serving.queue.size.sum() == 3 - len(jobs)


def test_wrong_jobs_add_nothing_and_those_that_never_fit_are_refused() -> None:
    arrays = one_gpu_each([4], [4, 9, 8])
    books = books_of(arrays, [0, 1, 2])
    for jobs, at in (([0, 3], 1), ([-1], 0)):
        assert push_jobs(handle(books), ints(jobs), ints([0, 0])) == (at, 0)
        assert (int(books.serving.queue.size.sum()), books.to_serve.tolist()) == (0, [False])
    assert push_jobs(handle(books), ints([2, 0, 1]), ints([0, 0, 0])) == (-1, 2)
    assert (books.refused[:2].tolist(), books.serving.queue.size.sum(), books.to_serve.tolist()) == (
        [2, 1],
        1,
        [True],
    )


def naive(
    arrays: WorldArrays, waiting: list[tuple[int, int]], free: I64, backfill: bool
) -> dict[int, list[tuple[int, int]]]:
    """Jobs that start, of one partition's (key, job) in order; servers are filled by index."""
    found: dict[int, list[tuple[int, int]]] = {}
    left = free[:, 0].copy()
    for _, job in sorted(waiting):
        here = np.flatnonzero(arrays.server_part == arrays.job_part[job])
        wanted = int(arrays.gang[job, 0])
        if left[here].sum() < wanted:
            if not backfill:
                break
            continue
        found[job] = []
        for server in here.tolist():
            given = min(int(left[server]), wanted)
            if given:
                found[job].append((server, given))
            left[server] -= given
            wanted -= given
    return found


@settings(max_examples=instances(300, 50))
@given(seed=SEEDS)
def test_the_jobs_that_start_are_those_of_a_loop_over_a_sorted_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_jobs, backfill = 10, bool(rng.integers(2))
    parts = {"server_part": [0, 1, 0, 1], "job_part": rng.integers(0, 2, n_jobs).tolist()}
    arrays = one_gpu_each(rng.integers(0, 5, 4).tolist(), rng.integers(1, 6, n_jobs).tolist(), **parts)
    books, waiting = books_of(arrays), set()
    steps = handle(books)
    for batch in np.array_split(rng.permutation(n_jobs), 3):
        keys = rng.integers(-3, 4, len(batch))
        push_jobs(steps, batch.copy(), keys)
        waiting |= set(zip(keys.tolist(), batch.tolist(), strict=True))
        free = rng.integers(0, arrays.capacity + 1)
        expected: dict[int, list[tuple[int, int]]] = {}
        for p in np.unique(arrays.job_part[batch]).tolist():  # the other partition is not looked at
            mine = [(key, job) for key, job in waiting if arrays.job_part[job] == p]
            expected |= naive(arrays, mine, free, backfill)
        pool = new_pool(n_jobs, 0, arrays._replace(empty=free), all_there(arrays))
        serve_queue(steps, POOLED, 0, backfill, False, pool, ints([]))
        assert started(books) == expected
        assert list(started(books)) == sorted(expected)
        waiting = {(key, job) for key, job in waiting if job not in expected}
        assert not books.to_serve.any()
