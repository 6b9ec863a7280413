"""Progress of rows: work is linear in time, and a served row runs while its job has a parameter server."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.chunked.commands import add_rows
from ray_sim.kernels.chunked.queue_state import (
    CALENDAR,
    PAUSE,
    PREEMPT,
    PS_CHANGED,
    RUN,
    RUNNING,
    SERVED,
    Queues,
)
from ray_sim.kernels.chunked.row_progress import follow_ps, halt, loads_at, note_ps_change, preempt, run
from ray_sim.kernels.chunked.worker_queues import end_upload, serve
from tests.kernels.by_hand import SEEDS, ints
from tests.kernels.chunked.sites import Chunk, commanded, reported, site
from tests.proofs import instances


def served(*chunks: Chunk, cost: int = 0, ps: bool = False) -> Queues:
    """Each chunk has a worker of its own since 0, and none runs."""
    q = site(len(chunks), cost=cost, ps=ps)
    add_rows(q, -1, commanded([chunk._replace(worker=i, unit=i) for i, chunk in enumerate(chunks)]))
    for row in range(len(chunks)):
        end_upload(q, row)
        serve(q, row, 0)
    return q


def test_a_row_of_10_that_runs_for_4_has_6_left_and_repeats_3_when_preempted() -> None:
    q = served(Chunk(left=10), Chunk(left=7), cost=3)
    run(q, 0, 2)
    assert (q.phase[0], q.finish[0], q.calendar[: q.size[CALENDAR]].tolist()) == (RUNNING, 12, [0])
    loads = ints([0, 0])
    loads_at(q, 5, loads)
    assert (loads.tolist(), q.load.tolist()) == ([7, 7], [10, 7])  # worker 1 does not run
    preempt(q, 0, 6)
    assert reported(q) == [(PREEMPT, 0, 0, 0, 6)]  # repeated work is no training
    assert (q.left[0], q.owed[0], q.load[0], q.phase[0]) == (9, 3, 9, SERVED)
    run(q, 0, 20)
    halt(q, 0, 22)
    assert (q.left[0], q.owed[0], q.size[CALENDAR]) == (7, 1, 0)
    run(q, 0, 30)
    halt(q, 0, 35)
    assert (q.left[0], q.owed[0], q.load[0]) == (2, 0, 2)  # what is owed comes first, and never falls below 0


def test_rows_follow_the_parameter_server_of_their_job() -> None:
    q = served(Chunk(job=0, left=9), Chunk(job=1, left=9), Chunk(job=1, left=9))
    q.holds_ps[1] = True
    follow_ps(q, 1)  # all are newly served
    assert reported(q) == [(RUN, 1, 1, 1, 9), (RUN, 1, 2, 2, 9)]
    q.holds_ps[:2] = [True, False]
    for job in (1, 0, 1):
        note_ps_change(q, job)
    assert q.ps_changed[: q.size[PS_CHANGED]].tolist() == [1, 0]  # each job once
    follow_ps(q, 3)
    assert sorted(reported(q)) == [(RUN, 0, 0, 0, 9), (PAUSE, 1, 1, 1, 7), (PAUSE, 1, 2, 2, 7)]
    assert (q.size[PS_CHANGED], q.is_ps_changed.tolist()) == (0, [False] * 3)
    follow_ps(q, 4)
    assert reported(q) == []


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_work_left_is_what_was_sent_and_repeated_minus_the_time_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = int(rng.integers(4))
    q = served(Chunk(left=100), cost=cost)
    left, owed, now = 100, 0, 0
    for _ in range(8):
        now += int(rng.integers(5))
        run(q, 0, now)
        assert q.finish[0] == now + left
        lasts = int(rng.integers(6))
        now += lasts
        loads = ints([0])
        loads_at(q, now, loads)
        left, owed = left - lasts, max(0, owed - lasts)
        assert loads[0] == left
        if rng.integers(2):
            preempt(q, 0, now)
            left, owed = left + cost, owed + cost
        else:
            halt(q, 0, now)
        assert (q.left[0], q.owed[0], q.load[0]) == (left, owed, left)
