"""Chunked jobs: queues on workers that go on by themselves, and what may be put on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.chunks import ChunkQueues
from ray_sim.engine.contract import View, Wake
from ray_sim.engine.decision import Decision, Dispatch
from ray_sim.engine.fleet import LocalFleet
from ray_sim.engine.simulation import Simulation
from ray_sim.model.errors import InfeasibleDecisionError, RunFailedError
from ray_sim.model.result import RunResult
from tests.scripted import at_times, scripted
from tests.toys import Dealer, chunked
from tests.worlds import Job, column_of, events_of, replay, times_of, world_of

Row = tuple[int, int, int, int]
"""Job, unit, worker, key."""

J1, J2 = 0, 1


def dispatch(*rows: Row) -> Dispatch:
    columns = np.array(rows, dtype=np.int64).T
    return Dispatch(columns[0], columns[1], columns[2], columns[3])


def run(
    jobs: Sequence[Job], chunks: Sequence[int], script: Mapping[float, Sequence[Row]], sites: int = 1
) -> RunResult:
    """Two workers; chunks dispatched at the seconds of the script."""
    decisions = {time_s: Decision(dispatch=dispatch(*rows)) for time_s, rows in script.items()}
    policy = scripted(at_times(decisions), wake=Wake.ARRIVAL | Wake.REVIEW)
    return replay(chunked(jobs, chunks, [1, 1]), policy, sites=sites)


@pytest.mark.parametrize("sites", [1, 2])
def test_a_chunk_with_a_smaller_key_overtakes_the_running_one_which_keeps_its_progress(sites: int) -> None:
    # Worker 0: the first of J1's two chunks of 3 s runs 0-1; J2's (2 s, smaller key) 1-3; J1's first goes
    # on 3-5, its second 5-8.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 1.0: [(J2, 0, 0, 1)]}
    result = run([Job(0, 1, 3), Job(1, 1, 2)], [2, 1], script, sites)
    assert result.loop_reason == "jobs are not rigid"
    assert times_of(result) == {"J1": (0, 8), "J2": (1, 3)}
    assert column_of(result, "jct_s") == {"J1": 8, "J2": 2}
    assert [event[:2] for event in events_of(result, "J1")] == [(0, "submit"), (8, "finish")]


@pytest.mark.parametrize("sites", [1, 2])
def test_chunks_with_equal_keys_are_served_in_the_order_of_dispatch(sites: int) -> None:
    # 0-3, 3-6 for J1, then 6-8 for J2.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 1.0: [(J2, 0, 0, 5)]}
    assert times_of(run([Job(0, 1, 3), Job(1, 1, 2)], [2, 1], script, sites)) == {"J1": (0, 6), "J2": (1, 8)}


@pytest.mark.parametrize("sites", [1, 2])
def test_a_job_ends_with_its_last_chunk_wherever_it_is(sites: int) -> None:
    # Four chunks of 3 s: one on worker 0, three on worker 1, which ends at 9 s.
    script = {0.0: [(J1, 0, 0, 0), (J1, 1, 1, 0), (J1, 2, 1, 0), (J1, 3, 1, 0)]}
    assert times_of(run([Job(0, 1, 3)], [4], script, sites)) == {"J1": (0, 9)}


def test_a_job_waits_until_its_first_dispatch_and_may_be_dispatched_in_parts() -> None:
    # Submitted at 0, first chunk at 2-5, the other only from 9 s on: 9-12.
    result = run([Job(0, 1, 3)], [2], {2.0: [(J1, 0, 0, 0)], 9.0: [(J1, 1, 1, 0)]})
    assert times_of(result) == {"J1": (2, 12)}
    assert (column_of(result, "queue_s")["J1"], column_of(result, "run_s")["J1"]) == (2, 10)


def test_chunks_without_length_pass_in_an_instant() -> None:
    result = run([Job(0, 1, 0)], [3], {1.0: [(J1, 0, 0, 0), (J1, 1, 0, 0), (J1, 2, 1, 0)]})
    assert times_of(result) == {"J1": (1, 1)}


def naive_completions(dispatches: dict[int, list[tuple[int, int, int]]]) -> dict[int, int]:
    """When each chunk is done on one worker, second by second; rows (key, chunk, seconds) by time."""
    queue: list[list[int]] = []
    done: dict[int, int] = {}
    for now in range(200):
        if queue and queue[0][2] == 0:
            done[queue.pop(0)[1]] = now
        queue += [[key, chunk, left] for key, chunk, left in dispatches.get(now, [])]
        # Stable: equal keys stay in the order in which they came.
        queue.sort(key=lambda entry: entry[0])
        if queue:
            queue[0][2] -= 1
    return done


@settings(max_examples=100)
@given(chunks=st.lists(st.tuples(st.integers(0, 10), st.integers(-2, 2), st.integers(1, 6)), max_size=12))
def test_a_queue_does_what_a_naive_one_does(chunks: list[tuple[int, int, int]]) -> None:
    dispatches: dict[int, list[tuple[int, int, int]]] = {}
    for number, (time, key, length) in enumerate(chunks):
        dispatches.setdefault(time, []).append((key, number, length))
    queues, done = ChunkQueues(), {}
    times = sorted(dispatches)
    while times or queues.next_us() < 10**9:
        now = min([queues.next_us(), *times[:1]])
        done.update({int(chunk): now for chunk, _ in queues.advance(now)})
        if times and times[0] == now:
            rows = [(0, key, chunk, 0, length) for key, chunk, length in dispatches[times.pop(0)]]
            queues.dispatch(now, np.array(rows))
    assert done == naive_completions(dispatches)


@given(jobs=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 4)), min_size=1))
def test_workers_are_never_idle_while_they_have_chunks(jobs: list[tuple[int, int, int]]) -> None:
    # One worker: the last chunk is done when a single server would have done all work.
    jobs = sorted(jobs)
    chunks = [n for _, _, n in jobs]
    world = chunked([Job(a, 1, p) for a, p, _ in jobs], chunks, [1])
    free_at = 0
    for arrival, length, n in jobs:
        free_at = max(free_at, arrival) + n * length
    assert replay(world, Dealer(chunks)).jobs["finish_s"].max() == free_at


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(2, 0, 0, 0)], ["J3", "not in the system"]),
        ([(9, 0, 0, 0)], ["job number 9", "a job that does not exist"]),
        ([(-1, 0, 0, 0)], ["job number -1", "a job that does not exist"]),
        ([(J1, 2, 0, 0)], ["chunk 2 of job J1", "does not have it"]),
        ([(J1, -1, 0, 0)], ["chunk -1 of job J1", "does not have it"]),
        ([(J1, 0, 2, 0)], ["chunk 0 of job J1", "worker 2", "no such worker"]),
        ([(J1, 0, -1, 0)], ["chunk 0 of job J1", "worker -1", "no such worker"]),
        ([(J2, 0, 0, 0)], ["chunk 0 of job J2", "worker 0", "outside the job's partition"]),
        ([(J1, 0, 0, 0), (J1, 0, 0, 0)], ["chunk 0 of job J1", "second time"]),
    ],
)
def test_a_dispatch_that_breaks_a_rule_is_refused_by_name(rows: Sequence[Row], words: Sequence[str]) -> None:
    jobs = [Job(0, 1, 3, "a"), Job(0, 1, 3, "b"), Job(5, 1, 3, "a")]
    world = replace(world_of(jobs, [1, 1], vc=["a", "b"]), chunks=np.array([2, 1, 1]))
    simulation = Simulation(world, scripted(lambda view: Decision()))
    assert simulation.advance() is not None
    before = simulation.state()
    with pytest.raises(InfeasibleDecisionError) as refusal:
        simulation.apply(Decision(dispatch=dispatch(*rows)))
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
    after = simulation.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_chunk_is_dispatched_once() -> None:
    with pytest.raises(InfeasibleDecisionError, match=r"^at 1 s: .* chunk 0 of job J1 .* second time$"):
        run([Job(0, 1, 3)], [2], {0.0: [(J1, 0, 0, 0)], 1.0: [(J1, 0, 1, 0)]})


def test_columns_of_a_dispatch_have_one_length() -> None:
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    policy = scripted(lambda view: Decision(dispatch=Dispatch(one, one, two, one)))
    with pytest.raises(InfeasibleDecisionError, match="1, 1, 2 and 1 values"):
        replay(chunked([Job(0, 1, 3)], [1], [1]), policy)


def test_only_chunked_jobs_have_chunks() -> None:
    policy = scripted(lambda view: Decision(dispatch=dispatch((0, 0, 0, 0))))
    with pytest.raises(InfeasibleDecisionError, match="not chunked"):
        replay(world_of([Job(0, 1, 3)], [1]), policy)


def test_a_job_with_chunks_on_queues_cannot_be_evicted_yet() -> None:
    script = {0.0: Decision(dispatch=dispatch((J1, 0, 0, 0))), 1.0: Decision(evict=np.array([J1]))}
    policy = scripted(at_times(script), wake=Wake.ARRIVAL | Wake.REVIEW)
    with pytest.raises(InfeasibleDecisionError, match="evicts job J1, whose chunks"):
        replay(chunked([Job(0, 1, 3)], [1], [1]), policy)


class Standing(LocalFleet):
    """A fleet that always has something to report and never reports it."""

    @property
    def next_us(self) -> int:
        return 0


def test_an_instant_that_never_ends_is_an_error_that_names_the_running_jobs() -> None:
    world = world_of([Job(0, 1, 3), Job(0, 1, 3)], [1])

    def start_first(view: View) -> Decision:
        return Decision.of({J1: [(0, 0, 1)]})

    simulation = Simulation(world, scripted(start_first), fleet=Standing(world))
    view = simulation.advance()
    assert view is not None
    simulation.apply(start_first(view))
    with pytest.raises(RunFailedError, match=r"time stands still at 0 s: .* running jobs: J1$"):
        simulation.advance()
