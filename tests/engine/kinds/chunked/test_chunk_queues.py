"""The queues of a site alone: room, states that travel, and many chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.kernels.chunked.queue_state import COMPLETE, PAUSE, PREEMPT, RUN, ChunkRows
from ray_sim.model.units import NEVER_US, IntArray
from tests.proofs import instances

WORKERS, JOBS = 4, 3
"""The last worker is a cloud's."""

NO_CHUNKS: IntArray = np.empty((0, 8), dtype=np.int64)


COST = 3
"""Of a preemption."""


def queues() -> ChunkQueues:
    return ChunkQueues(np.arange(WORKERS) == WORKERS - 1, JOBS, COST)


def copy_of(q: ChunkQueues) -> ChunkQueues:
    """Queues that go on from a state."""
    copy = queues()
    copy.restore(q.state())
    return copy


def until(q: ChunkQueues, now: int) -> list[list[int]]:
    """All that happens until ``now``, as [time, event, job, unit, worker, left], as a fleet orders it."""
    happened: list[list[int]] = []
    while q.next_us <= now:
        at = q.next_us
        events = sorted(q.advance(at).tolist(), key=lambda event: (event[1], event[2]))
        happened += [[at, *event] for event in events]
    q.advance(now)
    return happened


Step = tuple[int, IntArray, IntArray, IntArray]
"""When, (k, 2) new keys, (n, 8) chunks, (m, 2) parameter servers."""


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Dispatches of many chunks, so that room must be made, and parameter servers that come and go."""
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    found: list[Step] = []
    dispatched = 0
    for now in sorted(draw(st.lists(st.integers(0, 60), min_size=1, max_size=12))):
        n = draw(st.sampled_from([0, 1, 5, 40]))
        highest = [WORKERS, 5, JOBS, 1, 4, 5, 2, 9]
        chunks = generator.integers(0, highest, (n, len(highest)))
        chunks[:, 3] = dispatched + np.arange(n)
        chunks[:, 4] += now
        dispatched += n
        ps = generator.integers(0, [JOBS, 2], (draw(st.integers(0, 2)), 2))
        jobs = np.flatnonzero(generator.integers(0, 2, JOBS)) if draw(st.booleans()) else np.arange(0)
        keys = np.stack([jobs, generator.integers(-3, 8, len(jobs))], axis=1)
        found.append((now, keys, chunks, ps))
    return [
        *found,
        (10**6, np.empty((0, 2), dtype=np.int64), NO_CHUNKS, np.array([[job, 1] for job in range(JOBS)])),
    ]


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(script=steps())
def test_queues_go_on_alike_from_their_state_and_lose_no_work(script: list[Step]) -> None:
    stays, travels = queues(), queues()
    happened: list[list[int]] = []
    work: dict[int, int] = {}
    for now, keys, chunks, ps in script:
        events = until(stays, now)
        assert until(travels, now) == events
        travels = copy_of(travels)
        for q in (stays, travels):
            q.set_keys(*keys.T)
            q.set_ps(*ps.T)
            q.dispatch(ChunkRows(*chunks.T))
        travels = copy_of(travels)
        happened += events
        work.update({row[3]: row[5] for row in chunks.tolist()})
        loads, rows = stays.loads(now)
        np.testing.assert_array_equal(loads[:-1], travels.loads(now)[0][:-1])
        np.testing.assert_array_equal(rows, travels.loads(now)[1])
    happened += until(stays, 10**8)
    assert stays.next_us == NEVER_US
    assert stays.loads(10**8)[0][:-1].tolist() == [0] * (WORKERS - 1)
    # Each chunk has run for exactly its work and what it owed for preemptions, and was done once.
    ran = dict.fromkeys(work, 0)
    since: dict[int, int] = {}
    done = []
    for at, event, _, unit, *_ in happened:
        if event == RUN:
            since[unit] = at
        elif event in (PAUSE, PREEMPT, COMPLETE):
            ran[unit] += at - since[unit]
        if event == PREEMPT:
            work[unit] += COST
        if event == COMPLETE:
            done.append(unit)
    assert ran == work
    assert sorted(done) == sorted(work)


@pytest.mark.slow
def test_a_thousand_workers_with_a_hundred_chunks_each_finish_them_shortest_first() -> None:
    n_workers, each = 1000, 100
    q = ChunkQueues(np.zeros(n_workers, dtype=np.bool_), 1)
    lengths = np.random.default_rng(0).integers(1, 10**6, (n_workers, each))
    n = n_workers * each
    worker, number = np.repeat(np.arange(n_workers), each), np.arange(n)
    length = lengths.ravel()
    columns = [worker, length, np.zeros(n), number, np.zeros(n), length, np.ones(n), length]
    q.set_ps(np.array([0]), np.array([1]))
    q.dispatch(ChunkRows(*(column.astype(np.int64) for column in columns)))
    finish = {unit: at for at, event, _, unit, *_ in until(q, NEVER_US - 1) if event == COMPLETE}
    # Shortest first on each worker: completions are the running sums of the sorted lengths.
    ended = np.array([finish[unit] for unit in range(n)]).reshape(n_workers, each)
    np.testing.assert_array_equal(np.sort(ended, axis=1), np.cumsum(np.sort(lengths, axis=1), axis=1))
