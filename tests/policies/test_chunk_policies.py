"""Baselines for chunks: chunk_fifo and chunk_spt, earliest finish, LAS and SRPT."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, EDGE, PLAIN, ChunkJob, Server, chunk_world, runs_of
from tests.figures import chunked_of
from tests.worlds import DOWN, UP, Change, Times, column_of, events_of, replay, times_of

JOBS = [ChunkJob(0, 3, 4), ChunkJob(1, 2, 1)]
"""J1's chunks of 4 s to workers 0, 1 and, at equal loads, 0 again. At 1 s they have 7 and 3 s left: both of
J2's (1 s) to worker 1."""


def run(
    policy: str,
    jobs: Sequence[ChunkJob],
    servers: Sequence[Server],
    changes: Sequence[Change] = (),
    **params: object,
) -> RunResult:
    return replay(chunk_world(jobs, servers, slot_s=1, changes=changes), create_policy(policy, params))


@pytest.mark.parametrize(
    ("policy", "params", "times", "preemptions"),
    [
        # Worker 0: J1 0-4, 4-8. Worker 1: J1 0-4, J2 4-5, 5-6.
        ("chunk_fifo", {}, {"J1": (0, 8), "J2": (4, 6)}, 0),
        # Worker 1: J1 0-1, J2 1-2, 2-3, J1 3-6.
        ("chunk_spt", {"preempt": True}, {"J1": (0, 8), "J2": (1, 3)}, 1),
        ("chunk_spt", {}, {"J1": (0, 8), "J2": (4, 6)}, 0),
    ],
)
def test_chunks_go_to_the_least_loaded_worker(
    policy: str, params: dict[str, object], times: Times, preemptions: int
) -> None:
    result = replay(chunk_world(JOBS, [Server(workers=2)], slot_s=1), create_policy(policy, params))
    assert times_of(result) == times
    assert result.summary.preemptions == preemptions
    assert result.summary.utilisation["worker"] == (3 * 4 + 2 * 1) / (2 * 8)


def test_waiting_chunks_are_served_shortest_first() -> None:
    # While J1 (5 s) runs, J2 (4 s), J3 (1 s) and J4 (1 s) queue: 5-6 J3, 6-7 J4, 7-11 J2.
    jobs = [ChunkJob(0, 1, 5), ChunkJob(1, 1, 4), ChunkJob(2, 1, 1), ChunkJob(3, 1, 1)]
    result = run("chunk_spt", jobs, [Server()])
    assert times_of(result) == {"J1": (0, 5), "J2": (7, 11), "J3": (5, 6), "J4": (6, 7)}


def test_a_first_come_chunk_is_not_interrupted_by_an_earlier_one_that_took_longer_to_upload() -> None:
    jobs = [ChunkJob(0, 1, 4, 2), ChunkJob(0, 1, 3, 0)]
    assert times_of(run("chunk_fifo", jobs, [Server()])) == {"J1": (3, 7), "J2": (0, 3)}


def test_load_is_time_on_the_workers_own_server() -> None:
    # Chunks of 4 s: 2 s on the fast worker. Fast has 0, slow 0: fast (2); slow (4); fast (4); fast, lower
    # number (6).
    result = run("chunk_fifo", [ChunkJob(0, 4, 4)], [Server(speed=2.0), Server()])
    assert [runs_of(result, "J1", unit) for unit in range(4)] == [[(0, 2)], [(0, 4)], [(2, 4)], [(4, 6)]]


def test_without_edge_workers_all_chunks_go_to_the_cloud_with_their_parameter_server() -> None:
    # Uploaded by 5 s; 4 s of training and no communication: 5-9.
    jobs = [ChunkJob(0, 3, 4, 1, 5, exchange_s=2)]
    servers = [Server(workers=0, kind=EDGE), Server(kind=CLOUD), Server(kind=CLOUD)]
    result = run("chunk_fifo", jobs, servers)
    assert times_of(result) == {"J1": (5, 9)}
    assert {event[2] for event in events_of(result, "J1")} == {None, "s1"}


def test_a_cloud_is_left_alone_where_there_is_an_edge() -> None:
    result = run("chunk_spt", [ChunkJob(0, 9, 4)], [Server(kind=CLOUD), Server(kind=PLAIN)])
    assert times_of(result) == {"J1": (0, 36)}


def test_each_partition_has_its_own_workers() -> None:
    jobs = [ChunkJob(0, 2, 4, vc="a"), ChunkJob(0, 2, 4, 0, 7, vc="b")]
    servers = [Server(vc="a"), Server(vc="b", kind=CLOUD)]
    result = replay(chunk_world(jobs, servers, slot_s=1, partition="vc"), "chunk_fifo")
    assert times_of(result) == {"J1": (0, 8), "J2": (7, 11)}


def test_a_parameter_server_is_kept_while_the_job_is_active_and_idle_ones_go_in_order() -> None:
    # Three workers, two parameter servers on s0 and s1. J1 and J2 take them at 0, J3 has to wait: J2 ends
    # at 2 s, J3 runs 2-5. J1 keeps s0 throughout.
    servers = [Server(ps=1), Server(ps=1), Server(ps=0)]
    result = run("chunk_fifo", [ChunkJob(0, 1, 6), ChunkJob(0, 1, 2), ChunkJob(0, 1, 3)], servers)
    assert times_of(result) == {"J1": (0, 6), "J2": (0, 2), "J3": (2, 5)}
    given = result.events.filter(result.events["role"] == "ps").select("time_s", "event", "job_id", "server")
    assert given.rows() == [(0, "start", "J1", "s0"), (0, "start", "J2", "s1"), (2, "start", "J3", "s1")]
    assert chunked_of(result).stalled_s == 2
    assert column_of(result, "queue_s") == {"J1": 0, "J2": 0, "J3": 2}


@pytest.mark.parametrize("policy", ["chunk_fifo", "chunk_spt"])
def test_lost_chunks_go_to_the_least_loaded_workers_that_are_left(policy: str) -> None:
    # J1's chunks of 4 s to workers 0, 1, 2 and again 0. s0 goes at 2: worker 1 and 2 have 2 s left each, so
    # chunk 0 goes to worker 1 and chunk 3 to worker 2, where they run 4-8. Lost: 2 s.
    result = run(policy, [ChunkJob(0, 4, 4)], [Server(ps=0), Server(), Server()], [(2, 0, DOWN)])
    assert [runs_of(result, "J1", unit) for unit in range(4)] == [
        [(0, 2), (4, 8)], [(0, 4)], [(0, 4)], [(4, 8)]
    ]  # fmt: skip
    assert column_of(result, "lost_s") == {"J1": 2}


@pytest.mark.parametrize("policy", ["chunk_fifo", "chunk_spt"])
def test_jobs_for_which_no_server_is_there_wait_for_one_that_comes_back(policy: str) -> None:
    # The edge is away from 1 to 5; the cloud is for jobs without edge slots. J1 (lost at 1) goes first.
    servers = [Server(), Server(kind=CLOUD)]
    jobs = [ChunkJob(0, 1, 4), ChunkJob(2, 1, 4)]
    result = run(policy, jobs, servers, [(1, 0, DOWN), (5, 0, UP)])
    assert times_of(result) == {"J1": (0, 9), "J2": (9, 13)}


@pytest.mark.parametrize("policy", ["chunk_fifo", "chunk_spt"])
def test_where_the_cloud_goes_jobs_go_to_another_or_wait_for_it(policy: str) -> None:
    # s0 goes at 2: J1 to s1, uploaded by 3, 3-7; that goes at 4, both are away until s0 is back at 6: 7-11.
    servers = [Server(kind=CLOUD), Server(kind=CLOUD)]
    changes = [(2, 0, DOWN), (4, 1, DOWN), (6, 0, UP)]
    result = run(policy, [ChunkJob(0, 2, 4, 0, 1)], servers, changes)
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(1, 2), (3, 4), (7, 11)]] * 2
    assert column_of(result, "interruptions") == {"J1": 2}


def test_earliest_finish_weighs_queue_upload_and_computation_at_the_edge_and_in_the_cloud() -> None:
    # J1 to worker 0, 0-8. J2: max(2, 8) + 4 = 12 there, max(2, 0) + 4 = 6 on worker 1: 2-6. J3: 12 on worker
    # 0, max(2, 4) + 4 = 8 on worker 1, and 3 + 4 = 7 in the cloud.
    jobs = [ChunkJob(0, 1, 8, 0, 99), ChunkJob(0, 1, 4, 2, 99), ChunkJob(0, 1, 4, 2, 3)]
    result = run("chunk_earliest_finish", jobs, [Server(workers=2), Server(kind=CLOUD)])
    assert times_of(result) == {"J1": (0, 8), "J2": (2, 6), "J3": (3, 7)}
    assert result.summary.policy_counts == {"to_edge": 2, "to_cloud": 1, "mixed": 0}


def test_earliest_finish_takes_the_worker_with_less_work_if_the_upload_takes_longer() -> None:
    # Both workers would finish J2 at 4 + 2, but worker 0 has J1 in upload.
    result = run("chunk_earliest_finish", [ChunkJob(0, 1, 3, 4), ChunkJob(0, 1, 2, 4)], [Server(workers=2)])
    assert times_of(result) == {"J1": (4, 7), "J2": (4, 6)}


def test_earliest_finish_prefers_a_faster_worker_with_more_work() -> None:
    # J1 takes 4 s on the fast worker. J2, of 6 s there and 12 s on the slow one, is done at 10 and at 12.
    jobs = [ChunkJob(0, 1, 8), ChunkJob(0, 1, 12)]
    result = run("chunk_earliest_finish", jobs, [Server(), Server(speed=2.0)])
    assert times_of(result) == {"J1": (0, 4), "J2": (4, 10)}


def test_earliest_finish_is_chunk_fifo_on_workers_of_one_speed_without_a_cloud() -> None:
    jobs = [ChunkJob(i // 2, 1 + i % 3, 1 + i % 5, i % 4) for i in range(20)]
    one, other = (
        run(policy, jobs, [Server(workers=3)]) for policy in ("chunk_earliest_finish", "chunk_fifo")
    )
    assert one.jobs.equals(other.jobs)


def test_las_serves_the_job_with_the_least_training_done() -> None:
    # Training done at 1: 1, 0, so J2; at 2: 1, 1, so J1, sent first; at 3: 2, 1, so J2, done at 4.
    result = run("chunk_las", [ChunkJob(0, 1, 4), ChunkJob(1, 1, 2)], [Server()], preempt=True)
    assert [runs_of(result, "J1", 0), runs_of(result, "J2", 0)] == [
        [(0, 1), (2, 3), (4, 6)], [(1, 2), (3, 4)]
    ]  # fmt: skip
    # Without preemption J1 trains its chunk to the end.
    assert times_of(run("chunk_las", [ChunkJob(0, 1, 4), ChunkJob(1, 1, 2)], [Server()])) == {
        "J1": (0, 4),
        "J2": (4, 6),
    }


def test_las_counts_the_training_of_all_chunks_of_a_job() -> None:
    # J1's chunks on both workers have 2 s each at 2, 4 together; J2's on worker 0 has done 3 s at 5, so it
    # keeps it until it is done at 6. On worker 1 nobody else waits.
    result = run("chunk_las", [ChunkJob(0, 2, 6), ChunkJob(2, 1, 4)], [Server(workers=2)], preempt=True)
    assert runs_of(result, "J2", 0) == [(2, 6)]
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(0, 2), (6, 10)], [(0, 6)]]


def test_srpt_compares_what_is_left_of_jobs() -> None:
    # At 3 J1 has 2 s left and J2 needs 3: J1 goes on, which chunk_spt would preempt. At 5 J2 begins. At 6 it
    # has 2 s left, as many as J3, and goes on.
    jobs = [ChunkJob(0, 1, 5), ChunkJob(3, 1, 3), ChunkJob(6, 1, 2)]
    assert times_of(run("chunk_srpt", jobs, [Server()], preempt=True)) == {
        "J1": (0, 5),
        "J2": (5, 8),
        "J3": (8, 10),
    }
    assert times_of(run("chunk_spt", jobs, [Server()], preempt=True)) == {
        "J1": (0, 10),
        "J2": (3, 6),
        "J3": (6, 8),
    }


def test_srpt_adds_up_what_is_left_of_all_chunks_of_a_job() -> None:
    # J1 has 4 s left in two chunks of 2, J2 3 s in one: J2 goes first.
    result = run("chunk_srpt", [ChunkJob(0, 2, 2), ChunkJob(0, 1, 3)], [Server()])
    assert times_of(result) == {"J1": (3, 7), "J2": (0, 3)}


@pytest.mark.parametrize("policy", ["chunk_earliest_finish", "chunk_las", "chunk_srpt"])
def test_lost_chunks_go_where_they_finish_earliest(policy: str) -> None:
    # J1's chunks of 4 s to workers 0 and 1; s0 goes at 2. Worker 1 has 2 s left: 8; the cloud 2 + 3 + 4 = 9.
    servers = [Server(ps=0), Server(), Server(kind=CLOUD)]
    result = run(policy, [ChunkJob(0, 2, 4, 0, 3)], servers, [(2, 0, DOWN)])
    assert [runs_of(result, "J1", unit) for unit in (0, 1)] == [[(0, 2), (4, 8)], [(0, 4)]]
