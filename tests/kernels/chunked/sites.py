"""Chunk queues of a few workers, their invariants, and one worker served by a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.chunked.instants import advance
from ray_sim.kernels.chunked.queue_state import (
    CALENDAR,
    DONE,
    EVENTS,
    QUEUED,
    ROWS,
    RUNNING,
    SERVED,
    UPLOADING,
    UPLOADS,
    ChunkRows,
    Queues,
    new_queues,
)
from ray_sim.kernels.core.arrays import I64

ROOM = 40
"""Rows of a site."""


class Chunk(NamedTuple):
    """A row of `ChunkRows`."""

    worker: int = 0
    key: int = 0
    job: int = 0
    unit: int = 0
    ready: int = 0
    left: int = 1
    overtakes: bool = True
    inverse_rate: int = 1


def site(workers: int = 1, *, on_demand: int = 0, jobs: int = 3, cost: int = 0, ps: bool = True) -> Queues:
    """Empty queues; the workers on demand come last, and all jobs or none hold a parameter server."""
    n = workers + on_demand
    q = new_queues(ROOM, np.arange(n) >= workers, jobs, cost)
    q.base[:], q.room[:], q.holds_ps[:] = ROOM * np.arange(n), ROOM, ps
    return q._replace(queue=np.empty(ROOM * n, np.int64))


def commanded(chunks: Sequence[Chunk]) -> ChunkRows:
    """Rows to dispatch."""
    return ChunkRows(*np.array(chunks, dtype=np.int64).reshape(-1, len(Chunk._fields)).T.copy())


def reported(q: Queues) -> list[tuple[int, ...]]:
    """(event, job, unit, worker, work left) of each event since the last call."""
    rows = [tuple(row) for row in q.event[: q.size[EVENTS]].tolist()]
    q.size[EVENTS] = 0
    return rows


def settle(q: Queues, now: int) -> tuple[int, list[tuple[int, ...]]]:
    """Advance until nothing more is due now; return the time of the next event, and (event, unit) of all."""
    following = advance(q, now)
    while following <= now:
        following = advance(q, now)
    return following, [(event[0], event[2]) for event in reported(q)]


def members(first: int, after: I64) -> list[int]:
    """Rows of a linked list."""
    rows = []
    while first >= 0:
        rows.append(int(first))
        first = int(after[first])
    return rows


def assert_consistent(q: Queues, now: int) -> None:
    """Each row is where its phase says and nowhere else, and sums are those of the rows."""
    phase, worker = q.phase[: q.size[ROWS]], q.worker[: q.size[ROWS]]

    def rows(*of: int) -> list[int]:
        return np.flatnonzero(np.isin(phase, of)).tolist()

    assert sorted(q.uploads[: q.size[UPLOADS]].tolist()) == rows(UPLOADING)
    assert sorted(q.calendar[: q.size[CALENDAR]].tolist()) == rows(RUNNING)
    assert all(q.finish[row] == q.anchor[row] + q.left[row] >= now for row in rows(RUNNING))
    for w in range(len(q.served)):
        waiting = q.queue[q.base[w] : q.base[w] + q.waiting[w]].tolist()
        assert sorted(waiting) == [row for row in rows(QUEUED) if worker[row] == w]
        if waiting:
            assert waiting[0] == min(waiting, key=lambda row: (q.key[row], row))
        live = [row for row in range(len(phase)) if phase[row] != DONE and worker[row] == w]
        assert (q.load[w], q.rows[w]) == (sum(q.left[live]), len(live))
        assert sorted(members(q.in_upload[w], q.after)) == [
            row for row in rows(UPLOADING) if worker[row] == w
        ]
        if not q.on_demand[w]:
            on_it = [row for row in rows(SERVED, RUNNING) if worker[row] == w]
            assert on_it == ([int(q.served[w])] if q.served[w] >= 0 else [])
    for job in range(len(q.first_served)):
        served = [row for row in rows(SERVED, RUNNING) if q.job[row] == job]
        assert sorted(members(q.first_served[job], q.after)) == served


def served_by_loop(chunks: Sequence[Chunk], until: int) -> dict[int, list[int]]:
    """Microseconds in which one worker trains each chunk, by number; the first by (key, number) has it.

    A chunk that has begun loses the worker only to one that overtakes.
    """
    left = [chunk.left for chunk in chunks]
    trained: dict[int, list[int]] = {i: [] for i in range(len(chunks))}
    serving = -1
    for now in range(until):
        there = [i for i, chunk in enumerate(chunks) if chunk.ready <= now and left[i] > 0]
        best = min(there, key=lambda i: (chunks[i].key, i), default=-1)
        if best >= 0 and (serving < 0 or left[serving] == 0 or chunks[best].overtakes):
            serving = best
        if serving >= 0 and left[serving] > 0:
            trained[serving].append(now)
            left[serving] -= 1
    return trained


def random_chunks(
    rng: np.random.Generator, n: int, workers: int = 1, *, overtakes: bool | None = None
) -> list[Chunk]:
    """Chunks 0 to n - 1 of job 0; some overtake unless said."""
    return [
        Chunk(
            worker=int(rng.integers(workers)),
            key=int(rng.integers(4)),
            unit=unit,
            ready=int(rng.integers(12)),
            left=int(rng.integers(1, 7)),
            overtakes=bool(rng.integers(2)) if overtakes is None else overtakes,
            inverse_rate=int(rng.integers(1, 9)),
        )
        for unit in range(n)
    ]
