"""Each chunk where it finishes earliest: chunk_earliest_finish, chunk_las and chunk_srpt."""

from __future__ import annotations

import pytest

from tests.chunk_worlds import CLOUD, ChunkJob, Server, run, runs_of
from tests.worlds import DOWN, times_of


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
