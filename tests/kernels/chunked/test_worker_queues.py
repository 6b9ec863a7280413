"""Steps of a row on its worker: linked lists and queues against Python lists, and who gets the worker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ray_sim.kernels.chunked.commands import add_rows
from ray_sim.kernels.chunked.queue_state import MARKED, NEWLY_SERVED, QUEUED, SERVED, UPLOADS
from ray_sim.kernels.chunked.worker_queues import (
    dequeue,
    end_upload,
    enqueue,
    gets_worker,
    leave_worker,
    link,
    mark_due,
    mark_worker,
    serve,
    unlink,
)
from tests.kernels.by_hand import SEEDS, ints
from tests.kernels.chunked.sites import Chunk, commanded, members, random_chunks, site
from tests.proofs import instances


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_linked_lists_are_lists_with_the_newest_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, first = site(), ints([-1, -1])
    expected: list[list[int]] = [[], []]
    for _ in range(30):
        row = int(rng.integers(8))
        of = next((i for i, rows in enumerate(expected) if row in rows), -1)
        if of < 0:
            of = int(rng.integers(2))
            link(q, first, of, row)
            expected[of].insert(0, row)
        else:
            unlink(q, first, of, row)
            expected[of].remove(row)
        assert [members(head, q.after) for head in first] == expected


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_a_queue_yields_rows_by_key_and_row(seed: int) -> None:
    q = site(2)
    chunks = random_chunks(np.random.default_rng(seed), 12, 2)
    add_rows(q, -1, commanded(chunks))
    for row in range(len(chunks)):
        end_upload(q, row)
        enqueue(q, row)
    assert (q.size[UPLOADS], q.in_upload.tolist()) == (0, [-1, -1])
    assert (q.phase[:12] == QUEUED).all()
    for worker in range(2):
        mine = [row for row, chunk in enumerate(chunks) if chunk.worker == worker]
        drawn = [dequeue(q, worker) for _ in mine]
        assert drawn == sorted(mine, key=lambda row: (chunks[row].key, row))
        assert (q.waiting[worker], q.version[worker]) == (
            0,
            2 * len(mine),
        )  # a sorted copy is stale each time


@pytest.mark.parametrize(
    ("served_key", "top", "since", "gets"),
    [
        (None, Chunk(key=5, overtakes=False), 0, True),  # the worker is idle
        (3, Chunk(key=2), 0, True),
        (3, Chunk(key=2, overtakes=False), 0, False),
        (3, Chunk(key=2, overtakes=False), 4, True),  # both came at this instant
        (3, Chunk(key=3), 4, False),  # of equal keys the first row
        (3, Chunk(key=4), 4, False),
    ],
)
def test_who_gets_the_worker_at_4(served_key: int | None, top: Chunk, since: int, gets: bool) -> None:
    q = site()
    assert not gets_worker(q, 0, 4)  # nobody waits
    add_rows(q, -1, commanded([Chunk(key=served_key or 0), top]))
    for row in range(2):
        end_upload(q, row)
    if served_key is not None:
        serve(q, 0, since)
    enqueue(q, 1)
    assert gets_worker(q, 0, 4) == gets
    for _ in range(2):
        mark_due(q, 4)
        assert q.marked[: q.size[MARKED]].tolist() == [0] * gets
    mark_worker(q, 0)
    mark_worker(q, 0)  # a second mark has no effect
    assert q.size[MARKED] == 1


def test_a_row_gets_and_leaves_a_slot_and_a_worker_on_demand() -> None:
    q = site(1, on_demand=1)
    add_rows(q, -1, commanded([Chunk(worker=0, job=2), Chunk(worker=1, job=2)]))
    for row in range(2):
        end_upload(q, row)
        serve(q, row, 5 + row)
    assert (q.served.tolist(), q.since[:2].tolist()) == ([0, -1], [5, 6])  # on demand there is one for each
    assert members(q.first_served[2], q.after) == [1, 0]
    assert q.newly_served[: q.size[NEWLY_SERVED]].tolist() == [0, 1]
    assert (q.phase[:2] == SERVED).all()
    leave_worker(q, 0)
    assert (q.served.tolist(), members(q.first_served[2], q.after)) == ([-1, -1], [1])
