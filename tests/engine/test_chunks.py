"""Chunked jobs: queues on workers that go on by themselves, parameter servers, and who may do what."""

from __future__ import annotations

import pytest

from ray_sim.engine.decision import Decision
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.model.errors import (
    InfeasibleDecisionError,
)
from ray_sim.model.metrics import Trim
from tests.chunk_worlds import (
    CLOUD,
    TWO,
    ChunkJob,
    Script,
    Server,
    chunk_world,
    dispatch_of,
    run_script,
    runs_of,
)
from tests.figures import chunked_of
from tests.worlds import DOWN, UP, column_of, events_of, replay, times_of

J1, J2, J3 = 0, 1, 2


# --- order and preemption


@pytest.mark.parametrize(("slot_s", "overtake"), [(1, True), (None, True), (1, False), (None, False)])
def test_the_slots_of_the_papers_example(slot_s: float | None, overtake: bool) -> None:
    # Example 2.A, one worker, keys D p: chunk 1 (D=2, p=4, r=0) key 8, chunk 2 (D=1, p=2, r=2) key 2,
    # chunk 3 (D=4, p=3, r=3) key 12; one slot of upload each. Slot t is [t, t + 1): chunk 1 in slots 1, 2,
    # then 5, 6; chunk 2 in 3 and 4; chunk 3 in 7 to 9. Without preemption chunk 1 in slots 1 to 4, chunk 2 in
    # 5 and 6.
    jobs = [ChunkJob(0, 2, 4, 1), ChunkJob(2, 1, 2, 1), ChunkJob(3, 4, 3, 1)]
    script = {0.0: [(J1, 0, 0, 8)], 2.0: [(J2, 0, 0, 2)], 3.0: [(J3, 0, 0, 12)]}
    result = run_script(jobs, script, [Server()], slot_s=slot_s, overtake=overtake)
    runs = [runs_of(result, "J1", 0), runs_of(result, "J2", 0)]
    assert runs == ([[(1, 3), (5, 7)], [(3, 5)]] if overtake else [[(1, 5)], [(5, 7)]])
    assert runs_of(result, "J3", 0) == [(7, 10)]
    # F, the mean time of training less the submission, plus p / 2, of each chunk over its D: (4 + 2) / 2 +
    # (4 - 2 + 1) / 1 + (8.5 - 3 + 1.5) / 4 = 7.75, or (3 + 2) / 2 + (6 - 2 + 1) / 1 + 1.75 = 9.25.
    total = 0.0
    for number, job in enumerate(jobs):
        spans = runs_of(result, f"J{number + 1}", 0)
        mean = sum(end * end - begin * begin for begin, end in spans) / (2 * job.chunk_s)
        total += (mean - job.submit_s + job.chunk_s / 2) / job.chunks
    assert total == (7.75 if overtake else 9.25)


@pytest.mark.parametrize(("slot_s", "cost_s", "paid_s"), [(1, 1, 1), (1, 0.3, 1), (None, 0.3, 0.3)])
def test_a_preemption_costs_the_chunk_that_loses_its_worker(
    slot_s: float | None, cost_s: float, paid_s: float
) -> None:
    # Example 2.A: chunk 2 takes the worker from chunk 1 at 3, after 2 of its 4 slots, and has it until 5.
    # Chunk 1 needs its other 2 slots and what the preemption costs, in whole slots a whole one: 7 + cost.
    # Chunk 3 follows for 3 slots.
    jobs = [ChunkJob(0, 2, 4, 1), ChunkJob(2, 1, 2, 1), ChunkJob(3, 4, 3, 1)]
    script = {0.0: [(J1, 0, 0, 8)], 2.0: [(J2, 0, 0, 2)], 3.0: [(J3, 0, 0, 12)]}
    world = chunk_world(jobs, [Server()], slot_s=slot_s, preemption_cost_s=cost_s)
    result = replay(world, Script(script))
    assert runs_of(result, "J1", 0) == [(1, 3), (5, 7 + paid_s)]
    assert runs_of(result, "J2", 0) == [(3, 5)]
    assert runs_of(result, "J3", 0) == [(7 + paid_s, 10 + paid_s)]
    assert result.summary.preemptions == 1
    assert chunked_of(result).preemption_cost_s == paid_s


def test_a_chunk_preempted_twice_pays_twice_and_lost_time_is_training_alone() -> None:
    # J1 (6 s, cost 2 s): trains 0-1; J2 1-2; J1 owes 2 s, pays 1 of them 2-3; J3 3-4; J1 owes 3 s, pays 4-7
    # and trains 7-9, when the server goes: 1 + 2 = 3 s are lost. It is back at 10: J1 anew, 10-16.
    jobs = [ChunkJob(0, 1, 6), ChunkJob(1, 1, 1), ChunkJob(3, 1, 1)]
    script = {0.0: [(J1, 0, 0, 5)], 1.0: [(J2, 0, 0, 0)], 3.0: [(J3, 0, 0, 0)]}
    world = chunk_world(jobs, [Server()], preemption_cost_s=2, changes=[(9, 0, DOWN), (10, 0, UP)])
    result = replay(world, Script(script))
    assert runs_of(result, "J1", 0) == [(0, 1), (2, 3), (4, 9), (10, 16)]
    assert column_of(result, "lost_s")["J1"] == 3
    assert (result.summary.preemptions, chunked_of(result).preemption_cost_s) == (2, 4)


@pytest.mark.parametrize("sites", [1, 2])
def test_a_job_given_a_smaller_key_takes_its_workers_at_once(sites: int) -> None:
    # On each of two workers J1 (4 s) runs first, then J2 (3 s), whose key goes below J1's at 1. At 2 J1 is
    # put before J2 again: J1 2-5, J2 5-7.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 1, 5), (J2, 0, 0, 6), (J2, 1, 1, 6)]}
    policy = Script(script, keys={1.0: [(J2, 4)], 2.0: [(J1, 3)]})
    result = replay(chunk_world([ChunkJob(0, 2, 4), ChunkJob(0, 2, 3)], TWO), policy, sites=sites)
    for unit in (0, 1):
        assert runs_of(result, "J1", unit) == [(0, 1), (2, 5)]
        assert runs_of(result, "J2", unit) == [(1, 2), (5, 7)]


def test_a_job_given_a_larger_key_makes_way() -> None:
    # J1 runs 0-1; its key goes above J2's: J2 1-4, J1 4-7.
    script = {0.0: [(J1, 0, 0, 5), (J2, 0, 0, 6)]}
    policy = Script(script, keys={1.0: [(J1, 7)]})
    result = replay(chunk_world([ChunkJob(0, 1, 4), ChunkJob(0, 1, 3)], [Server()]), policy)
    assert times_of(result) == {"J1": (0, 7), "J2": (1, 4)}


@pytest.mark.parametrize("sites", [1, 2])
def test_a_chunk_with_a_smaller_key_overtakes_the_running_one_which_keeps_its_progress(sites: int) -> None:
    # Worker 0: the first of J1's two chunks of 3 s runs 0-1; J2's (2 s, smaller key) 1-3; J1's first goes
    # on 3-5, its second 5-8.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 1.0: [(J2, 0, 0, 1)]}
    result = run_script([ChunkJob(0, 2, 3), ChunkJob(1, 1, 2)], script, sites=sites)
    assert result.loop_reason == "the compiled loop does not simulate these chunked jobs"
    assert times_of(result) == {"J1": (0, 8), "J2": (1, 3)}
    assert column_of(result, "jct_s") == {"J1": 8, "J2": 2}
    assert column_of(result, "preemptions") == {"J1": 1, "J2": 0}
    # While J2 runs, no chunk of J1 does, and J1 has no use for its parameter server.
    assert (column_of(result, "run_s")["J1"], column_of(result, "queue_s")["J1"]) == (6, 2)
    # (time, event, server, number of the chunk or of parameter servers)
    assert events_of(result, "J1") == [
        (0, "submit", None, 0),
        (0, "start", "s0", 1),
        (0, "start", "s0", 0),
        (1, "stop", "s0", 0),
        (1, "stop", "s0", 1),
        (3, "start", "s0", 1),
        (3, "start", "s0", 0),
        (5, "finish", "s0", 0),
        (5, "start", "s0", 1),
        (8, "finish", "s0", 1),
        (8, "finish", None, 0),
    ]


def test_a_chunk_that_does_not_overtake_waits_for_the_end_of_the_running_one() -> None:
    # J2's key is smaller, but J1's first chunk runs 0-3; then J2's 3-5, then J1's second 5-8.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 1.0: [(J2, 0, 0, 1)]}
    result = run_script([ChunkJob(0, 2, 3), ChunkJob(1, 1, 2)], script, overtake=False)
    assert times_of(result) == {"J1": (0, 8), "J2": (3, 5)}
    assert column_of(result, "preemptions") == {"J1": 0, "J2": 0}


@pytest.mark.parametrize("sites", [1, 2])
def test_chunks_with_equal_keys_are_served_in_the_order_of_dispatch(sites: int) -> None:
    # 0-3, 3-6 for J1, then 6-8 for J2.
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 1.0: [(J2, 0, 0, 5)]}
    result = run_script([ChunkJob(0, 2, 3), ChunkJob(1, 1, 2)], script, sites=sites)
    assert times_of(result) == {"J1": (0, 6), "J2": (6, 8)}


def test_of_equal_keys_the_earlier_dispatched_overtakes_when_its_upload_ends_later() -> None:
    # J1's upload takes 2 s, J2's none: J2 runs 0-2, J1 2-5, J2 5-7.
    script = {0.0: [(J1, 0, 0, 5), (J2, 0, 0, 5)]}
    result = run_script([ChunkJob(0, 1, 3, 2), ChunkJob(0, 1, 4)], script)
    assert times_of(result) == {"J1": (2, 5), "J2": (0, 7)}


@pytest.mark.parametrize("sites", [1, 2])
def test_a_job_ends_with_its_last_chunk_wherever_it_is(sites: int) -> None:
    # Four chunks of 3 s: one on worker 0, three on worker 1, which ends at 9 s.
    script = {0.0: [(J1, 0, 0, 0), (J1, 1, 1, 0), (J1, 2, 1, 0), (J1, 3, 1, 0)]}
    result = run_script([ChunkJob(0, 4, 3)], script, sites=sites)
    assert times_of(result) == {"J1": (0, 9)}
    assert result.timeline.select("time_s", "used_worker", "used_ps").rows() == [
        (0, 2, 1), (3, 1, 1), (6, 1, 1), (9, 0, 0),
    ]  # fmt: skip


def test_a_job_waits_until_its_first_chunk_runs_and_may_be_dispatched_in_parts() -> None:
    # Submitted at 0, first chunk at 2-5, the other only from 9 s on: 9-12; nothing runs in between.
    result = run_script([ChunkJob(0, 2, 3)], {2.0: [(J1, 0, 0, 0)], 9.0: [(J1, 1, 1, 0)]})
    assert times_of(result) == {"J1": (2, 12)}
    assert (column_of(result, "queue_s")["J1"], column_of(result, "run_s")["J1"]) == (6, 6)


def test_chunks_without_length_pass_in_an_instant() -> None:
    result = run_script([ChunkJob(0, 3, 0)], {1.0: [(J1, 0, 0, 0), (J1, 1, 0, 0), (J1, 2, 1, 0)]})
    assert times_of(result) == {"J1": (1, 1)}


# --- times


def test_whole_slots_round_uploads_and_lengths_up_and_microseconds_do_not() -> None:
    # Slots of 10 s. J2: submitted at 3 s, uploaded by 3 + 4 = 7 s, 12 s long. Whole: ready at 10, two
    # slots, until 30 s. Fractional: 7-19. J1 fills slots 0 and 1 exactly.
    jobs = [ChunkJob(0, 1, 20), ChunkJob(3, 1, 12, 4)]
    script = {0.0: [(J1, 0, 0, 0)], 3.0: [(J2, 0, 1, 0)]}
    assert times_of(run_script(jobs, script, slot_s=10)) == {"J1": (0, 20), "J2": (10, 30)}
    assert times_of(run_script(jobs, script)) == {"J1": (0, 20), "J2": (7, 19)}


def test_the_share_of_whole_slots_that_is_rounding_is_told() -> None:
    # The jobs of above: 20 + 20 s of slots for 20 + 12 s of training; J2 is uploaded 3-10 for 4 s. J1 has no
    # upload. Nothing is rounded in microseconds.
    jobs = [ChunkJob(0, 1, 20), ChunkJob(3, 1, 12, 4)]
    script = {0.0: [(J1, 0, 0, 0)], 3.0: [(J2, 0, 1, 0)]}
    whole = chunked_of(run_script(jobs, script, slot_s=10))
    fractional = chunked_of(run_script(jobs, script))
    assert (whole.ceil_share, whole.upload_ceil_share) == (8 / 40, 3 / 7)
    assert (fractional.ceil_share, fractional.upload_ceil_share) == (0, 0)


def test_a_trimmed_summary_tells_the_rounding_of_its_jobs_alone() -> None:
    # Warm-up of 1 s: J2 alone, 12 s in slots of 10 s.
    world = chunk_world([ChunkJob(0, 1, 20), ChunkJob(3, 1, 12, 4)], TWO, slot_s=10)
    script = {0.0: [(J1, 0, 0, 0)], 3.0: [(J2, 0, 1, 0)]}
    assert chunked_of(run_world(world, Script(script), trim=Trim(warm_up_s=1))).ceil_share == 8 / 20


def test_a_faster_server_takes_less_for_training_and_as_much_for_communication() -> None:
    # 12 s of training at speed 1 and 2 s of exchange: 12 / 2 + 2 = 8 s on the fast server.
    script = {0.0: [(J1, 0, 0, 0), (J2, 0, 1, 0)]}
    servers = [Server(speed=2.0), Server()]
    result = run_script([ChunkJob(0, 1, 12, exchange_s=2), ChunkJob(0, 1, 12, exchange_s=2)], script, servers)
    assert times_of(result) == {"J1": (0, 8), "J2": (0, 14)}


def test_workers_are_numbered_by_server_and_then_by_slot() -> None:
    # Three workers on s0, two on s1: worker 3 is the first of s1. All run side by side.
    script = {0.0: [(J1, unit, worker, 0) for unit, worker in enumerate([0, 2, 3, 4])]}
    result = run_script([ChunkJob(0, 4, 5)], script, [Server(workers=3), Server(workers=2)])
    chunks = [event for event in events_of(result, "J1") if event[1] == "start"][1:]
    assert chunks == [
        (0, "start", "s0", 0),
        (0, "start", "s0", 1),
        (0, "start", "s1", 2),
        (0, "start", "s1", 3),
    ]
    assert times_of(result) == {"J1": (0, 5)}


# --- the cloud


def test_a_cloud_worker_is_a_new_one_for_each_chunk_and_never_queues() -> None:
    # Fifty chunks of 5 s on the one number of the cloud, uploaded at 2 s: all run 2-7.
    script = {0.0: [(J1, unit, 1, 0) for unit in range(50)]}
    result = run_script([ChunkJob(0, 50, 5, 1, 2)], script, [Server(), Server(kind=CLOUD)])
    assert times_of(result) == {"J1": (2, 7)}
    # What is on demand is not in use of anything bounded.
    assert result.timeline["used_worker"].max() == 0
    assert result.summary.utilisation == {"worker": 0.0, "ps": 0.0}


def test_a_job_trained_in_the_cloud_alone_has_no_communication() -> None:
    # 3 s of training and 4 s of exchange. J1 is in the cloud whole: 3 s. J2 has one chunk on the edge: 7 s,
    # also in the cloud. J3 goes to the cloud whole, but in two parts: nobody knew, 7 s.
    jobs = [ChunkJob(0, 2, 3, exchange_s=4)] * 3
    script = {
        0.0: [(J1, 0, 1, 0), (J1, 1, 1, 0), (J2, 0, 0, 0), (J2, 1, 1, 0), (J3, 0, 1, 0)],
        1.0: [(J3, 1, 1, 0)],
    }
    result = run_script(jobs, script, [Server(), Server(kind=CLOUD)])
    assert times_of(result) == {"J1": (0, 3), "J2": (0, 7), "J3": (0, 8)}


def test_a_job_in_the_cloud_alone_has_its_parameter_server_there() -> None:
    world = chunk_world([ChunkJob(0, 1, 3)], [Server(), Server(kind=CLOUD)])
    simulation = Simulation(world, Script({}))
    assert simulation.advance() is not None
    simulation.apply(ChunkedDecision(dispatch=dispatch_of([(J1, 0, 1, 0)])))
    assert simulation.advance() is not None
    with pytest.raises(InfeasibleDecisionError, match="parameter server on s0, but all its workers are in"):
        simulation.apply(Decision.of({J1: [(0, PARAMETER_SERVER, 1)]}))
    simulation.apply(Decision.of({J1: [(1, PARAMETER_SERVER, 1)]}))
