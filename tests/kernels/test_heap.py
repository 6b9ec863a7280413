from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.arrays import I64
from ray_sim.kernels.heap import push, rekey, remove
from ray_sim.kernels.service import drop_running, order_changes, sort_prefix, sort_running
from tests.worlds import changes_of

N_JOBS = 12
BASE = 5
"""Where the heap's slice begins in the shared array."""

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL_KEYS = st.integers(-3, 3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["push", "remove", "rekey"]), st.integers(0, N_JOBS - 1), SMALL_KEYS | INT64),
    max_size=60,
)


def drain(heap: I64, n: int, position: I64, key: I64) -> list[int]:
    """Take out the first job until none is left."""
    jobs = []
    while n > 0:
        jobs.append(int(heap[BASE]))
        n = remove(heap, BASE, n, position, key, jobs[-1])
    return jobs


@given(steps=STEPS)
def test_the_heap_is_a_list_sorted_by_key_and_job_after_any_steps(steps: list[tuple[str, int, int]]) -> None:
    heap, position = np.full(BASE + N_JOBS + 1, -7), np.full(N_JOBS, -1)
    key = np.zeros(N_JOBS, dtype=np.int64)
    n = 0
    expected: dict[int, int] = {}
    for step, job, new_key in steps:
        if step == "push" and job not in expected:
            key[job] = expected[job] = new_key
            n = push(heap, BASE, n, position, key, job)
        elif step == "remove" and job in expected:
            n = remove(heap, BASE, n, position, key, job)
            del expected[job]
        elif step == "rekey" and job in expected:
            rekey(heap, BASE, n, position, key, job, new_key)
            expected[job] = new_key
        assert n == len(expected)
        assert all((position[job] >= 0) == (job in expected) for job in range(N_JOBS))
        assert all(heap[BASE + position[job]] == job for job in expected)
        if n:
            assert heap[BASE] == min(expected, key=lambda job: (expected[job], job))
    assert drain(heap, n, position, key) == sorted(expected, key=lambda job: (expected[job], job))
    # What lies outside the slice belongs to other heaps.
    assert (heap[:BASE] == -7).all()
    assert heap[-1] == -7


@given(values=st.lists(SMALL_KEYS | INT64, max_size=100), more=st.lists(INT64, max_size=3))
def test_sort_prefix_sorts_the_prefix_and_leaves_the_rest(values: list[int], more: list[int]) -> None:
    # Up to 32 values are sorted by insertion, more by a heap: both must be reached.
    array = np.array(values + more, dtype=np.int64)
    sort_prefix(array, len(values))
    assert array.tolist() == sorted(values) + more


@given(jobs=st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=80))
def test_order_changes_numbers_the_changes_in_job_order(jobs: list[int]) -> None:
    changes = changes_of([(job, []) for job in jobs])
    changes.order[:] = -1
    order_changes(changes)
    assert changes.order.tolist() == sorted(range(len(jobs)), key=lambda i: jobs[i])


@given(keys=st.lists(SMALL_KEYS, min_size=1, max_size=30), data=st.data())
def test_running_jobs_are_sorted_by_key_and_job_and_dropped_in_place(
    keys: list[int], data: st.DataObject
) -> None:
    key = np.array(keys, dtype=np.int64)
    running = np.array(data.draw(st.permutations(range(len(keys)))), dtype=np.int64)
    sort_running(running, len(running), key)
    in_order = sorted(range(len(keys)), key=lambda job: (keys[job], job))
    assert running.tolist() == in_order
    gone = data.draw(st.sampled_from(in_order))
    left = drop_running(running, len(running), gone)
    assert running[:left].tolist() == [job for job in in_order if job != gone]
