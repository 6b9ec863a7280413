"""Parameter servers of chunked jobs: waiting for one, losing it, moving it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.kinds.chunked.view import ChunkedView
from ray_sim.engine.run import run_world
from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.model.errors import (
    BlindPolicyError,
)
from ray_sim.model.metrics import Trim
from ray_sim.model.units import NEVER_US
from tests.chunk_worlds import (
    TWO,
    ChunkJob,
    Script,
    Server,
    chunk_world,
    dispatch_of,
    first_idle_ps,
    run_script,
    runs_of,
)
from tests.figures import chunked_of
from tests.scripted import scripted
from tests.worlds import column_of, events_of, replay, times_of

J1, J2, J3 = 0, 1, 2


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
