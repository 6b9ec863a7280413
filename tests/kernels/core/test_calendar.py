"""Calendars: the first job is the one of the smallest (time, job) after any inserts and removals."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.core.arrays import NEVER, new_calendar
from ray_sim.kernels.core.heap import is_due, next_time, schedule, unschedule
from tests.proofs import instances

N_JOBS = 6
STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, N_JOBS - 1), st.integers(0, 5) | st.just(NEVER)), max_size=40
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
@given(steps=STEPS)
def test_a_calendar_is_a_list_sorted_by_time_and_job(steps: list[tuple[bool, int, int]]) -> None:
    calendar, times = new_calendar(N_JOBS), np.full(N_JOBS, NEVER)
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
