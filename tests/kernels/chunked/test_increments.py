"""Increments: the four terms, exact increments as differences of cost, and the dispatch by them.

`tests/engine/kinds/chunked/test_increment_query.py` compares them with fractions and slots, through the
queues of a site.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.chunked.commands import add_rows
from ray_sim.kernels.chunked.increments import (
    CHEAPEST,
    GIVEN_ORDER,
    LEAST_LOADED,
    Candidates,
    ChosenWorkers,
    DispatchedChunks,
    NewChunk,
    betas,
    exact_increment,
    expect,
    forget,
    increment,
    send,
)
from ray_sim.kernels.chunked.queue_state import DONE, ROWS, Queues
from ray_sim.kernels.chunked.worker_simulation import Plans, ReadQueues, new_plans
from tests.kernels.by_hand import SEEDS, ints
from tests.kernels.chunked.sites import (
    ROOM,
    Chunk,
    commanded,
    random_chunks,
    served_by_loop,
    settle,
    site,
)
from tests.proofs import instances

NOTHING = DispatchedChunks.none()


def asked(
    chunks: list[Chunk], workers: int = 1, on_way: DispatchedChunks = NOTHING
) -> tuple[Queues, ReadQueues, Plans]:
    """Workers at 0 after what is due then, and what is on its way to them."""
    q = site(workers)
    add_rows(q, 0, commanded(chunks))
    settle(q, 0)
    read, plans = ReadQueues.of(q), new_plans(2 * ROOM, len(q.queue), workers)
    expect(read, plans, on_way)
    return q, read, plans


def test_the_four_terms() -> None:
    # Upload 2; of the 6 and 4 us before it 8 are left then; own work 5; D p = 10 delays 9 us of D' p' = 18.
    _, read, plans = asked(
        [Chunk(key=1, left=6), Chunk(key=2, left=4), Chunk(key=7, left=9, inverse_rate=18)]
    )
    new = NewChunk(length=5, key=2, inverse_rate=10, ready=2, before=0)
    assert increment(read, plans, 0, 0, new, True, True) == 2 + 8 + 5 + 10 * 9 // 18
    assert increment(read, plans, 0, 0, new._replace(before=2), True, True) == 20 + 2 * 5
    assert exact_increment(read, plans, 0, 0, new, True) == 20


def test_chunks_on_their_way_count_until_they_are_forgotten() -> None:
    # Of equal keys it is the faster.
    on_way = DispatchedChunks(
        worker=ints([0]), key=ints([2]), inverse_rate=ints([4]), ready_us=ints([0]), work_us=ints([8])
    )
    _, read, plans = asked([], on_way=on_way)
    new = NewChunk(length=5, key=2, inverse_rate=10, ready=0, before=0)
    assert increment(read, plans, 0, 0, new, True, True) == 8 + 5
    forget(plans, on_way)
    assert increment(read, plans, 0, 0, new, True, True) == 5


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_an_exact_increment_is_the_difference_that_a_plain_loop_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    *chunks, new = random_chunks(rng, int(rng.integers(1, 6)), overtakes=True)

    def cost(of: list[Chunk]) -> float:
        trained = served_by_loop(of, 60)
        return sum((now + 0.5) / of[i].inverse_rate for i, times in trained.items() for now in times)

    _, read, plans = asked(chunks)
    asks = NewChunk(new.left, new.key, new.inverse_rate, new.ready, 0)
    grows = new.inverse_rate / new.left * (cost([*chunks, new]) - cost(chunks)) + new.left / 2
    assert exact_increment(read, plans, 0, 0, asks, True) == pytest.approx(grows, abs=0.5 + 1e-9)


@settings(max_examples=instances(300))
@given(seed=SEEDS, rule=st.sampled_from([CHEAPEST, LEAST_LOADED, GIVEN_ORDER]), exact=st.booleans())
def test_each_chunk_goes_to_the_first_worker_of_the_smallest_rank(seed: int, rule: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    workers, count = 3, 4
    _, read, plans = asked(random_chunks(rng, 6, workers), workers)
    length, key = rng.integers(1, 6, workers), rng.integers(0, 4, workers)
    ready = rng.integers(0, 5, workers)
    of = ints([0, 1, 2]) if rule != GIVEN_ORDER else rng.integers(0, workers, count)
    n = len(of)
    rank = rng.integers(0, 20, n)
    candidates = Candidates(
        of,
        length[of],
        key[of],
        3 * length[of],
        ready[of],
        np.zeros(n, np.int64),
        rank.copy(),
        *np.empty((2, n), np.int64),
    )
    chosen = ChosenWorkers(*np.empty((3, count), np.int64))
    send(read, plans, candidates, rule, 0, True, exact, True, chosen)
    before = [0] * n
    for turn in range(count):
        new = [
            NewChunk(length[worker], key[worker], 3 * length[worker], ready[worker], sent_there)
            for worker, sent_there in zip(of, before, strict=True)
        ]
        costs = [
            exact_increment(read, plans, int(of[i]), 0, new[i], True)
            if exact
            else increment(read, plans, int(of[i]), 0, new[i], True, True)
            for i in range(n)
        ]
        loads = [int(rank[i]) + before[i] * int(length[of[i]]) for i in range(n)]
        ranks = {CHEAPEST: costs, LEAST_LOADED: loads, GIVEN_ORDER: rank.tolist()}[rule]
        i = turn if rule == GIVEN_ORDER else min(range(n), key=lambda i: (ranks[i], i))
        assert [column[turn] for column in chosen] == [of[i], ranks[i], costs[i]]
        before[i] += 1


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_beta_is_the_work_left_over_d_p_of_all_chunks_on_a_worker(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, read, _ = asked(random_chunks(rng, 10, 2), 2)
    now, following = 0, settle(q, 0)[0]
    while following <= 15:
        now, (following, _) = following, settle(q, following)
    expected = np.zeros(2)
    for row in range(int(q.size[ROWS])):
        if q.phase[row] != DONE:
            runs = q.served[q.worker[row]] == row
            left = q.finish[row] - now if runs else q.left[row]
            expected[q.worker[row]] += left / q.inverse_rate[row]
    beta = np.zeros(2)
    betas(read, now, beta)
    assert beta == pytest.approx(expected)
