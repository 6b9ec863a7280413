"""Steps of a run in the general loop: jobs and quanta are conserved whatever happens in whatever order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.core import run_steps
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVICTED,
    NEVER,
    REJECTED,
    RUNNING,
    WAITING,
    WORKER,
    Recorder,
    WorldArrays,
    new_calendar,
    new_ledger,
    new_pool,
    new_recorder,
)
from ray_sim.kernels.core.feasibility import OK, OVER_CAPACITY
from ray_sim.kernels.core.run_steps import Books
from ray_sim.kernels.handle import handle
from tests.kernels.by_hand import SEEDS, Rows, all_there, ints, quanta_of, rows_of, world_arrays
from tests.proofs import instances
from tests.worlds import changes_of

RESTART_US = 3


class Run(NamedTuple):
    """The arrays of a run, and their handles, which steps take in its loop."""

    books: Books
    steps: Books
    writer: Recorder

    @classmethod
    def of(cls, arrays: WorldArrays, work_us: list[int], verdict: list[int] | None = None) -> Run:
        """A run that has not begun; ``verdict`` is given per job."""
        n_jobs, by_class = len(work_us), np.zeros(len(arrays.class_job), np.int64)
        by_class[arrays.job_class] = [0] * n_jobs if verdict is None else verdict
        books = Books(
            arrays=arrays,
            ledger=new_ledger(ints(work_us), outages=True),
            pool=new_pool(n_jobs, n_jobs * len(arrays.capacity), arrays.capacity, all_there(arrays)),
            calendar=new_calendar(n_jobs),
            used=np.zeros(1, np.int64),
            counts=np.zeros(2, np.int64),
            affected=np.empty(n_jobs, np.int64),
            verdict=by_class,
        )
        return cls(books, handle(books), handle(new_recorder(200, 1, 1)))

    def start(self, now: int, job: int, rows: Rows, rate: float = 1.0) -> None:
        """A waiting job starts."""
        pause = np.empty(1, np.int64)
        run_steps.place_jobs(now, self.steps, self.writer, changes_of([(job, rows)]), pause, RESTART_US)
        assert pause[0] == (RESTART_US if self.books.ledger.restarts[job] else 0)
        run_steps.rate_jobs(now, self.steps, ints([job]), np.array([rate]), pause)


def affected(run: Run, n: int) -> list[int]:
    return [int(job) for job in run.books.affected[:n]]


def test_three_jobs_from_submission_to_their_ends() -> None:
    # Work of 8, 8 and 3 us on servers of 2 and 1 GPUs; jobs come at 0, 0 and 4; job 1 can never fit.
    arrays = world_arrays([[2], [1]], [[[1]]] * 3, [[2], [9], [1]], submit=[0, 0, 4])
    run = Run.of(arrays, [8, 8, 3], [0, 1, 0])
    books = run.books
    assert run_steps.next_job_event(run.steps, 0) == 0
    assert run_steps.submit_jobs(0, 0, run.steps, run.writer) == (2, 1)
    assert (affected(run, 1), books.counts.tolist(), books.ledger.status[1]) == ([0], [1, 0], REJECTED)
    run.start(0, 0, [(0, WORKER, 2)], rate=0.5)
    assert run_steps.next_job_event(run.steps, 2) == 4  # submission at 4, completion at 8 / 0.5 = 16
    assert run_steps.next_job_event(run.steps, 3) == 16
    assert run_steps.submit_jobs(4, 2, run.steps, run.writer) == (3, 1)
    free = np.empty_like(arrays.capacity)
    for server, fault in ((0, (OVER_CAPACITY, 2, 0)), (1, (OK, -1, -1))):
        changes = changes_of([(2, [(server, WORKER, 1)])])
        assert run_steps.check_placements(run.steps, changes, ints([]), False, free) == fault
    assert free.tolist() == [[0], [0]]
    run.start(4, 2, [(1, WORKER, 1)])
    assert (run_steps.next_job_event(run.steps, 3), books.used[0]) == (7, 3)
    assert run_steps.complete_jobs(7, run.steps, run.writer) == 1
    assert (affected(run, 1), books.pool.free.tolist(), books.counts.tolist()) == ([2], [[0], [1]], [0, 1])
    assert (
        run_steps.remove_server(10, 0, run.steps, run.writer) == 1
    )  # job 0 has done 10 x 0.5 and saved all of it
    assert (affected(run, 1), books.ledger.work_left[0], books.counts.tolist()) == ([0], 3.0, [1, 0])
    run_steps.evict_job(11, run.steps, run.writer, 0)
    assert (books.ledger.status[0], books.ledger.end[0], books.counts.tolist()) == (EVICTED, 11, [0, 0])
    assert run_steps.next_job_event(run.steps, 3) == NEVER


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
    assert run_steps.next_job_event(run.steps, len(status)) == finish


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
        n = run_steps.complete_jobs(now, run.steps, run.writer)
        done = np.flatnonzero(books.ledger.status == COMPLETED)
        assert affected(run, n) == [job for job in done.tolist() if books.ledger.end[job] == now]
        if rng.random() < 0.1 and there.count(True) > 1:
            server = int(rng.choice(np.flatnonzero(there)))
            on_it = [job for job in range(n_jobs) if server in {s for s, *_ in rows_of(books.pool, job)}]
            assert affected(run, run_steps.remove_server(now, server, run.steps, run.writer)) == on_it
            there[server] = False
        last, n = run_steps.submit_jobs(now, first, run.steps, run.writer)
        assert affected(run, n) == list(range(first, last)) == np.flatnonzero(submit == now).tolist()
        first = last
        for job in np.flatnonzero(books.ledger.status == WAITING).tolist():
            room = np.flatnonzero(books.pool.free[:, 0] >= gang[job]).tolist()
            if room and rng.random() < 0.7:
                run.start(now, job, [(int(rng.choice(room)), WORKER, int(gang[job]))])
            elif rng.random() < 0.1:
                run_steps.evict_job(now, run.steps, run.writer, job)
        assert_conserved(run, there)
        ended = int(np.isin(books.ledger.status, [COMPLETED, EVICTED]).sum())
        now += 1
    done = books.ledger.status == COMPLETED
    # No work is lost: a lost server sets a job back to what it had done just then.
    assert books.ledger.ran[done].tolist() == work[done].tolist()
