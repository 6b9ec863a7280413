"""Each chunk on the least loaded worker: chunk_fifo and chunk_spt."""

from __future__ import annotations

import pytest

from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, EDGE, PLAIN, ChunkJob, Server, chunk_world, run, runs_of
from tests.figures import chunked_of
from tests.worlds import DOWN, UP, Times, column_of, events_of, replay, times_of

JOBS = [ChunkJob(0, 3, 4), ChunkJob(1, 2, 1)]
"""J1's chunks of 4 s to workers 0, 1 and, at equal loads, 0 again. At 1 s they have 7 and 3 s left: both of
J2's (1 s) to worker 1."""


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
