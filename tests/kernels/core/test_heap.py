from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, NEVER, new_calendar
from ray_sim.kernels.core.heap import heap_sort, is_due, next_time, push, rekey, remove, schedule, unschedule
from ray_sim.kernels.core.queue_arrays import RunningList, new_running
from ray_sim.kernels.core.queue_dispatch import order_changes, sort_prefix
from ray_sim.kernels.core.running import drop, insert, sort
from tests.proofs import instances
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
def test_running_jobs_stand_in_order_whatever_comes_and_goes(keys: list[int], data: st.DataObject) -> None:
    running = new_running(2 * len(keys))
    lo = len(keys)  # the list of a second partition
    arrivals = data.draw(st.permutations(range(len(keys))))
    for n, job in enumerate(arrivals):
        insert(running, lo, n, job, keys[job], job % 3 - 1, 10 * job)
    in_order = sorted(range(len(keys)), key=lambda job: (keys[job], job))
    assert listed(running, lo, len(keys)) == in_order
    gone = data.draw(st.sampled_from(in_order))
    slot = drop(running, lo, len(keys), gone)
    assert (running.job[slot], running.server[slot], running.quanta[slot]) == (gone, gone % 3 - 1, 10 * gone)
    assert listed(running, lo, len(keys) - 1) == [job for job in in_order if job != gone]
    insert(running, lo, len(keys) - 1, gone, keys[gone], 0, 0)
    assert running.top.tolist() == [0, len(keys)]  # the slot is used again
    assert listed(running, lo, len(keys)) == in_order


@given(
    keys=st.lists(SMALL_KEYS, min_size=1, max_size=30), later=st.lists(SMALL_KEYS, min_size=30, max_size=30)
)
def test_running_jobs_are_sorted_anew_when_their_keys_change(keys: list[int], later: list[int]) -> None:
    n = len(keys)
    running = new_running(n)
    for job, key in enumerate(keys):
        insert(running, 0, job, job, key, -1, 0)
    running.due[:n] = [later[job] for job in running.job[:n]]
    gone = listed(running, 0, n)[0]
    drop(running, 0, n, gone)  # also out of a list that is not in order
    sort(running, 0, n - 1)
    others = [job for job in range(n) if job != gone]
    assert listed(running, 0, n - 1) == sorted(others, key=lambda job: (later[job], job))


def listed(running: RunningList, lo: int, n: int) -> list[int]:
    return [int(running.job[slot]) for slot in running.order[lo : lo + n]]


@kernel
def comes_after(key: I64, a: int, b: int) -> bool:
    """Whether item ``a`` comes after item ``b``, by key and number."""
    return bool(key[a] > key[b] or (key[a] == key[b] and a > b))


@kernel
def sort_by_key(items: I64, first: int, n: int, key: I64) -> None:
    """Sort a part of an array of items by their keys."""
    heap_sort(items, first, n, comes_after, key)


@given(keys=st.lists(SMALL_KEYS, max_size=40), data=st.data())
def test_heap_sort_sorts_a_part_by_any_order_and_leaves_the_rest(
    keys: list[int], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(keys)))
    n = data.draw(st.integers(0, len(keys) - first))
    items = np.arange(len(keys))
    sort_by_key(items, first, n, np.array(keys, np.int64))
    part = sorted(range(first, first + n), key=lambda i: (keys[i], i))
    assert items.tolist() == [*range(first), *part, *range(first + n, len(keys))]


N_CALENDAR = 6
CALENDAR_STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, N_CALENDAR - 1), st.integers(0, 5) | st.just(NEVER)), max_size=40
)
"""Whether the job is scheduled (else unscheduled), the job, the time."""


def test_three_jobs_move_and_leave() -> None:
    calendar, times = new_calendar(3), np.full(3, NEVER)
    assert next_time(calendar, times) == NEVER
    assert not is_due(calendar, times, NEVER)  # empty: nothing is due, not even never
    for job, time in ((2, 5), (0, 5), (1, 3)):
        schedule(calendar, times, job, time)
    assert (next_time(calendar, times), calendar.heap[0]) == (3, 1)
    schedule(calendar, times, 1, 7)  # moved behind both, of which job 0 is the first
    assert (next_time(calendar, times), calendar.heap[0]) == (5, 0)
    assert [is_due(calendar, times, now) for now in (4, 5, 6)] == [False, True, False]
    unschedule(calendar, times, 0)
    assert (next_time(calendar, times), calendar.heap[0]) == (5, 2)
    assert times.tolist() == [5, 7, 5]  # the time of a job that was removed stays


@settings(max_examples=instances(300, 50))
@given(steps=CALENDAR_STEPS)
def test_a_calendar_is_a_list_sorted_by_time_and_job(steps: list[tuple[bool, int, int]]) -> None:
    calendar, times = new_calendar(N_CALENDAR), np.full(N_CALENDAR, NEVER)
    expected: dict[int, int] = {}
    for scheduled, job, time in steps:
        if scheduled:
            schedule(calendar, times, job, time)
            expected[job] = time
        elif job in expected:
            unschedule(calendar, times, job)
            del expected[job]
        first = min(expected.values(), default=NEVER)
        assert next_time(calendar, times) == first
        assert is_due(calendar, times, first) == (len(expected) > 0)
        assert not is_due(calendar, times, first - 1)
    drained = []
    while calendar.size[0] > 0:
        drained.append(int(calendar.heap[0]))
        unschedule(calendar, times, drained[-1])
    assert drained == sorted(expected, key=lambda job: (expected[job], job))
    assert (calendar.position == -1).all()
