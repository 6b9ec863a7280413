"""Commands to chunk queues: what each changes, and that the queues stay consistent after any of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.chunked.commands import add_rows, drop_rows, resume, set_keys, set_ps
from ray_sim.kernels.chunked.instants import advance
from ray_sim.kernels.chunked.queue_state import (
    COMPLETE,
    DISPLACE,
    DONE,
    LOST,
    PAUSE,
    PREEMPT,
    ROWS,
    RUN,
    RUNNING,
    SERVE,
    SERVED,
    ChunkRows,
    Queues,
)
from ray_sim.kernels.core.arrays import NEVER
from tests.kernels.by_hand import SEEDS, ints
from tests.kernels.chunked.sites import (
    Chunk,
    assert_consistent,
    commanded,
    random_chunks,
    reported,
    settle,
    site,
)
from tests.proofs import instances


def flags(n: int, *true: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.isin(np.arange(n), true)


def three_chunks() -> Queues:
    """Chunk 0 of job 0 runs for 10 us; chunks 1 and 2, of jobs 1 and 2, wait behind it."""
    q = site()
    assert add_rows(q, 0, commanded([Chunk(key=i, job=i, unit=i, left=10) for i in range(3)])) == 0
    assert settle(q, 0) == (10, [(SERVE, 0), (RUN, 0)])
    return q


def test_a_dispatch_is_due_at_the_end_of_its_upload() -> None:
    q = site()
    assert add_rows(q, 0, commanded([Chunk(ready=7), Chunk(ready=5, unit=1)])) == 5
    assert (q.load.tolist(), q.rows.tolist(), q.in_upload.tolist()) == ([2], [2], [1])


def test_a_chunk_without_upload_overtakes_in_the_next_call_at_once() -> None:
    q = three_chunks()
    assert add_rows(q, 4, commanded([Chunk(key=-1, unit=3, ready=4, left=2)])) == 4
    assert advance(q, 4) == 6
    assert [event[0] for event in reported(q)] == [PREEMPT, SERVE, RUN]


def test_a_chunk_pauses_while_its_job_has_no_parameter_server() -> None:
    q = three_chunks()
    assert set_ps(q, 4, ints([0]), ints([0])) == 4  # something is due now
    assert settle(q, 4) == (NEVER, [(PAUSE, 0)])
    assert (q.left[0], q.load[0]) == (6, 26)
    assert set_ps(q, 5, ints([0, 1]), ints([0, 1])) == NEVER  # as they were
    assert set_ps(q, 9, ints([0]), ints([1])) == 9
    assert settle(q, 9) == (9 + 6, [(RUN, 0)])


def test_a_smaller_key_overtakes_and_a_larger_one_makes_way() -> None:
    q = three_chunks()
    assert set_keys(q, 3, ints([2]), ints([-1])) == 3
    assert settle(q, 3) == (13, [(PREEMPT, 0), (SERVE, 2), (RUN, 2)])
    assert set_keys(q, 4, ints([2]), ints([1])) == 4  # behind chunk 0, and chunk 1 by its row
    assert settle(q, 4) == (4 + 7, [(PREEMPT, 2), (SERVE, 0), (RUN, 0)])
    assert set_keys(q, 5, ints([1, 2]), ints([9, 9])) == 11
    assert settle(q, 11)[1] == [(COMPLETE, 0), (SERVE, 1), (RUN, 1)]


def test_chunks_of_a_lost_worker_or_a_stopped_job_are_lost_and_those_of_a_job_that_ended_are_not() -> None:
    q = three_chunks()
    drop_rows(q, 4, flags(1), flags(3), flags(3, 0))
    assert settle(q, 4) == (14, [(PAUSE, 0), (DISPLACE, 0), (SERVE, 1), (RUN, 1)])
    drop_rows(q, 6, flags(1, 0), flags(3), flags(3))
    assert settle(q, 6) == (NEVER, [(PAUSE, 1), (DISPLACE, 1), (LOST, 1), (LOST, 2)])
    assert (q.load[0], q.rows[0], q.phase[:3].tolist()) == (0, 0, [DONE] * 3)
    q = three_chunks()
    drop_rows(q, 4, flags(1), flags(3, 0), flags(3))
    assert settle(q, 4) == (14, [(PAUSE, 0), (DISPLACE, 0), (LOST, 0), (SERVE, 1), (RUN, 1)])


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_queues_stay_consistent_and_resume_as_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, cost = 3, 2
    q = site(2, on_demand=1, jobs=jobs, cost=cost)
    now, following = 0, NEVER
    for _ in range(7):
        new = [each._replace(job=int(rng.integers(jobs))) for each in random_chunks(rng, 3, 3)]
        match int(rng.integers(5)):
            case 0 | 1:
                following = add_rows(q, now, commanded([c._replace(ready=now + c.ready) for c in new]))
            case 2:
                following = set_ps(q, now, ints([int(rng.integers(jobs))]), ints([int(rng.integers(2))]))
            case 3:
                chosen = np.flatnonzero(rng.integers(0, 2, jobs))
                following = set_keys(q, now, chosen, rng.integers(-2, 4, len(chosen)))
            case 4:
                gone, stopped, ended = rng.integers(6, size=3).tolist()
                drop_rows(q, now, flags(3, gone), flags(jobs, stopped), flags(jobs, ended))
        following, _ = settle(q, now)
        assert_consistent(q, now)
        while following < now + 6:
            now = following
            following, _ = settle(q, now)
            assert_consistent(q, now)
        now += 6
    live = np.flatnonzero(q.phase[: q.size[ROWS]] != DONE)
    again = site(2, on_demand=1, jobs=jobs, cost=cost)
    set_ps(again, now, np.arange(jobs), q.holds_ps.astype(np.int64))
    columns = (q.worker, q.key, q.job, q.unit, q.ready, q.left, q.overtakes, q.inverse_rate)
    add_rows(again, -1, ChunkRows(*(column[live].astype(np.int64) for column in columns)))
    phase = q.phase[live].astype(np.int64)
    anchor = np.where(phase == RUNNING, q.anchor[live], 0)
    since = np.where(phase >= SERVED, q.since[live], 0)
    assert resume(again, now, phase, anchor, q.owed[live], since) == following
    assert_consistent(again, now)
    for name in ("phase", "left", "owed", "key", "unit"):
        assert getattr(again, name)[: len(live)].tolist() == getattr(q, name)[live].tolist(), name
    while following < NEVER:  # and both go on alike
        now = following
        following, events = settle(q, now)
        assert settle(again, now) == (following, events)
