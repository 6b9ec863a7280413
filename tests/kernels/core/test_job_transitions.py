"""Jobs from submission to their ends: jobs and quanta are conserved whatever happens in whatever order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.core import feasibility, outages, record
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVICTED,
    FINISH,
    LOSE,
    NEVER,
    REJECTED,
    RUNNING,
    SERVER_DOWN,
    SERVER_UP,
    START,
    SUBMIT,
    WAITING,
    WORKER,
    new_recorder,
)
from tests.kernels.by_hand import SEEDS, Run, ints, quanta_of, rows_of, world_arrays
from tests.proofs import instances
from tests.worlds import changes_of

SHOP = world_arrays([[4], [2]], [[[1]]] * 3, [[2], [1], [4]])


def shop(*work_us: int, checkpoint_us: int = 0) -> Run:
    """Three waiting jobs of 2, 1 and 4 GPUs on servers of 4 and 2, nothing held."""
    run = Run.of(SHOP, work_us, checkpoint_us=checkpoint_us)
    assert run.submit(0, 0) == (3, [0, 1, 2])
    assert run.events() == [(0, SUBMIT, job, -1) for job in range(3)]
    return run


def test_three_jobs_from_submission_to_their_ends() -> None:
    # Work of 8, 8 and 3 us on servers of 2 and 1 GPUs; jobs come at 0, 0 and 4; job 1 can never fit.
    arrays = world_arrays([[2], [1]], [[[1]]] * 3, [[2], [9], [1]], submit=[0, 0, 4])
    run = Run.of(arrays, [8, 8, 3], verdict=[0, 1, 0])
    books = run.books
    assert run.next_event(0) == 0
    assert run.submit(0, 0) == (2, [0])
    assert (books.counts.tolist(), books.ledger.status[1]) == ([1, 0], REJECTED)
    run.place(0, (0, [(0, WORKER, 2)]), rate=0.5)
    assert run.next_event(2) == 4  # submission at 4, completion at 8 / 0.5 = 16
    assert run.next_event(3) == 16
    assert run.submit(4, 2) == (3, [2])
    free = np.empty_like(arrays.capacity)
    for server, fault in ((0, (feasibility.OVER_CAPACITY, 2, 0)), (1, (feasibility.OK, -1, -1))):
        changes = changes_of([(2, [(server, WORKER, 1)])])
        assert feasibility.check_changes(run.steps, changes, ints([]), False, 1, free, None) == fault
    assert free.tolist() == [[0], [0]]
    run.place(4, (2, [(1, WORKER, 1)]))
    assert (run.next_event(3), books.used[0]) == (7, 3)
    assert run.finish(7) == [2]
    assert (books.pool.free.tolist(), books.counts.tolist()) == ([[0], [1]], [0, 1])
    assert run.lose(10, 0) == [0]  # it has done 10 x 0.5 and saved all of it
    assert (books.ledger.work_left[0], books.counts.tolist()) == (3.0, [1, 0])
    run.evict(11, 0)
    assert (books.ledger.status[0], books.ledger.end[0], books.counts.tolist()) == (EVICTED, 11, [0, 0])
    assert run.next_event(3) == NEVER


def test_a_job_ends_when_its_work_is_done_and_gives_back_what_it_held() -> None:
    run = shop(7, 10, 10)
    books = run.books
    assert run.place(3, (0, [(0, WORKER, 2)]), (1, [(1, WORKER, 1)])) == [0, 0]
    assert (books.pool.free.tolist(), books.used.tolist()) == ([[2], [1]], [3])
    assert books.counts.tolist() == [1, 2]
    assert run.finish(9) == []
    assert run.finish(3 + 7) == [0]
    assert (books.ledger.status[0], books.ledger.end[0], books.ledger.held[0]) == (COMPLETED, 10, 7)
    assert (books.pool.free.tolist(), books.used.tolist()) == ([[4], [1]], [1])
    assert books.counts.tolist() == [1, 1]
    assert run.events()[3:] == [(3, START, 0, 0), (3, START, 1, 1), (10, FINISH, 0, -1)]


def test_a_restart_pauses_for_its_cost_and_the_first_start_does_not() -> None:
    run = shop(10, 10, 10)
    assert run.place(0, (0, [(0, WORKER, 2)]), restart_us=5) == [0]
    assert run.place(4, (0, []), restart_us=5) == [0]
    assert run.place(6, (0, [(1, WORKER, 2)]), restart_us=5) == [5]
    # 10 of work, 4 done; a pause until 11, then 6 more.
    ledger = run.books.ledger
    assert ledger.finish[0] == 11 + 6
    assert (ledger.work_left[0], ledger.anchor[0]) == (6, 11)
    assert (ledger.preemptions[0], ledger.restarts[0]) == (1, 1)


def test_a_lost_server_sets_its_jobs_back_to_their_last_checkpoint() -> None:
    run = shop(100, 100, 100, checkpoint_us=8)
    run.place(0, (0, [(0, WORKER, 2)]), (1, [(1, WORKER, 1)]))
    ledger, pool = run.books.ledger, run.books.pool
    assert run.lose(21, 0) == [0]
    # 21 done, checkpoints at 8 and 16: 5 lost.
    assert (ledger.work_left[0], ledger.lost[0]) == (84, 5)
    assert (ledger.status[0], ledger.status[1]) == (WAITING, RUNNING)
    assert pool.free.tolist() == [[0], [1]]
    outages.regain_server(30, 0, SHOP, pool, run.record)
    assert pool.free.tolist() == [[4], [1]]
    assert run.events()[5:] == [(21, SERVER_DOWN, -1, 0), (21, LOSE, 0, 0), (30, SERVER_UP, -1, 0)]


def test_a_full_record_says_that_it_has_no_room() -> None:
    small = new_recorder(3, 1, 1)
    assert record.room_for_instant(small, 3)
    assert not record.room_for_instant(small, 4)
    record.add_event(small, 1, START, 0, 0, WORKER, 1)
    assert not record.room_for_instant(small, 3)
    record.add_line(small, 1, 2, 3, np.array([500]))
    assert not record.room_for_instant(small, 1)
    assert (small.line_waiting[0], small.line_running[0], small.line_used.tolist()) == (2, 3, [[500]])


def assert_conserved(run: Run, there: list[bool]) -> None:
    """Counts, quanta and the next completion follow from the jobs and their rows alone."""
    books = run.books
    status, ledger = books.ledger.status, books.ledger
    assert books.counts.tolist() == [(status == WAITING).sum(), (status == RUNNING).sum()]
    placements = {job: rows_of(books.pool, job) for job in range(len(status))}
    assert [job for job, rows in placements.items() if rows] == np.flatnonzero(status == RUNNING).tolist()
    held = quanta_of(books.arrays, placements)
    np.testing.assert_array_equal(books.pool.free, books.arrays.capacity * np.c_[there] - held)
    assert books.used.tolist() == held.sum(axis=0).tolist()
    finish = min(ledger.finish[status == RUNNING].tolist(), default=NEVER)
    assert run.next_event(len(status)) == finish


@settings(max_examples=instances(50))
@given(seed=SEEDS)
def test_jobs_and_quanta_are_conserved_and_work_is_done_once(seed: int) -> None:
    """Every job runs alone on servers with room, at rate 1; servers go one by one and jobs start again."""
    rng = np.random.default_rng(seed)
    n_jobs, n_servers = 6, 3
    submit, work = np.sort(rng.integers(0, 9, n_jobs)), rng.integers(1, 9, n_jobs)
    gang = rng.integers(1, 4, n_jobs)
    arrays = world_arrays([[3]] * n_servers, [[[1]]] * n_jobs, gang[:, None], submit=submit.tolist())
    run, there = Run.of(arrays, work.tolist()), [True] * n_servers
    books = run.books
    ended, first, now = 0, 0, 0
    while now < 60 and ended < n_jobs:
        finished = run.finish(now)
        done = np.flatnonzero(books.ledger.status == COMPLETED)
        assert finished == [job for job in done.tolist() if books.ledger.end[job] == now]
        if rng.random() < 0.1 and there.count(True) > 1:
            server = int(rng.choice(np.flatnonzero(there)))
            on_it = [job for job in range(n_jobs) if server in {s for s, *_ in rows_of(books.pool, job)}]
            assert run.lose(now, server) == on_it
            there[server] = False
        last, submitted = run.submit(now, first)
        assert submitted == list(range(first, last)) == np.flatnonzero(submit == now).tolist()
        first = last
        for job in np.flatnonzero(books.ledger.status == WAITING).tolist():
            room = np.flatnonzero(books.pool.free[:, 0] >= gang[job]).tolist()
            if room and rng.random() < 0.7:
                restarted = books.ledger.first_start[job] < NEVER
                rows = [(int(rng.choice(room)), WORKER, int(gang[job]))]
                assert run.place(now, (job, rows), restart_us=3) == [3 if restarted else 0]
            elif rng.random() < 0.1:
                run.evict(now, job)
        assert_conserved(run, there)
        ended = int(np.isin(books.ledger.status, [COMPLETED, EVICTED]).sum())
        now += 1
    done = books.ledger.status == COMPLETED
    # No work is lost: a lost server sets a job back to what it had done just then.
    assert books.ledger.ran[done].tolist() == work[done].tolist()
