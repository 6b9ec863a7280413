"""Simulation of one worker: sorted copies, and the future of a worker against a plain loop."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.chunked.commands import add_rows
from ray_sim.kernels.chunked.queue_state import Queues
from ray_sim.kernels.chunked.worker_simulation import (
    IN_UPLOAD,
    TOUCHED,
    Plans,
    ReadQueues,
    begin,
    first_behind,
    new_plans,
    simulate,
    sort_queue,
    weight_of,
)
from tests.kernels.by_hand import SEEDS
from tests.kernels.chunked.sites import ROOM, Chunk, commanded, random_chunks, served_by_loop, settle, site
from tests.proofs import instances


def site_of(chunks: list[Chunk]) -> tuple[Queues, ReadQueues, Plans]:
    """One worker at 0, after what is due then."""
    q = site()
    add_rows(q, 0, commanded(chunks))
    settle(q, 0)
    read, plans = ReadQueues.of(q), new_plans(2 * ROOM, len(q.queue), 1)
    sort_queue(read, plans, 0)
    return q, read, plans


def test_weights_of_delays() -> None:
    assert [weight_of(6, 4), weight_of(0, 3), weight_of(5, 0)] == [1.5, 0.0, 0.0]


def test_two_chunks_one_after_the_other() -> None:
    # 4 us, then 6 us of D p = 8 and 3: mean times 2 and 7, so that 2 x 4 / 8 + 7 x 6 / 3 = 15.
    _, read, plans = site_of([Chunk(key=0, left=4, inverse_rate=8), Chunk(key=1, left=6, inverse_rate=3)])
    for until, state in ((10, (1, -1, 15.0)), (4, (0, -1, 1.0)), (6, (1, 1, 1.0 + 5 * 2 / 3))):
        begin(read, plans, 0)
        found = simulate(read, plans, 0, 0, until, True)
        assert (found.head, found.served) == state[:2]
        assert found.cost == pytest.approx(state[2])
    assert plans.left[1] == 4  # of the chunk that is served at 6


@given(seed=SEEDS)
def test_a_sorted_copy_has_the_order_and_the_sums_of_the_queue(seed: int) -> None:
    chunks = [each._replace(ready=0) for each in random_chunks(np.random.default_rng(seed), 9)]
    q, read, plans = site_of(chunks)
    n = int(q.waiting[0])
    expected = sorted(set(range(len(chunks))) - {int(q.served[0])}, key=lambda row: (chunks[row].key, row))
    assert plans.row[:n].tolist() == expected
    keys = [chunks[row].key for row in expected]
    for place in range(n):
        behind = [chunks[row] for row in expected[place:]]
        assert plans.work_behind[place] == sum(each.left for each in behind)
        weight = sum(each.left / each.inverse_rate for each in behind)
        assert plans.weight_behind[place] == pytest.approx(weight)
        for key in range(-1, 5):
            assert first_behind(read, plans, 0, place, key) == max(place, bisect_right(keys, key))
    assert plans.version[0] == q.version[0]


@settings(max_examples=instances(300))
@given(seed=SEEDS, preempt=st.booleans())
def test_the_simulated_future_is_that_of_a_plain_loop(seed: int, preempt: bool) -> None:
    rng = np.random.default_rng(seed)
    chunks = random_chunks(rng, int(rng.integers(1, 8)), overtakes=preempt)
    q, read, plans = site_of(chunks)
    before = q.phase.tobytes(), q.left.tobytes(), q.queue.tobytes()
    until = int(rng.integers(1, 50))
    begin(read, plans, 0)
    state = simulate(read, plans, 0, 0, until, preempt)
    trained = served_by_loop(chunks, until)
    cost = sum((now + 0.5) / chunks[i].inverse_rate for i, times in trained.items() for now in times)
    assert state.cost == pytest.approx(cost)
    left = [chunk.left - len(trained[i]) for i, chunk in enumerate(chunks)]
    queued = plans.row[state.head : int(q.waiting[0])].tolist()
    touched = plans.touched[: plans.size[TOUCHED]].tolist()
    uploading = plans.in_upload[: plans.size[IN_UPLOAD]].tolist()
    serving = [state.served] if state.served >= 0 else []
    assert sorted([*queued, *touched, *serving]) == [
        i for i, chunk in enumerate(chunks) if left[i] > 0 and chunk.ready <= until
    ]
    assert sorted(uploading) == [i for i, chunk in enumerate(chunks) if chunk.ready > until]
    assert all(plans.left[i] == left[i] for i in [*touched, *serving])
    assert (q.phase.tobytes(), q.left.tobytes(), q.queue.tobytes()) == before
