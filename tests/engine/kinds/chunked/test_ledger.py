"""Servers that go and come back with chunks on them, and jobs that are evicted with chunks on workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.kinds.chunked.view import ChunkedView
from ray_sim.engine.simulation import Simulation
from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.result import RunResult
from ray_sim.model.units import NEVER_US
from tests.chunk_worlds import (
    CLOUD,
    ChunkJob,
    Row,
    Script,
    Server,
    chunk_world,
    dispatch_of,
    first_idle_ps,
    runs_of,
)
from tests.figures import chunked_of
from tests.scripted import at_times, scripted
from tests.worlds import DOWN, UP, Change, column_of, fingerprint, replay, times_of

J1, J2, J3 = 0, 1, 2


def run(
    jobs: Sequence[ChunkJob],
    rows: Sequence[Row],
    servers: Sequence[Server],
    changes: Sequence[Change],
    slot_s: float | None = None,
) -> RunResult:
    """All dispatched at 0; the same on any number of sites."""
    world = chunk_world(jobs, servers, slot_s=slot_s, changes=changes)
    result = replay(world, Script({0.0: rows}))
    for sites in range(2, len(servers) + 1):
        assert fingerprint(replay(world, Script({0.0: rows}), sites=sites)) == fingerprint(result)
    return result


def rows_of(result: RunResult, *events: str) -> list[tuple[object, ...]]:
    found = result.events.filter(result.events["event"].is_in(events))
    return found.select("time_s", "event", "job_id", "server", "role", "count").rows()


# --- chunks that are lost


def test_what_a_chunk_had_done_is_lost_with_its_server_and_done_again_elsewhere_after_another_upload() -> (
    None
):
    # Uploaded for 1 s. Worker 0 trains chunk 0 (5 s) from 1 to 4, when s0 goes; chunk 1 waits behind it.
    # Both go to worker 1: uploaded by 5, chunk 0 runs 5-10, chunk 1 10-15. Lost: 3 s.
    jobs, rows = [ChunkJob(0, 2, 5, 1)], [(J1, 0, 0, 0), (J1, 1, 0, 0)]
    result = run(jobs, rows, [Server(), Server()], [(4, 0, DOWN)])
    assert runs_of(result, "J1", 0) == [(1, 4), (5, 10)]
    assert runs_of(result, "J1", 1) == [(10, 15)]
    expected = {"interruptions": 1, "lost_s": 3, "preemptions": 0, "restarts": 0, "run_s": 13, "queue_s": 2}
    assert {name: column_of(result, name)["J1"] for name in expected} == expected
    assert (result.summary.interruptions, result.summary.lost_s) == (1, 3)
    assert rows_of(result, "server_down", "lose", "stop") == [
        (4, "server_down", None, "s0", None, 0),
        (4, "lose", "J1", "s0", "ps", 1),
        (4, "stop", "J1", "s0", "chunk", 0),
        (4, "lose", "J1", "s0", "chunk", 0),
        (4, "lose", "J1", "s0", "chunk", 1),
    ]


def test_chunks_that_are_being_uploaded_are_lost_too_and_those_elsewhere_are_not() -> None:
    # Chunk 0 would be at worker 0 at 6 s; s0 goes at 4. Chunk 1 is trained on worker 1 from 6 to 8.
    # Chunk 0 is sent there at 4 and is ready at 10: 10-12.
    jobs, rows = [ChunkJob(0, 2, 2, 6)], [(J1, 0, 0, 0), (J1, 1, 1, 0)]
    result = run(jobs, rows, [Server(ps=0), Server()], [(4, 0, DOWN)])
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(10, 12)], [(6, 8)]]
    assert column_of(result, "interruptions") == {"J1": 1}
    assert column_of(result, "lost_s") == {"J1": 0}


def test_what_is_done_stays_done() -> None:
    # Chunk 0 is done at 3 s on s0, which goes at 4 with chunk 1 (3-6): only chunk 1 is done again, 4-7.
    jobs, rows = [ChunkJob(0, 2, 3)], [(J1, 0, 0, 0), (J1, 1, 0, 0)]
    result = run(jobs, rows, [Server(), Server()], [(4, 0, DOWN)])
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(0, 3)], [(3, 4), (4, 7)]]
    assert column_of(result, "lost_s") == {"J1": 1}


def test_a_chunk_that_would_be_done_when_its_server_goes_is_lost() -> None:
    # Servers go before anything else happens: the 3 s until 3 are lost, the chunk runs 3-6.
    result = run([ChunkJob(0, 1, 3)], [(J1, 0, 0, 0)], [Server(), Server()], [(3, 0, DOWN)])
    assert runs_of(result, "J1", 0) == [(0, 3), (3, 6)]


def test_progress_before_a_preemption_is_lost_as_well() -> None:
    # Worker 0: J1 (4 s) 0-1, J2 (2 s, smaller key) 1-3, J1 3-4; then s0 goes: J1 loses 1 + 1 s, and runs
    # 4-8 on worker 1.
    world = chunk_world([ChunkJob(0, 1, 4), ChunkJob(1, 1, 2)], [Server(), Server()], changes=[(4, 0, DOWN)])
    result = replay(world, Script({0.0: [(J1, 0, 0, 5)], 1.0: [(J2, 0, 0, 1)]}))
    assert runs_of(result, "J1", 0) == [(0, 1), (3, 4), (4, 8)]
    assert column_of(result, "lost_s") == {"J1": 2, "J2": 0}


def test_several_servers_lost_at_once_are_one_interruption_of_a_job() -> None:
    jobs, rows = [ChunkJob(0, 2, 5)], [(J1, 0, 0, 0), (J1, 1, 1, 0)]
    result = run(jobs, rows, [Server(), Server(), Server()], [(2, 0, DOWN), (2, 1, DOWN)])
    assert column_of(result, "interruptions") == {"J1": 1}
    assert column_of(result, "lost_s") == {"J1": 4}


def test_a_server_that_comes_back_is_empty_and_a_job_that_nobody_can_take_waits_for_it() -> None:
    # The only server goes at 2 and comes back at 6: J1 is uploaded again (1 s) and runs 7-11. From 0 to
    # 11 s the worker was there for 7 s and used for 1 + 4.
    result = run([ChunkJob(0, 1, 4, 1)], [(J1, 0, 0, 0)], [Server()], [(2, 0, DOWN), (6, 0, UP)])
    assert runs_of(result, "J1", 0) == [(1, 2), (7, 11)]
    assert result.summary.utilisation["worker"] == pytest.approx(5 / 7)


def test_a_server_that_is_there_again_at_once_has_lost_its_chunks_all_the_same() -> None:
    result = run([ChunkJob(0, 1, 4)], [(J1, 0, 0, 0)], [Server()], [(2, 0, DOWN), (2, 0, UP)])
    assert runs_of(result, "J1", 0) == [(0, 2), (2, 6)]


def test_in_whole_slots_a_server_goes_and_comes_back_at_the_end_of_the_slot() -> None:
    # Slots of 10 s. s0 goes at 12, that is at 20, and is back at 35, that is at 40. The chunk of 15 s takes
    # two slots: 0-20 is lost, as it would be done at 20, and 40-60 is not.
    result = run([ChunkJob(0, 1, 15)], [(J1, 0, 0, 0)], [Server()], [(12, 0, DOWN), (35, 0, UP)], slot_s=10)
    assert runs_of(result, "J1", 0) == [(0, 20), (40, 60)]
    assert rows_of(result, "server_down", "server_up") == [
        (20, "server_down", None, "s0", None, 0),
        (40, "server_up", None, "s0", None, 0),
    ]


# --- parameter servers that are lost


def test_a_job_that_loses_its_parameter_server_stands_still_until_it_gets_another() -> None:
    # J1 trains on s1 with its parameter server on s0, which is away from 2 to 5: 0-2 and 5-7.
    servers = [Server(workers=0, ps=1), Server(ps=0)]
    result = run([ChunkJob(0, 1, 4)], [(J1, 0, 0, 0)], servers, [(2, 0, DOWN), (5, 0, UP)])
    assert runs_of(result, "J1", 0) == [(0, 2), (5, 7)]
    assert chunked_of(result).stalled_s == 3
    expected = {"interruptions": 1, "lost_s": 0, "run_s": 4, "queue_s": 3}
    assert {name: column_of(result, name)["J1"] for name in expected} == expected
    assert result.timeline.select("time_s", "used_worker", "used_ps").rows() == [
        (0, 1, 1), (2, 0, 0), (5, 1, 1), (7, 0, 0),
    ]  # fmt: skip


def test_a_policy_for_slots_is_asked_at_once_when_a_parameter_server_is_lost() -> None:
    # Slots of 10 s: s0 goes at 3, within a slot, and J1 goes on with a parameter server of s1 at once.
    asked: list[tuple[float, list[int]]] = []

    def decide(view: ChunkedView) -> Decision:
        asked.append((view.now_us / 1e6, view.stalled.tolist()))
        sent = dispatch_of([(job, 0, 0, 0) for job in view.arrived.tolist()])
        return ChunkedDecision.of(first_idle_ps(view), dispatch=sent)

    wake = Wake.ARRIVAL | Wake.ACTIVATION | Wake.SERVER_CHANGE
    policy = scripted(decide, wake=wake, on_slots_only=True, chunks=True)
    servers = [Server(workers=0), Server()]
    world = chunk_world(
        [ChunkJob(0, 1, 5)], servers, slot_s=10, slot_fill="fractional", changes=[(3, 0, DOWN)]
    )
    assert runs_of(replay(world, policy), "J1", 0) == [(0, 3), (3, 5)]
    assert asked == [(0, []), (0, [J1]), (3, [J1]), (5, []), (10, [])]


def test_a_policy_for_slots_sends_lost_chunks_off_at_the_next_slot() -> None:
    # Slots of 10 s: s0 goes at 3; chunk_fifo sends J1 to s1 at 10.
    world = chunk_world(
        [ChunkJob(0, 1, 5, 1)],
        [Server(), Server()],
        slot_s=10,
        slot_fill="fractional",
        changes=[(3, 0, DOWN)],
    )
    assert runs_of(replay(world, "chunk_fifo"), "J1", 0) == [(1, 3), (11, 16)]


def test_the_view_tells_which_jobs_and_which_chunks_are_to_be_sent_again() -> None:
    told: list[tuple[float, list[int], list[int], list[list[int]], list[bool]]] = []

    def decide(view: ChunkedView) -> Decision:
        everyone = np.arange(view.arrivals)
        to_send = np.transpose(view.undispatched(everyone))
        told.append(
            (
                view.now_us / 1e6,
                view.arrived.tolist(),
                view.returned.tolist(),
                to_send.tolist(),
                view.available.tolist(),
            )
        )
        # Chunk 0 of each job to worker 0, chunk 1 to worker 1; again to where there is one.
        there = np.flatnonzero(view.available)
        sent = [(job, unit, int(there[unit % len(there)]), 0) for job, unit in to_send.tolist()]
        return ChunkedDecision.of(first_idle_ps(view), dispatch=dispatch_of(sent) if sent else None)

    wake = Wake.ARRIVAL | Wake.ACTIVATION | Wake.SERVER_CHANGE
    world = chunk_world(
        [ChunkJob(0, 2, 5), ChunkJob(0, 2, 5)],
        [Server(ps=0), Server()],
        changes=[(2, 0, DOWN), (3, 0, UP)],
    )
    result = replay(world, scripted(decide, wake=wake, chunks=True))
    both = [[J1, 0], [J1, 1], [J2, 0], [J2, 1]]
    assert told[:4] == [
        (0, [J1, J2], [], both, [True, True]),
        (0, [], [], [], [True, True]),
        (2, [J1, J2], [J1, J2], [[J1, 0], [J2, 0]], [False, True]),
        (3, [], [], [], [True, True]),
    ]
    assert result.summary.completed == 2


# --- the cloud


def test_only_the_loss_of_its_own_server_touches_the_cloud() -> None:
    # J1 is in the cloud (4 s, no exchange); the edge's loss at 2 is nothing to it.
    jobs = [ChunkJob(0, 2, 4, exchange_s=3)]
    rows = [(J1, 0, 1, 0), (J1, 1, 1, 0)]
    result = run(jobs, rows, [Server(), Server(kind=CLOUD)], [(2, 0, DOWN)])
    assert times_of(result) == {"J1": (0, 4)}
    assert column_of(result, "interruptions") == {"J1": 0}


def test_a_job_whose_cloud_goes_is_trained_with_communication_at_the_edge() -> None:
    # Two chunks in the cloud, 0-2, lost. At the edge they take 4 + 3 s each, one after the other: 2-9-16.
    jobs = [ChunkJob(0, 2, 4, exchange_s=3)]
    rows = [(J1, 0, 1, 0), (J1, 1, 1, 0)]
    result = run(jobs, rows, [Server(), Server(kind=CLOUD)], [(2, 1, DOWN)])
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(0, 2), (2, 9)], [(0, 2), (9, 16)]]
    assert column_of(result, "lost_s") == {"J1": 4}


def test_a_job_that_waits_for_its_cloud_is_trained_without_communication_again() -> None:
    jobs = [ChunkJob(0, 2, 4, 0, 1, exchange_s=3)]
    rows = [(J1, 0, 0, 0), (J1, 1, 0, 0)]
    result = run(jobs, rows, [Server(kind=CLOUD)], [(2, 0, DOWN), (8, 0, UP)])
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(1, 2), (9, 13)]] * 2
    assert column_of(result, "lost_s") == {"J1": 2}


def test_a_job_in_one_cloud_cannot_send_lost_chunks_to_the_edge_while_it_is_in_another() -> None:
    # Chunk 1 would have to be trained with communication, and chunk 0, in the cloud that is left, without.
    servers = [Server(), Server(kind=CLOUD), Server(kind=CLOUD)]
    world = chunk_world([ChunkJob(0, 2, 4, exchange_s=3)], servers, changes=[(2, 2, DOWN)])
    script = Script({0.0: [(J1, 0, 1, 0), (J1, 1, 2, 0)]})
    with pytest.raises(InfeasibleDecisionError, match=r"at 2 s: .* chunk 1 of job J1 .* send it there too"):
        replay(world, script)


# --- rules


def test_chunks_and_parameter_servers_go_to_servers_that_are_there() -> None:
    world = chunk_world([ChunkJob(0, 1, 4)], [Server(), Server()], changes=[(0, 0, DOWN)])
    for decision, words in (
        (
            ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0)])),
            "worker 0: the worker's server is not there now",
        ),
        (Decision.of({J1: [(0, PARAMETER_SERVER, 1)]}), "job J1 on server s0, which is not there now"),
    ):
        simulation = Simulation(world, Script({}))
        assert simulation.advance() is not None
        with pytest.raises(InfeasibleDecisionError, match=words):
            simulation.apply(decision)


def test_workers_of_servers_that_are_away_are_not_among_the_least_loaded() -> None:
    answers = []

    def decide(view: ChunkedView) -> Decision:
        answers.append(view.least_loaded(np.array([0]), np.array([9])).worker.tolist())
        return Decision()

    wake = Wake.ARRIVAL | Wake.SERVER_CHANGE
    changes = [(0, 1, UP), (2, 0, DOWN), (4, 0, UP)]
    servers = [Server(workers=2), Server(), Server(kind=CLOUD), Server()]
    for sites in (1, 2, 4):
        world = chunk_world([ChunkJob(0, 1, 9), ChunkJob(5, 1, 9)], servers, changes=changes)
        policy = scripted(decide, wake=wake, visible=frozenset({"worker_load"}), chunks=True)
        replay(world, policy, sites=sites)
        assert [sorted(workers) for workers in answers] == [[0, 1, 2, 4], [2, 4], [0, 1, 2, 4], [0, 1, 2, 4]]
        answers.clear()


# --- eviction


@pytest.mark.parametrize("sites", [1, 2])
def test_an_evicted_job_leaves_queues_workers_and_its_parameter_server_at_once(sites: int) -> None:
    # One parameter server, on s0. J1: chunk 0 on worker 0, chunk 1 waiting there, chunk 2 on worker 1. J2:
    # one chunk behind J1's on worker 0. J1 is evicted at 2: J2 takes worker and parameter server: 2-6.
    first = dispatch_of([(J1, 0, 0, 0), (J1, 1, 0, 0), (J1, 2, 1, 0), (J2, 0, 0, 1)])
    script = at_times({0.0: ChunkedDecision(dispatch=first), 2.0: Decision(evict=np.array([J1]))})

    def decide(view: ChunkedView) -> Decision:
        if view.reviewed or len(view.arrived):
            return script(view)
        return Decision.of(first_idle_ps(view), review_us=2_000_000 if view.now_us == 0 else NEVER_US)

    policy = scripted(decide, wake=Wake.ARRIVAL | Wake.ACTIVATION | Wake.REVIEW, chunks=True)
    world = chunk_world([ChunkJob(0, 3, 5), ChunkJob(0, 1, 4)], [Server(ps=1), Server(ps=0)])
    result = replay(world, policy, sites=sites)
    assert times_of(result) == {"J1": (0, 2), "J2": (2, 6)}
    assert column_of(result, "status") == {"J1": "evicted", "J2": "completed"}
    assert column_of(result, "reason") == {"J1": "policy", "J2": None}
    assert column_of(result, "run_s") == {"J1": 2, "J2": 4}
    assert column_of(result, "utility") == {"J1": None, "J2": None}
    assert runs_of(result, "J1", 0) == [(0, 2)]
    assert rows_of(result, "evict", "stop") == [
        (2, "evict", "J1", None, None, 0),
        (2, "stop", "J1", "s0", "chunk", 0),
        (2, "stop", "J1", "s1", "chunk", 2),
    ]
    assert result.timeline.select("time_s", "waiting", "running", "used_worker", "used_ps").rows() == [
        (0, 1, 1, 2, 1),
        (2, 0, 1, 1, 1),
        (6, 0, 0, 0, 0),
    ]
    assert (result.summary.evicted, result.summary.preemptions, result.summary.interruptions) == (1, 0, 0)


def test_a_parameter_server_of_an_evicted_job_is_free_for_the_same_decision() -> None:
    # J1 and J2 are trained on two workers, with one parameter server: J1's, until it is evicted at 2.
    sent = ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0), (J2, 0, 1, 0)]))
    swap = Decision.of({J2: [(0, PARAMETER_SERVER, 1)]}, evict=np.array([J1]))
    give = Decision.of({J1: [(0, PARAMETER_SERVER, 1)]})
    policy = scripted(
        at_times({0.0: sent, 1.0: give, 2.0: swap}), wake=Wake.ARRIVAL | Wake.REVIEW, chunks=True
    )
    world = chunk_world([ChunkJob(0, 1, 5), ChunkJob(0, 1, 4)], [Server(workers=2, ps=1)])
    result = replay(world, policy)
    assert times_of(result) == {"J1": (1, 2), "J2": (2, 6)}
    # J1 stood still for 1 s, J2 for 2 s.
    assert chunked_of(result).stalled_s == 3


def test_a_job_that_waits_for_its_upload_can_be_evicted() -> None:
    script = {
        0.0: ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0)])),
        2.0: Decision(evict=np.array([J1])),
    }
    policy = scripted(at_times(script), wake=Wake.ARRIVAL | Wake.REVIEW, chunks=True)
    result = replay(chunk_world([ChunkJob(0, 2, 5, 4)]), policy)
    assert column_of(result, "status") == {"J1": "evicted"}
    assert (times_of(result), column_of(result, "queue_s")) == ({"J1": (None, 2)}, {"J1": 2})


def test_who_is_evicted_within_a_slot_is_not_among_those_who_have_come_at_the_next() -> None:
    # Slots of 10 s. s1 goes at 3 and J1, which loses a chunk there and its parameter server on it, is
    # evicted at once; at 10 nobody has come.
    seen: list[tuple[float, list[int]]] = []

    def decide(view: ChunkedView) -> Decision:
        seen.append((view.now_us / 1e6, view.arrived.tolist()))
        if view.now_us == 3_000_000 and J1 in view.waiting.tolist() + view.running.tolist():
            return Decision(evict=np.array([J1]))
        sent = dispatch_of(
            [(job, unit, unit, 0) for job, unit in np.transpose(view.undispatched(view.arrived)).tolist()]
        )
        return ChunkedDecision.of(first_idle_ps(view), dispatch=sent)

    wake = Wake.ARRIVAL | Wake.ACTIVATION | Wake.SERVER_CHANGE
    policy = scripted(decide, wake=wake, on_slots_only=True, chunks=True)
    world = chunk_world(
        [ChunkJob(0, 2, 50)],
        [Server(ps=0), Server()],
        slot_s=10,
        slot_fill="fractional",
        changes=[(3, 1, DOWN)],
    )
    result = replay(world, policy)
    assert column_of(result, "status") == {"J1": "evicted"}
    assert seen == [(0, [J1]), (0, []), (3, []), (3, []), (10, [])]
