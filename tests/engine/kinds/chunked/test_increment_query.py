"""What one more chunk costs on a worker: the worked examples, and random queues against a naive account."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.kinds.chunked.increment_query import (
    IncrementQuery,
    Rule,
    SiteOffers,
    merged_offers,
    sites_choice,
)
from ray_sim.engine.kinds.chunked.worker_queries import ANSWERS, Workers
from ray_sim.engine.states import section
from ray_sim.kernels.chunked.increments import DispatchedChunks
from ray_sim.kernels.chunked.queue_state import COMPLETE, PAUSE, PREEMPT, RUN, RUNNING, ChunkRows
from ray_sim.model.units import IntArray
from tests.engine.kinds.chunked.naive_increments import OnWorker, change, increment
from tests.proofs import instances

SLOT = 32 * 27 * 5 * 7
"""Microseconds in a slot of these tests, divisible by all their D p: nothing is rounded."""

NOTHING = DispatchedChunks.none()


def send(queues: ChunkQueues, rows: Sequence[tuple[int, OnWorker]], *, preempt: bool) -> None:
    """Dispatch chunks to workers, each of a job that holds a parameter server."""
    chunks = [
        (
            worker, c.key[0] * SLOT, 0, c.order, c.ready * SLOT, c.length * SLOT, int(preempt),
            c.inverse_rate * SLOT,
        )
        for worker, c in rows
    ]  # fmt: skip
    queues.dispatch(ChunkRows(*np.array(chunks, dtype=np.int64).reshape(-1, 8).T))


def new_queues(workers: int) -> ChunkQueues:
    queues = ChunkQueues(np.zeros(workers, dtype=np.bool_), 1)
    queues.set_ps(np.array([0]), np.array([1]))
    return queues


def go_on(queues: ChunkQueues, now: int) -> list[list[int]]:
    """Returns what has happened: time in slots, event, job, unit, worker, left."""
    happened = []
    while queues.next_us <= now * SLOT:
        at = queues.next_us
        happened += [[at // SLOT, *event] for event in queues.advance(at).tolist()]
    queues.advance(now * SLOT)
    return happened


OnWorkers = list[tuple[list[OnWorker], int | None]]
"""What is left of the chunks on each worker, and which of them has run until now."""


def left_on(queues: ChunkQueues, sent: Sequence[OnWorker], now: int, workers: int) -> OnWorkers:
    """As the queues have it."""
    of = {c.order: c for c in sent}
    chunks: list[list[OnWorker]] = [[] for _ in range(workers)]
    serving: list[int | None] = [None] * workers
    names = ("worker", "unit", "ready", "left", "phase", "anchor")
    columns = (section(queues.state(), "rows")[name].tolist() for name in names)
    for worker, unit, ready, left, phase, anchor in zip(*columns, strict=True):
        c = of[unit]
        done = now * SLOT - anchor if phase == RUNNING else 0
        chunks[worker].append(replace(c, ready=ready // SLOT, left=(left - done) // SLOT))
        serving[worker] = unit if phase == RUNNING and anchor < now * SLOT else serving[worker]
    return list(zip(chunks, serving, strict=True))


def ask(
    queues: ChunkQueues,
    now: int,
    new: OnWorker,
    *,
    workers: int = 1,
    first: int = 0,
    count: int = 1,
    rule: Rule = Rule.CHEAPEST,
    preempt: bool = True,
    exact: bool = False,
    counted: bool = True,
    dispatched: DispatchedChunks = NOTHING,
    given_workers: IntArray = NOTHING.worker,
    may_train: IntArray | None = None,
) -> IntArray:
    """Rows worker, rank, increment, turn of ``count`` chunks like the new one, for all workers or some."""
    question = IncrementQuery(
        count=count,
        partition=0,
        memory_level=0,
        ready_us=np.array([new.ready * SLOT]),
        length_us=np.array([new.length * SLOT]),
        key=np.array([new.key[0] * SLOT]),
        inverse_rate=np.array([new.inverse_rate * SLOT]),
        rule=rule,
        preempt=preempt,
        exact=exact,
        given_workers=given_workers,
        dispatched=dispatched,
        counted=counted,
    )
    kinds = np.zeros(workers, dtype=np.int64)
    of = np.arange(workers) if may_train is None else may_train
    return np.stack(list(sites_choice(question, queues, of, kinds, first, now * SLOT).values()), axis=1)


def q_of(
    queues: ChunkQueues,
    now: int,
    new: OnWorker,
    *,
    preempt: bool = True,
    exact: bool = False,
    counted: bool = True,
) -> Fraction:
    """Q in slots."""
    asked = ask(queues, now, new, preempt=preempt, exact=exact, counted=counted)
    return Fraction(int(asked[0, 2]), SLOT * new.chunks)


# --- worked examples


@pytest.mark.parametrize(("preempt", "second"), [(True, 3.5), (False, 5.0)])
@pytest.mark.parametrize("counted", [True, False])
def test_the_increments_of_the_papers_first_example(preempt: bool, second: float, counted: bool) -> None:
    # 2.A: 0.5 + 0 + 2 + 0 = 2.5; 1 + 0 + 2 + 2 (1/2)(2/4) = 3.5, or behind the running chunk 1 + 2 + 2 = 5;
    # 0.25 + (2 + 1) / 4 + 0.75 + 0 = 1.75.
    queues = new_queues(1)
    chunks = [OnWorker(2, 4, 1, 4, 0), OnWorker(1, 2, 3, 2, 1), OnWorker(4, 3, 4, 3, 2)]
    for now, chunk, q in zip((0, 2, 3), chunks, (2.5, second, 1.75), strict=True):
        go_on(queues, now)
        assert float(q_of(queues, now, chunk, preempt=preempt, counted=counted)) == q
        assert float(q_of(queues, now, chunk, preempt=preempt, exact=True)) == q
        send(queues, [(0, chunk)], preempt=preempt)


@pytest.mark.parametrize(("preempt", "exactly"), [(True, Fraction(14, 3)), (False, Fraction(5))])
def test_a_chunk_that_is_uploaded_later_is_counted_ignored_or_followed(
    preempt: bool, exactly: Fraction
) -> None:
    # 2.B: a (D=1, p=2) comes at 3, b (D=1, p=3) can run from 1 on. Without a 1 + 0 + 3 + 0 = 4, with it 6.
    # Exactly: a preempts b, which runs 1-3 and 5-6, (1.5 + 2.5 + 5.5) / 3 + 1.5 = 4.667, and is not delayed;
    # or it waits from 3 to 4, which is 4 + 1.
    queues = new_queues(1)
    send(queues, [(0, OnWorker(1, 2, 3, 2, 0))], preempt=preempt)
    b = OnWorker(1, 3, 1, 3, 1)
    assert q_of(queues, 0, b, preempt=preempt, counted=False) == 4
    assert q_of(queues, 0, b, preempt=preempt) == 6
    assert q_of(queues, 0, b, preempt=preempt, exact=True) == exactly


def test_the_increments_of_the_example_of_edge_and_cloud() -> None:
    # 2.C: (2 + 12) / 2 = 7 on an idle worker; with 9 slots of faster work at the end of the upload,
    # (2 + 9 + 12) / 2 = 11.5. The second chunk waits for the first, 12 / 2 = 6 more.
    new = OnWorker(2, 12, 2, 12, 1)
    queues = new_queues(2)
    send(queues, [(0, OnWorker(1, 11, 0, 11, 0))], preempt=True)
    assert ask(queues, 0, new, workers=2, count=3)[:, [0, 2]].tolist() == [
        [1, 14 * SLOT],
        [0, 23 * SLOT],
        [1, 26 * SLOT],
    ]


def test_given_workers_get_their_chunks_in_turn_each_behind_the_earlier_ones() -> None:
    # Chunks of 3 slots of a job of four, without upload, to workers 1, 0, 1, 1: 3 on each at first, then 6,
    # then 9.
    new = OnWorker(4, 3, 0, 3, 0)
    rows = ask(
        new_queues(2), 0, new, workers=2, count=4, rule=Rule.GIVEN_ORDER, given_workers=np.array([1, 0, 1, 1])
    )  # fmt: skip
    assert rows[:, [0, 2]].tolist() == [[1, 3 * SLOT], [0, 3 * SLOT], [1, 6 * SLOT], [1, 9 * SLOT]]


def test_the_least_loaded_worker_gets_each_chunk_whatever_it_costs() -> None:
    # Worker 0 has 4 slots left in a chunk of rate 1 / 40, worker 1 has 5 with rate 1 / 5. Chunks with D p =
    # 2 x 3 go to 0 (4 left) and to 1 (5 against 7): at 0 it overtakes, 3 + 6 (4 / 40); at 1 it waits, 5 + 3.
    queues = new_queues(2)
    send(queues, [(0, OnWorker(10, 4, 0, 4, 0)), (1, OnWorker(1, 5, 0, 5, 1))], preempt=True)
    go_on(queues, 0)
    rows = ask(queues, 0, OnWorker(2, 3, 0, 3, 2), workers=2, count=2, rule=Rule.LEAST_LOADED)
    assert rows[:, 0].tolist() == [0, 1]
    assert rows[:, 2].tolist() == [3 * SLOT + 6 * SLOT // 10, 8 * SLOT]


def test_a_place_in_the_queue_is_no_rate() -> None:
    # Worker 0 has 10 slots left of a chunk with D p = 1 x 10, worker 1 of one with D p = 3 x 10. A chunk of 6
    # that goes before all others by its place delays the first by 6 (10 / 10) = 6, the second by
    # 6 (10 / 30) = 2, in D Q: 12 and 8. So it does where the others have places of their own.
    first = -(2**62) // SLOT
    for place in (None, first + 1):
        queues = new_queues(2)
        send(
            queues,
            [(0, OnWorker(1, 10, 0, 10, 0, place)), (1, OnWorker(3, 10, 0, 10, 1, place))],
            preempt=True,
        )
        go_on(queues, 0)
        for exact in (False, True):
            rows = ask(queues, 0, OnWorker(1, 6, 0, 6, 2, first), workers=2, count=2, exact=exact)
            assert rows[:, [0, 2]].tolist() == [[1, 8 * SLOT], [0, 12 * SLOT]]


def test_the_increment_over_seven_chunks_in_danger_is_no_overflow() -> None:
    # Each of the seven is of a job of two chunks, of 4 slots: 3 + 3 x 7 (4 / 8) = 13.5.
    first, queues = -(2**62) // SLOT, new_queues(1)
    send(queues, [(0, OnWorker(2, 4, 0, 4, i, first + 1 + i)) for i in range(7)], preempt=True)
    go_on(queues, 0)
    assert q_of(queues, 0, OnWorker(1, 3, 0, 3, 7, first)) == Fraction(27, 2)


def test_without_preemption_a_chunk_waits_for_what_has_run_not_for_what_got_the_worker_now() -> None:
    # Two chunks without upload, of 5 and of 9 slots: at 0 the first has the worker, but has not run, so one
    # of 2 goes before both: 2 + 2 (5 / 5) + 2 (9 / 9) = 6. At 1 it waits for the 4 that are left.
    queues = new_queues(1)
    send(queues, [(0, OnWorker(1, 5, 0, 5, 0)), (0, OnWorker(1, 9, 0, 9, 1))], preempt=False)
    go_on(queues, 0)
    assert q_of(queues, 0, OnWorker(1, 2, 0, 2, 2), preempt=False) == 6
    go_on(queues, 1)
    assert q_of(queues, 1, OnWorker(1, 2, 1, 2, 2), preempt=False) == 8


# --- random queues

Script = list[tuple[int, list[tuple[int, OnWorker]]]]
"""When, and what is sent then to which workers."""


@st.composite
def scripts(draw: st.DrawFn, workers: int = 1) -> tuple[Script, int, OnWorker]:
    """Dispatches, a later time, and a new chunk then."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    now, order, script = 0, 0, []

    def place() -> int | None:
        """Of one chunk in four, as of jobs in danger."""
        return None if generator.integers(4) else -int(generator.integers(1, 4))

    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(generator.integers(0, 5)):
            length = int(generator.integers(1, 10))
            chunk = OnWorker(
                int(generator.integers(1, 5)), length, now + int(generator.integers(0, 6)), length, order,
                place(),
            )  # fmt: skip
            rows.append((int(generator.integers(workers)), chunk))
            order += 1
        script.append((now, rows))
        now += int(generator.integers(0, 6))
    length = int(generator.integers(1, 10))
    return (
        script,
        now,
        OnWorker(
            int(generator.integers(1, 5)), length, now + int(generator.integers(0, 6)), length, order, place()
        ),
    )


def carried_out(
    script: Script, now: int, first: int, last: int, *, preempt: bool
) -> tuple[ChunkQueues, list[OnWorker]]:
    """A site with the workers ``first`` .. ``last`` - 1 after its part of a script."""
    queues, sent = new_queues(last - first), []
    for at, rows in script:
        go_on(queues, at)
        mine = [(worker - first, chunk) for worker, chunk in rows if first <= worker < last]
        send(queues, mine, preempt=preempt)
        sent += [chunk for _, chunk in mine]
    go_on(queues, now)
    return queues, sent


@settings(max_examples=instances(10_000), deadline=None)
@given(case=scripts(), preempt=st.booleans(), counted=st.booleans())
def test_an_increment_is_that_of_a_naive_account_and_the_change_of_f_if_nothing_comes_later(
    case: tuple[Script, int, OnWorker], preempt: bool, counted: bool
) -> None:
    script, now, new = case
    queues, sent = carried_out(script, now, 0, 1, preempt=preempt)
    [(on_worker, serving)] = left_on(queues, sent, now, 1)
    naive = increment(on_worker, new, now, serving, preempt=preempt, counted=counted)
    grows = change(on_worker, new, now, serving, preempt=preempt)
    if all(chunk.ready <= new.ready for chunk in on_worker):
        assert naive == grows
    assert ask(queues, now, new, preempt=preempt, counted=counted)[0, 2] == naive * new.chunks * SLOT
    assert ask(queues, now, new, preempt=preempt, exact=True)[0, 2] == grows * new.chunks * SLOT


@settings(max_examples=instances(100), deadline=None)
@given(case=scripts(3), chosen=st.integers(0, 2), preempt=st.booleans())
def test_a_chunk_raises_q_of_its_worker_for_the_next_of_its_job_and_of_no_other(
    case: tuple[Script, int, OnWorker], chosen: int, preempt: bool
) -> None:
    """2.4 d. The next one waits for it, so D Q grows by exactly its length."""
    script, now, new = case
    queues, _ = carried_out(script, now, 0, 3, preempt=preempt)

    def increments(chunk: OnWorker) -> list[int]:
        each = [np.array([worker]) for worker in range(3)]
        rows = [ask(queues, now, chunk, workers=3, preempt=preempt, may_train=one) for one in each]
        return [int(row[0, 2]) for row in rows]

    before = increments(new)
    send(queues, [(chosen, new)], preempt=preempt)
    after = increments(replace(new, order=new.order + 1))
    grown = [later - q for later, q in zip(after, before, strict=True)]
    assert grown == [new.length * SLOT if worker == chosen else 0 for worker in range(3)]


@settings(max_examples=instances(100), deadline=None)
@given(case=scripts(2), count=st.integers(1, 4), exact=st.booleans())
def test_one_more_idle_worker_never_raises_the_least_q_of_a_job(
    case: tuple[Script, int, OnWorker], count: int, exact: bool
) -> None:
    """2.4 g, for each of its chunks in turn; on the idle worker the first costs its upload and its length."""
    script, now, new = case
    queues, _ = carried_out(script, now, 0, 3, preempt=True)
    two, three = (
        ask(queues, now, new, workers=3, count=count, exact=exact, may_train=np.arange(workers))[:, 2]
        for workers in (2, 3)
    )
    assert (three <= two).all()
    assert three[0] <= (new.ready - now + new.length) * SLOT


def bytes_of(queues: ChunkQueues) -> dict[str, bytes]:
    """Every array of the live queues, room that is not in use included."""
    return {name: np.asarray(array).tobytes() for name, array in queues._q._asdict().items()}


@settings(max_examples=instances(100), deadline=None)
@given(case=scripts(3), preempt=st.booleans(), exact=st.booleans(), rule=st.sampled_from(Rule))
def test_no_query_writes_a_byte_of_the_queues_it_asks(
    case: tuple[Script, int, OnWorker], preempt: bool, exact: bool, rule: Rule
) -> None:
    script, now, new = case
    queues, _ = carried_out(script, now, 0, 3, preempt=preempt)
    before = bytes_of(queues)
    place = new.key[0] * SLOT
    on_their_way = DispatchedChunks(
        *np.array([[w, place, place, new.ready * SLOT, SLOT] for w in (0, 2, 0)]).T.copy()
    )
    answers = [
        ask(
            queues, now, new, workers=3, count=70, rule=rule, exact=exact,
            given_workers=np.arange(70) % 3, dispatched=dispatched,
        )
        for dispatched in (NOTHING, on_their_way, NOTHING)
    ]  # fmt: skip
    workers = Workers(
        queues, 0, np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros(3, np.int64)
    )
    one = np.array([0])
    for kind, asked in (
        ("least_loaded", {"partitions": one, "units": one + 3, "needs": one}),
        ("betas", {}),
        ("time_left", {"jobs": one}),
    ):
        ANSWERS[kind](workers, now * SLOT, asked)
    assert bytes_of(queues) == before
    assert np.array_equal(answers[0], answers[2])  # what was on its way is forgotten


@settings(max_examples=instances(300), deadline=None)
@given(case=scripts(), upload=st.integers(0, 5))
def test_all_increments_together_are_f(case: tuple[Script, int, OnWorker], upload: int) -> None:
    """2.4 b: with equal uploads nothing that was dispatched earlier comes later."""
    queues, increments, happened, chunks = new_queues(1), Fraction(0), [], {}
    for now, rows in case[0]:
        for _, chunk in rows:
            happened += go_on(queues, now)
            chunks[chunk.order] = replace(chunk, ready=now + upload)
            increments += q_of(queues, now, chunks[chunk.order])
            send(queues, [(0, chunks[chunk.order])], preempt=True)
    f = Fraction(0)
    for at, event, _, order, _, _ in happened + go_on(queues, 10**6):
        chunk = chunks[order]
        if event == RUN:
            f -= Fraction(at * at, 2 * chunk.inverse_rate)
        elif event in (PAUSE, PREEMPT, COMPLETE):
            f += Fraction(at * at, 2 * chunk.inverse_rate)
    for chunk in chunks.values():
        f += (Fraction(chunk.length, 2) - (chunk.ready - upload)) / chunk.chunks
    assert increments == f


def naive_greedy(
    on_workers: OnWorkers,
    now: int,
    new: OnWorker,
    count: int,
    eligible: Collection[int],
    *,
    exact: bool,
    preempt: bool,
    counted: bool,
) -> list[list[Fraction]]:
    """A_greedy as it is written: all increments anew for every chunk, ties to the lowest worker."""
    of = change if exact else partial(increment, counted=counted)
    placed, queues = [], [list(chunks) for chunks, _ in on_workers]
    for turn in range(count):
        chunk = replace(new, order=new.order + turn)
        costs = [
            of(queue, chunk, now, serving, preempt=preempt)
            for queue, (_, serving) in zip(queues, on_workers, strict=True)
        ]
        best = min(sorted(eligible), key=lambda worker: costs[worker])
        queues[best].append(chunk)
        placed.append([Fraction(best), costs[best] * new.chunks * SLOT])
    return placed


WORKERS = 5


@pytest.mark.slow
@settings(max_examples=instances(1500), deadline=None)
@given(
    case=scripts(WORKERS),
    count=st.integers(1, 7),
    bounds=st.sampled_from([[0, 5], [0, 2, 5], [0, 1, 2, 3, 4, 5]]),
    eligible=st.sets(st.integers(0, WORKERS - 1), min_size=1),
    preempt=st.booleans(),
    exact=st.booleans(),
    counted=st.booleans(),
)
def test_chunks_go_where_the_greedy_rule_puts_them_with_any_sites(
    case: tuple[Script, int, OnWorker],
    count: int,
    bounds: list[int],
    eligible: set[int],
    preempt: bool,
    exact: bool,
    counted: bool,
) -> None:
    """What is dispatched last is on its way: no site knows of it yet."""
    script, _, new = case
    now, last = script[-1]
    new = replace(new, ready=now + new.ready % 6)
    rows = np.array(
        [
            [worker, c.key[0] * SLOT, c.inverse_rate * SLOT, c.ready * SLOT, c.length * SLOT]
            for worker, c in last
        ],
        dtype=np.int64,
    ).reshape(-1, 5)
    on_way = DispatchedChunks(*rows.T.copy())
    on_workers: OnWorkers = []
    answers = []
    for first, end in pairwise(bounds):
        queues, sent = carried_out(script[:-1], now, first, end, preempt=preempt)
        on_workers += left_on(queues, sent, now, end - first)
        before = queues.state()
        answers.append(
            ask(
                queues, now, new, workers=end - first, first=first, count=count, preempt=preempt,
                exact=exact, counted=counted, dispatched=on_way,
                may_train=np.array([w - first for w in sorted(eligible) if first <= w < end], dtype=np.int64),
            )
        )  # fmt: skip
        assert all(np.array_equal(before[name], after) for name, after in queues.state().items())
    for worker, chunk in last:
        on_workers[worker][0].append(chunk)
    offers = merged_offers(SiteOffers(*np.concatenate(answers).T), count)
    found = np.stack(offers, axis=1).tolist()
    assert found == naive_greedy(
        on_workers, now, new, count, eligible, exact=exact, preempt=preempt, counted=counted
    )
