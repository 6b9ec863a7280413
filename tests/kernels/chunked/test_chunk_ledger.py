"""Ledger of chunked jobs: its numbers are those of counting the chunks anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.chunked.chunk_ledger import Chunked, book_events, new_chunked, note_stall, rest
from ray_sim.kernels.chunked.queue_state import COMPLETE, DISPLACE, LOST, PAUSE, PREEMPT, RUN, SERVE
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVENT_COLUMNS,
    FINISH,
    I64,
    LOSE,
    NEVER,
    RUNNING,
    START,
    STOP,
    WAITING,
    Ledger,
    Recorder,
    new_ledger,
    new_recorder,
)
from tests.kernels.by_hand import SEEDS, ints
from tests.proofs import instances

WORKER_SERVER = ints([0, 0, 1])
ON_DEMAND = np.array([False, False, True])
UPLOADED, SERVED, RUNS, DONE = range(4)
NEXT = {
    UPLOADED: {SERVE: SERVED, LOST: UPLOADED},
    SERVED: {RUN: RUNS, DISPLACE: UPLOADED},
    RUNS: {PAUSE: SERVED, PREEMPT: UPLOADED, COMPLETE: DONE},
    DONE: {},
}
"""State of a chunk after each event that may follow."""


class Jobs(NamedTuple):
    """Waiting jobs and their books."""

    chunked: Chunked
    ledger: Ledger
    counts: I64
    used: I64
    record: Recorder

    @classmethod
    def of(cls, chunks: list[int]) -> Jobs:
        n = len(chunks)
        jobs = cls(
            new_chunked(ints(chunks)),
            new_ledger(ints(chunks)),
            ints([n, 0]),
            ints([0]),
            new_recorder(500, 1, 1),
        )
        jobs.ledger.status[:] = WAITING
        jobs.chunked.holds_ps[:] = True
        return jobs

    def book(self, now: int, *events: tuple[int, int, int, int]) -> tuple[list[int], bool]:
        """Book (event, job, unit, worker); the jobs completed, and whether others are active."""
        finished, rows = np.empty(len(self.ledger.status), np.int64), [(*event, 0) for event in events]
        n, changed = book_events(
            now,
            ints(rows).reshape(-1, EVENT_COLUMNS),
            WORKER_SERVER,
            ON_DEMAND,
            *self[:4],
            self.record,
            finished,
        )
        return finished[:n].tolist(), changed


def test_a_job_of_two_chunks_from_its_first_worker_to_its_end() -> None:
    jobs = Jobs.of([2])
    chunked, ledger = jobs.chunked, jobs.ledger
    assert jobs.book(3, (SERVE, 0, 0, 0), (RUN, 0, 0, 0)) == ([], True)
    assert jobs.book(5, (SERVE, 0, 1, 2), (RUN, 0, 1, 2)) == ([], False)  # active already
    assert [int(x[0]) for x in (chunked.served, chunked.in_slots, chunked.running, jobs.used)] == [2, 1, 2, 1]
    assert jobs.book(9, (PREEMPT, 0, 0, 0)) == ([], False)
    assert jobs.book(10, (COMPLETE, 0, 1, 2)) == ([], True)
    assert (ledger.status[0], ledger.ran[0], ledger.preemptions[0], chunked.left[0]) == (WAITING, 7, 1, 1)
    jobs.book(20, (SERVE, 0, 0, 1), (RUN, 0, 0, 1))
    assert jobs.book(24, (COMPLETE, 0, 0, 1)) == ([0], True)
    assert (ledger.status[0], ledger.end[0], ledger.first_start[0], ledger.ran[0]) == (COMPLETED, 24, 3, 11)
    assert (ledger.held[0], jobs.used[0], jobs.counts.tolist()) == (11, 0, [0, 0])
    assert jobs.record.kind[:7].tolist() == [START, START, STOP, FINISH, START, FINISH, FINISH]
    assert jobs.record.server[:7].tolist() == [0, 1, 0, 1, 0, 0, -1]


def test_a_job_stalls_from_its_first_worker_to_its_parameter_server() -> None:
    jobs = Jobs.of([1])
    jobs.chunked.holds_ps[0] = False
    jobs.book(4, (SERVE, 0, 0, 0))
    assert jobs.chunked.stalled_since[0] == 4
    for now, holds, since, stalled in ((9, True, NEVER, 5), (9, False, 9, 5), (12, False, 9, 5)):
        jobs.chunked.holds_ps[0] = holds
        note_stall(jobs.chunked, 0, now)
        assert (jobs.chunked.stalled_since[0], jobs.chunked.stalled[0]) == (since, stalled)
    jobs.book(
        15, (DISPLACE, 0, 0, 0), (SERVE, 0, 0, 1)
    )  # another worker at the same instant: active all along
    assert jobs.chunked.stalled_since[0] == 9
    jobs.book(16, (DISPLACE, 0, 0, 1), (LOST, 0, 0, 1))
    assert (jobs.chunked.stalled_since[0], jobs.chunked.stalled[0]) == (NEVER, 5 + 7)
    assert (jobs.chunked.undispatched[0], jobs.record.kind[0]) == (1 + 1, LOSE)
    rest(jobs.ledger, jobs.counts, 0, 20)  # no effect on a job that does not run
    assert jobs.counts.tolist() == [1, 0]


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_the_numbers_of_jobs_are_those_of_their_chunks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    each, n_jobs = 3, 3
    jobs = Jobs.of([each] * n_jobs)
    state, on = np.full((n_jobs, each), UPLOADED), np.zeros((n_jobs, each), np.int64)
    ran, lost, complete = np.zeros(n_jobs, np.int64), np.zeros(n_jobs, np.int64), np.zeros(n_jobs, np.bool_)
    for now in range(12):
        events, active = [], ((state == SERVED) | (state == RUNS)).any(axis=1)
        ran += (state == RUNS).any(axis=1)  # from the instant before to this one
        for job in np.flatnonzero(rng.integers(0, 2, n_jobs)).tolist():  # events of one job are adjacent
            for unit in rng.integers(0, each, 4).tolist():
                ways = NEXT[int(state[job, unit])]
                if ways:
                    event = list(ways)[int(rng.integers(len(ways)))]
                    on[job, unit] = rng.integers(3) if event == SERVE else on[job, unit]
                    events.append((event, job, unit, int(on[job, unit])))
                    state[job, unit] = ways[event]
                    lost[job] += event == LOST
        served, runs = (state == SERVED) | (state == RUNS), state == RUNS
        done = (state == DONE).all(axis=1)
        finished, changed = jobs.book(now + 1, *events)
        assert finished == np.flatnonzero(done & ~complete).tolist()
        assert changed == (active != served.any(axis=1)).any()
        complete = done
        ran_so_far = jobs.ledger.ran + np.where(runs.any(axis=1), now + 1 - jobs.ledger.anchor, 0)
        assert ran_so_far.tolist() == ran.tolist()
        for found, expected in (
            (jobs.chunked.served, served.sum(axis=1)),
            (jobs.chunked.in_slots, (served & ~ON_DEMAND[on]).sum(axis=1)),
            (jobs.chunked.running, runs.sum(axis=1)),
            (jobs.chunked.active, served.any(axis=1)),
            (jobs.chunked.left, (state != DONE).sum(axis=1)),
            (jobs.chunked.undispatched, each + lost),
            (jobs.ledger.status, np.where(done, COMPLETED, np.where(runs.any(axis=1), RUNNING, WAITING))),
            (jobs.counts, [(~done & ~runs.any(axis=1)).sum(), runs.any(axis=1).sum()]),
            (jobs.used, [(runs & ~ON_DEMAND[on]).sum()]),
        ):
            assert np.array_equal(found, expected)
