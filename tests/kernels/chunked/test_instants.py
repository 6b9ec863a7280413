"""Advance of chunk queues: which chunk a worker trains in each microsecond, against a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from ray_sim.kernels.chunked.commands import add_rows
from ray_sim.kernels.chunked.instants import advance, next_time
from ray_sim.kernels.chunked.queue_state import COMPLETE, DISPLACE, PAUSE, PREEMPT, RUN, SERVE
from ray_sim.kernels.core.arrays import NEVER
from tests.kernels.by_hand import SEEDS
from tests.kernels.chunked.sites import (
    Chunk,
    assert_consistent,
    commanded,
    random_chunks,
    reported,
    served_by_loop,
    settle,
    site,
)
from tests.proofs import instances


def test_a_chunk_overtakes_in_the_second_call_and_the_other_repeats_what_that_costs() -> None:
    # A: 5 us from 0 on. B: 2 us, uploaded at 3, before A by its key. A has 2 us left and repeats 1.
    q = site(cost=1)
    assert next_time(q, 0) == NEVER
    add_rows(q, 0, commanded([Chunk(key=2, left=5), Chunk(key=1, unit=1, ready=3, left=2)]))
    assert (advance(q, 0), reported(q)) == (3, [(SERVE, 0, 0, 0, 5), (RUN, 0, 0, 0, 5)])
    assert (advance(q, 3), reported(q)) == (3, [])  # A keeps the worker for this call
    assert advance(q, 3) == 3 + 2
    assert reported(q) == [(PREEMPT, 0, 0, 0, 2), (SERVE, 0, 1, 0, 2), (RUN, 0, 1, 0, 2)]
    assert advance(q, 5) == 5 + 2 + 1
    assert reported(q) == [(COMPLETE, 0, 1, 0, 0), (SERVE, 0, 0, 0, 2), (RUN, 0, 0, 0, 2)]
    assert (advance(q, 8), reported(q)) == (NEVER, [(COMPLETE, 0, 0, 0, 0)])


def test_a_chunk_that_began_at_this_instant_pays_nothing_and_one_that_stalls_is_displaced() -> None:
    chunks = commanded([Chunk(key=2, left=5)])
    first = commanded([Chunk(key=1, unit=1, left=5)])
    for ps, events in ((True, [PAUSE, DISPLACE, SERVE, RUN]), (False, [DISPLACE, SERVE])):
        q = site(cost=1, ps=ps)
        add_rows(q, 0, chunks)
        advance(q, 0)
        reported(q)
        assert add_rows(q, 0, first) == 0
        advance(q, 0)
        assert [event[0] for event in reported(q)] == events
        assert q.left[0] == 5


def test_chunks_on_demand_run_side_by_side_and_those_of_length_0_pass_at_once() -> None:
    q = site(0, on_demand=1)
    add_rows(q, 0, commanded([Chunk(left=4), Chunk(unit=1, left=6), Chunk(unit=2, left=0)]))
    following, events = settle(q, 0)
    assert (following, sorted(events)) == (
        4,
        [(SERVE, 0), (SERVE, 1), (SERVE, 2), (RUN, 0), (RUN, 1), (RUN, 2), (COMPLETE, 2)],
    )
    assert settle(q, 4) == (6, [(COMPLETE, 0)])
    assert settle(q, 6) == (NEVER, [(COMPLETE, 1)])


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_each_chunk_runs_in_the_microseconds_of_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunks, workers = random_chunks(rng, int(rng.integers(1, 8)), 2), 2
    expected: dict[int, list[int]] = {}
    for worker in range(workers):
        mine = [chunk for chunk in chunks if chunk.worker == worker]
        trained = served_by_loop(mine, 70)
        expected |= {chunk.unit: trained[i] for i, chunk in enumerate(mine)}
    q = site(workers)
    following = add_rows(q, 0, commanded(chunks))
    found: dict[int, list[int]] = {chunk.unit: [] for chunk in chunks}
    since: dict[int, int] = {}
    while following < NEVER:
        now = following
        following, events = settle(q, now)
        assert_consistent(q, now)
        for event, unit in events:
            if event == RUN:
                since[unit] = now
            elif event in (PAUSE, PREEMPT, COMPLETE):
                found[unit] += range(since[unit], now)
    assert found == expected
