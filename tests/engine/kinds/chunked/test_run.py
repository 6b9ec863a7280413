"""Chunked jobs: queues on workers that go on by themselves, parameter servers, and when a policy is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ray_sim.contract.books import checked_run
from ray_sim.contract.chunked_worlds import busy_chunks, failing_chunks
from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.kinds.chunked.view import ChunkedView
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import FAILED, PARAMETER_SERVER
from ray_sim.model.errors import (
    BlindPolicyError,
    InfeasibleDecisionError,
    InvalidScenarioError,
    RunFailedError,
    RunStoppedError,
)
from ray_sim.model.metrics import Trim
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import (
    CLOUD,
    TWO,
    ChunkJob,
    Script,
    Server,
    chunk_world,
    cluster_of,
    dispatch_of,
    first_idle_ps,
    run_script,
    runs_of,
)
from tests.engine.test_snapshots import Keeper
from tests.figures import chunked_of
from tests.proofs import quick_first
from tests.scripted import scripted
from tests.worlds import DOWN, UP, Job, column_of, events_of, fingerprint, replay, times_of, world_of

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


def test_a_job_without_a_parameter_server_stands_still_until_it_gets_one() -> None:
    # One parameter server, two workers: J1 (3 s) has it until 3 s, J2 (2 s) gets it then and runs 3-5.
    script = {0.0: [(J1, 0, 0, 0), (J2, 0, 1, 0)]}
    result = run_script([ChunkJob(0, 1, 3), ChunkJob(0, 1, 2)], script, [Server(ps=1), Server(ps=0)])
    assert times_of(result) == {"J1": (0, 3), "J2": (3, 5)}
    assert chunked_of(result).stalled_s == 3
    assert column_of(result, "queue_s") == {"J1": 0, "J2": 3}


def test_jobs_without_any_parameter_server_are_stalled() -> None:
    result = run_script([ChunkJob(0, 1, 3), ChunkJob(4, 1, 3)], {0.0: [(J1, 0, 0, 0)], 4.0: [(J2, 0, 0, 0)]},
                 [Server(ps=0)])  # fmt: skip
    assert column_of(result, "reason") == {"J1": "stalled", "J2": "stalled"}
    # J1 has had the worker from 0 to the last instant, 4 s; J2 waits for the worker.
    assert chunked_of(result).stalled_s == 4


def test_a_chunk_whose_job_loses_its_parameter_server_keeps_worker_and_progress() -> None:
    # J1 runs 0-2 of 5 s, has no server 2-6, and is done at 6 + 3 = 9. J2 waits behind it all the time.
    script: dict[int, Decision] = {
        0: ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0), (J2, 0, 0, 1)])),
        2: Decision.of({J1: []}),
        6: Decision.of({J1: [(0, PARAMETER_SERVER, 1)]}),
    }

    def decide(view: ChunkedView) -> Decision:
        now_s = view.now_us // 1_000_000
        following = min((at * 1_000_000 for at in script if at > now_s), default=NEVER_US)
        if view.reviewed or len(view.arrived):
            return replace(script[now_s], review_us=following)
        return Decision.of(first_idle_ps(view), review_us=following)

    wake = Wake.ARRIVAL | Wake.REVIEW | Wake.ACTIVATION
    policy = scripted(decide, wake=wake, chunks=True)
    result = replay(chunk_world([ChunkJob(0, 1, 5), ChunkJob(0, 1, 1)]), policy)
    assert runs_of(result, "J1", 0) == [(0, 2), (6, 9)]
    assert times_of(result) == {"J1": (0, 9), "J2": (9, 10)}
    assert column_of(result, "preemptions") == {"J1": 0, "J2": 0}
    assert chunked_of(result).stalled_s == 4


def test_a_horizon_cuts_chunks_and_standing_still_off() -> None:
    # One parameter server: at 7 s J1 has run for 7 of 10 s, J2 has had a worker and no server for 5.
    world = chunk_world([ChunkJob(0, 1, 10), ChunkJob(2, 1, 1)], [Server(ps=1), Server(ps=0)], horizon_s=7)
    result = replay(world, Script({0.0: [(J1, 0, 0, 0)], 2.0: [(J2, 0, 1, 0)]}))
    assert column_of(result, "reason") == {"J1": "horizon", "J2": "horizon"}
    assert column_of(result, "run_s") == {"J1": 7, "J2": 0}
    assert column_of(result, "queue_s") == {"J1": 0, "J2": 5}
    assert chunked_of(result).stalled_s == 5


def test_a_trimmed_summary_counts_the_standing_still_of_its_jobs_alone() -> None:
    # Without parameter servers J1 stands still 0-4, J2 4-4 (the last instant).
    world = chunk_world([ChunkJob(0, 1, 3), ChunkJob(4, 1, 3)], [Server(2, ps=0)])
    policy = Script({0.0: [(J1, 0, 0, 0)], 4.0: [(J2, 0, 1, 0)]})
    assert chunked_of(run_world(world, policy, trim=Trim(warm_up_s=1))).stalled_s == 0


def test_attained_service_is_the_time_in_which_any_chunk_ran_and_work_left_is_not_observed() -> None:
    # Two chunks of 4 s side by side, from 1 s on: at 3 s they have run for 2 s.
    seen: list[int] = []

    def decide(view: ChunkedView) -> Decision:
        if view.reviewed:
            seen.extend(view.executed_us(np.array([J1])).tolist())
            with pytest.raises(BlindPolicyError, match="work_left, which jobs in chunks have not"):
                view.work_left(np.array([J1]))
        sent = dispatch_of([(J1, 0, 0, 0), (J1, 1, 1, 0)]) if len(view.arrived) else None
        following = 3_000_000 if view.now_us < 3_000_000 else NEVER_US
        return ChunkedDecision.of(first_idle_ps(view), dispatch=sent, review_us=following)

    sees = frozenset({"attained_service", "work_left"})
    policy = scripted(decide, wake=Wake.ARRIVAL | Wake.ACTIVATION, visible=sees, chunks=True)
    replay(chunk_world([ChunkJob(0, 2, 4, 1)], TWO), policy)
    assert seen == [2_000_000]


def test_a_parameter_server_may_move_without_a_pause() -> None:
    moves = {0: [(0, PARAMETER_SERVER, 1)], 2: [(1, PARAMETER_SERVER, 1)]}

    def decide(view: ChunkedView) -> Decision:
        now_s = view.now_us // 1_000_000
        following = 2_000_000 if now_s < 2 else NEVER_US
        sent = dispatch_of([(J1, 0, 0, 0)]) if len(view.arrived) else None
        given = {J1: moves[now_s]} if len(view.active) else {}
        return ChunkedDecision.of(given, dispatch=sent, review_us=following)

    policy = scripted(decide, wake=Wake.ARRIVAL | Wake.ACTIVATION, chunks=True)
    result = replay(chunk_world([ChunkJob(0, 1, 5)], TWO), policy)
    assert times_of(result) == {"J1": (0, 5)}
    rows = [event for event in events_of(result, "J1") if event[2] is not None]
    assert rows == [
        (0, "start", "s0", 1),
        (0, "start", "s0", 0),
        (2, "move", "s1", 1),
        (5, "finish", "s0", 0),
    ]


def test_slotted_policies_are_asked_at_once_about_active_jobs_and_at_slots_about_the_rest() -> None:
    # Slots of 10 s; J1 comes at 0, is uploaded at 4 and asks for a server then; J2 comes at 3, J3 at 12: both
    # wait for the next slot. J1 is done at 9 s, which frees its worker.
    asked: list[tuple[float, list[int], list[int], list[int]]] = []

    def decide(view: ChunkedView) -> Decision:
        asked.append(
            (view.now_us / 1e6, view.arrived.tolist(), view.completed.tolist(), view.active.tolist())
        )
        sent = dispatch_of([(job, 0, 0, 0) for job in view.arrived.tolist()])
        return ChunkedDecision.of(first_idle_ps(view), dispatch=sent)

    wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION
    policy = scripted(decide, wake=wake, on_slots_only=True, chunks=True)
    jobs = [ChunkJob(0, 1, 5, 4), ChunkJob(3, 1, 5, 4), ChunkJob(12, 1, 1, 0)]
    world = chunk_world(jobs, slot_s=10, slot_fill="fractional")
    result = replay(world, policy)
    assert asked == [
        (0, [J1], [], []),
        (4, [], [], [J1]),
        (9, [], [], []),
        (10, [J2], [J1], []),
        (14, [], [], [J2]),
        (19, [], [], []),
        (20, [J3], [J2], []),
        (20, [], [], [J3]),
        (21, [], [], []),
        (30, [], [J3], []),
    ]
    assert times_of(result) == {"J1": (4, 9), "J2": (14, 19), "J3": (20, 21)}


def test_what_is_asked_of_the_sites_are_the_least_loaded_workers_in_any_number_of_sites() -> None:
    # Workers 0, 1 on s0, 2 on s1 (the cloud's, no slot), 3 on s2. At 2 s worker 0 has 5 - 2 and 5 left of J1,
    # worker 1 still 4 that are not uploaded, worker 3 nothing.
    answers: dict[int, list[list[int]]] = {}
    for sites in (1, 2, 3):

        def decide(view: ChunkedView, sites: int = sites) -> Decision:
            if view.reviewed:
                rows = np.transpose(view.least_loaded(np.array([0]), np.array([2])))
                answers[sites] = rows[np.lexsort((rows[:, 0], rows[:, 1]))][:2].tolist()
                everyone = np.transpose(view.least_loaded(np.array([0]), np.array([9])))
                assert everyone[np.argsort(everyone[:, 0])].tolist() == [
                    [0, 8_000_000, 2], [1, 4_000_000, 1], [3, 0, 0],
                ]  # fmt: skip
                return Decision()
            if len(view.arrived):
                sent = dispatch_of([(J1, 0, 0, 0), (J1, 1, 0, 0), (J2, 0, 1, 0)])
                return ChunkedDecision(dispatch=sent, review_us=2_000_000)
            following = 2_000_000 if view.now_us == 0 else NEVER_US
            return Decision.of(first_idle_ps(view), review_us=following)

        wake = Wake.ARRIVAL | Wake.ACTIVATION
        policy = scripted(decide, wake=wake, visible=frozenset({"worker_load"}), chunks=True)
        servers = [Server(workers=2), Server(kind=CLOUD), Server()]
        replay(chunk_world([ChunkJob(0, 2, 5), ChunkJob(0, 1, 4, 3)], servers), policy, sites=sites)
    assert answers == {sites: [[3, 0, 0], [1, 4_000_000, 1]] for sites in (1, 2, 3)}


class Standing(LocalFleet):
    """A fleet that always has something to report and never reports it."""

    @property
    def next_us(self) -> int:
        return 0


@pytest.mark.slow
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


# --- faults


@pytest.mark.parametrize("sites", [1, 2])
def test_a_killed_job_leaves_its_workers_and_its_parameter_server_to_others_at_once(sites: int) -> None:
    # J1 trains its two chunks on worker 0 in turn; its limit is 6 s of training, and it is killed at 7 s, as
    # J2 trained from 2 to 3 s. Then J3's chunk begins, which waited on that worker. J2 fails after its work.
    jobs = [ChunkJob(0, 2, 5), ChunkJob(2, 1, 1), ChunkJob(3, 1, 2)]
    script = {0.0: [(J1, 0, 0, 5), (J1, 1, 0, 5)], 2.0: [(J2, 0, 0, 1)], 3.0: [(J3, 0, 0, 9)]}
    table = chunk_world(jobs).table
    never = NEVER_US
    table = replace(
        table, time_limit_us=np.array([6_000_000, never, never]), endings=np.array([0, FAILED, 0])
    )
    world = build_world(
        table,
        cluster_of([Server(ps=2), Server()]),
        params={"truth": "a_online", "slot_fill": "fractional", "limits": True, "endings": "run"},
    )
    result = run_world(world, Script(script), sites=sites)
    assert column_of(result, "status") == {"J1": "killed", "J2": "failed", "J3": "completed"}
    assert column_of(result, "reason") == {"J1": "limit", "J2": "trace", "J3": None}
    assert {job: end for job, (_, end) in times_of(result).items()} == {"J1": 7, "J2": 3, "J3": 9}
    assert runs_of(result, "J1", 1) == [(6, 7)]
    assert runs_of(result, "J3", 0) == [(7, 9)]
    assert column_of(result, "run_s")["J1"] == 6
    assert result.stops is not None
    assert result.stops.select("time_s", "job_id", "reason").rows() == [(7, "J1", "limit")]


def test_in_whole_slots_a_job_is_killed_at_the_end_of_a_slot() -> None:
    # One slot is 2 s. J1 trains for 4 s, two slots, and completes at its limit of 3 s; J2 is killed there.
    jobs = [ChunkJob(0, 1, 4), ChunkJob(0, 1, 6)]
    table = replace(chunk_world(jobs).table, time_limit_us=np.full(2, 3_000_000))
    params = {"truth": "a_online", "slot_s": 2, "limits": True}
    world = build_world(table, cluster_of(TWO), params=params)
    result = run_world(world, Script({0.0: [(J1, 0, 0, 5), (J2, 0, 1, 5)]}))
    assert times_of(result) == {"J1": (0, 4), "J2": (0, 4)}
    assert column_of(result, "status") == {"J1": "completed", "J2": "killed"}


DANGER = {"deadlines": "danger", "slack": 4.0}


@pytest.mark.parametrize(
    ("policy", "params"), [("a_online", DANGER), ("chunk_las", {}), ("chunk_earliest_finish", {})]
)
@pytest.mark.parametrize(("made", "seed"), quick_first([(busy_chunks, 0), (failing_chunks, 1)]))
def test_runs_with_killed_jobs_are_equal_on_sites_and_restored(
    policy: str, params: Mapping[str, object], made: Callable[[int, int], World], seed: int
) -> None:
    new_policy = partial(create_policy, policy, params)
    calm = made(40, seed)
    draw = Streams(seed).generator("limits")
    table = replace(
        calm.table,
        time_limit_us=draw.integers(60, 900, 40) * US_PER_S,
        killed_us=np.where(draw.random(40) < 0.3, draw.integers(0, 900, 40) * US_PER_S, NEVER_US),
        endings=np.where(np.arange(40) % 5 == 0, FAILED, 0),
    )
    world = build_world(table, calm.cluster, params={**calm.params, "limits": True, "endings": "wall"})
    whole = checked_run(world, new_policy())
    assert set(whole.jobs["reason"].drop_nulls()) >= {"limit", "killed", "trace"}
    assert fingerprint(run_world(world, new_policy())) == fingerprint(whole)
    assert fingerprint(run_world(world, new_policy(), sites=3)) == fingerprint(whole)
    for decisions in (4, 11, 18):
        keeper = Keeper(stop_after=decisions)
        with pytest.raises(RunStoppedError):
            run_world(world, new_policy(), keeper=keeper)
        again = run_world(world, new_policy(), keeper=Keeper(state=keeper.state))
        assert fingerprint(again) == fingerprint(whole)


def killed_after(world: World, limits_s: list[float], **params: object) -> World:
    """The world where jobs are killed so long after their submission."""
    killed_us = (np.array(limits_s) * US_PER_S).astype(np.int64)
    given = {**world.params, "endings": "wall", **params}
    return build_world(replace(world.table, killed_us=killed_us), world.cluster, params=given)


def test_the_next_job_gets_a_parameter_server_within_the_slot_in_which_one_is_killed() -> None:
    # One worker, slots of 10 s. J1 would train until 20 s and is killed at 7 s; J2 trains from there on.
    calm = chunk_world([ChunkJob(0, 1, 20), ChunkJob(0, 1, 5)], slot_s=10)
    result = run_world(killed_after(calm, [7, 100], slot_fill="fractional"), create_policy("chunk_fifo"))
    assert times_of(result) == {"J1": (0, 7), "J2": (7, 12)}


def test_a_job_that_is_killed_while_no_worker_may_train_it_is_forgotten() -> None:
    jobs = [ChunkJob(0, 1, 5), ChunkJob(3, 1, 5), ChunkJob(3, 1, 5)]
    calm = chunk_world(jobs, slot_s=1, changes=[(2, 0, DOWN), (9, 0, UP)])
    result = run_world(killed_after(calm, [4, 3, 100]), create_policy("chunk_fifo"))
    assert times_of(result) == {"J1": (0, 4), "J2": (None, 6), "J3": (9, 14)}
    assert column_of(result, "status") == {"J1": "killed", "J2": "killed", "J3": "completed"}


def test_faults_that_chunked_jobs_cannot_suffer_are_refused_by_name() -> None:
    table, servers = chunk_world([ChunkJob(0, 1, 5)]).table, cluster_of(TWO)
    with pytest.raises(InvalidScenarioError, match="attempts: the attempts of a trace are told in time"):
        build_world(table, servers, params={"truth": "a_online", "attempts": "replay"})
