"""The ledger, the placements, the record and lost servers, kernel by kernel, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core import feasibility, job_transitions, outages, progress, record
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    FINISH,
    LOSE,
    NEVER,
    RUNNING,
    SERVER_DOWN,
    SERVER_UP,
    START,
    WAITING,
    WORKER,
    new_calendar,
    new_ledger,
    new_pool,
    new_recorder,
)
from ray_sim.kernels.core.arrays import Recorder as Record
from tests.worlds import Job, changes_of, world_of

WORLD = world_of([Job(0, 2, 10), Job(0, 1, 10), Job(0, 4, 10)], [4, 2])
SHOP = WORLD.arrays
ALL_FREE = [[4000], [2000]]


class Run:
    """The state that the kernels below work on: three waiting jobs of 2, 1 and 4 GPUs, nothing held."""

    def __init__(self, work_us: tuple[int, ...] = (10, 10, 10), checkpoint_us: int = 0) -> None:
        self.ledger = new_ledger(np.array(work_us), outages=True, checkpoint_us=checkpoint_us)
        self.ledger.status[:] = WAITING
        self.pool = new_pool(3, 6, SHOP.capacity, WORLD.there)
        self.calendar = new_calendar(3)
        self.used = np.zeros(1, np.int64)
        self.counts = np.array([3, 0])
        self.record = new_recorder(50, 5, 1)

    def give(self, now: int, *rows: tuple[int, list[tuple[int, int, int]]], restart_us: int = 0) -> list[int]:
        """Commit placements at rate 1; returns the restart pauses."""
        changes, pause = changes_of(rows), np.empty(len(rows), np.int64)
        job_transitions.commit_placements(
            now, SHOP, self.ledger, self.pool, self.calendar, self.used, self.record, changes, pause,
            restart_us, self.counts,
        )  # fmt: skip
        for (job, held), pause_us in zip(rows, pause, strict=True):
            if held:
                progress.set_rate(self.ledger, self.calendar, job, now, 1.0, int(pause_us))
        return [int(each) for each in pause]

    def finish(self, now: int) -> list[int]:
        """Jobs whose work is done now."""
        finished = np.empty(3, np.int64)
        n = job_transitions.finish_due(
            now, SHOP, self.ledger, self.pool, self.calendar, self.used, self.record, self.counts, finished
        )
        return [int(job) for job in finished[:n]]

    def lose(self, now: int, server: int) -> list[int]:
        """Jobs that lose their servers with this one."""
        lost = np.empty(3, np.int64)
        n = outages.lose_server(
            now,
            server,
            SHOP,
            self.ledger,
            self.pool,
            self.calendar,
            self.used,
            self.counts,
            self.record,
            lost,
        )
        return [int(job) for job in lost[:n]]


def events(of: Record) -> list[tuple[int, int, int, int]]:
    """(time, kind, job, server) of each event."""
    n = int(of.size[0])
    return [(int(of.time[i]), int(of.kind[i]), int(of.job[i]), int(of.server[i])) for i in range(n)]


@given(
    work=st.integers(1, 10**12),
    steps=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])), max_size=8),
)
def test_work_left_and_finish_are_those_of_exact_arithmetic(
    work: int, steps: list[tuple[int, float]]
) -> None:
    """Rates that are powers of two make every product exact in binary."""
    run = Run((work, 10, 10))
    run.give(0, (0, [(0, WORKER, 2)]))
    now, rate, left = 0, Fraction(1), Fraction(work)
    for span, new_rate in steps:
        if rate and left <= rate * span:
            break  # it ends before
        now, left = now + span, left - rate * span
        progress.set_rate(run.ledger, run.calendar, 0, now, new_rate, 0)
        rate = Fraction(new_rate)
        assert progress.work_left(run.ledger, 0, now) == left
        assert progress.executed(run.ledger, 0, now) == now
        expected = now + ceil(left / rate) if rate else NEVER
        assert run.ledger.finish[0] == expected
        assert run.calendar.heap[0] == 0


def test_a_job_ends_when_its_work_is_done_and_gives_back_what_it_held() -> None:
    run = Run((7, 10, 10))
    assert run.give(3, (0, [(0, WORKER, 2)]), (1, [(1, WORKER, 1)])) == [0, 0]
    assert (run.pool.free.tolist(), run.used.tolist()) == ([[2000], [1000]], [3000])
    assert run.counts.tolist() == [1, 2]
    assert run.finish(9) == []
    assert run.finish(3 + 7) == [0]
    assert (run.ledger.status[0], run.ledger.end[0], run.ledger.held[0]) == (COMPLETED, 10, 7)
    assert (run.pool.free.tolist(), run.used.tolist()) == ([[4000], [1000]], [1000])
    assert run.counts.tolist() == [1, 1]
    assert events(run.record) == [(3, START, 0, 0), (3, START, 1, 1), (10, FINISH, 0, -1)]


def test_a_restart_pauses_for_its_cost_and_the_first_start_does_not() -> None:
    run = Run()
    assert run.give(0, (0, [(0, WORKER, 2)]), restart_us=5) == [0]
    assert run.give(4, (0, []), restart_us=5) == [0]
    assert run.give(6, (0, [(1, WORKER, 2)]), restart_us=5) == [5]
    # 10 of work, 4 done; a pause until 11, then 6 more.
    assert run.ledger.finish[0] == 11 + 6
    assert progress.work_left(run.ledger, 0, 8) == 6
    assert (run.ledger.preemptions[0], run.ledger.restarts[0]) == (1, 1)


def test_a_lost_server_sets_its_jobs_back_to_their_last_checkpoint() -> None:
    run = Run((100, 100, 100), checkpoint_us=8)
    run.give(0, (0, [(0, WORKER, 2)]), (1, [(1, WORKER, 1)]))
    assert run.lose(21, 0) == [0]
    # 21 done, checkpoints at 8 and 16: 5 lost.
    assert (run.ledger.work_left[0], run.ledger.lost[0]) == (84, 5)
    assert (run.ledger.status[0], run.ledger.status[1]) == (WAITING, RUNNING)
    assert run.pool.free.tolist() == [[0], [1000]]
    outages.regain_server(30, 0, SHOP, run.pool, run.record)
    assert run.pool.free.tolist() == [[4000], [1000]]
    assert events(run.record)[2:] == [(21, SERVER_DOWN, -1, 0), (21, LOSE, 0, 0), (30, SERVER_UP, -1, 0)]


def test_a_full_record_says_that_it_has_no_room() -> None:
    small = new_recorder(3, 1, 1)
    assert record.room_for_instant(small, 3)
    assert not record.room_for_instant(small, 4)
    record.add_event(small, 1, START, 0, 0, WORKER, 1)
    assert not record.room_for_instant(small, 3)
    record.add_line(small, 1, 2, 3, np.array([500]))
    assert not record.room_for_instant(small, 1)
    assert (small.line_waiting[0], small.line_running[0], small.line_used.tolist()) == (2, 3, [[500]])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(0, [(0, WORKER, 2)]), (2, [(0, WORKER, 2), (1, WORKER, 2)])], (feasibility.OK, -1, -1)),
        ([(3, [])], (feasibility.NO_SUCH_JOB, 3, -1)),
        ([(1, [(0, WORKER, 1)]), (0, [(0, WORKER, 2)])], (feasibility.NOT_SORTED, 0, -1)),
        ([(0, [(2, WORKER, 2)])], (feasibility.NO_SUCH_SERVER, 0, 2)),
        ([(0, [(0, 1, 2)])], (feasibility.BAD_ROLE, 0, 0)),
        ([(0, [(0, WORKER, 3)])], (feasibility.BAD_COUNT, 0, 0)),  # of a gang of 2
        ([(0, [(0, WORKER, 1)])], (feasibility.NOT_A_GANG, 0, -1)),
        ([(0, [(1, WORKER, 1), (0, WORKER, 1)])], (feasibility.NOT_SORTED, 0, 0)),
        ([(0, [(1, WORKER, 2)]), (1, [(1, WORKER, 1)])], (feasibility.OVER_CAPACITY, 1, 1)),  # 3 of 2
        ([(0, [])], (feasibility.NOTHING_HELD, 0, -1)),
    ],
)  # fmt: skip
def test_the_first_fault_of_changes_is_found(
    rows: list[tuple[int, list[tuple[int, int, int]]]], fault: tuple[int, int, int]
) -> None:
    run = Run()
    nobody = np.empty(0, np.int64)
    free = np.empty_like(SHOP.capacity)
    assert (
        feasibility.check_changes(SHOP, run.ledger, run.pool, changes_of(rows), nobody, False, free) == fault
    )
    assert run.pool.free.tolist() == ALL_FREE  # a check changes nothing
