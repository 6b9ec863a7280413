"""Who may train and serve chunked jobs: workers and parameter servers with the memory (2.1, choice C8)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.world import World
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, ChunkJob, Row, Script, Server, chunk_world, due_us_of
from tests.engine.kinds.chunked.test_against_naive_slots import Case, cases, with_memory
from tests.figures import chunked_of
from tests.proofs import instances
from tests.worlds import fingerprint, replay, times_of

POLICIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("a_online", {}),
    ("a_online", {"exact_q": True}),
    ("a_online", {"dispatch": "least_loaded"}),
    ("a_online", {"dispatch": "random"}),
    ("chunk_fifo", {}),
    ("chunk_spt", {}),
    ("chunk_earliest_finish", {}),
)
IN_EVERY_SLOT: tuple[str, dict[str, object]] = ("chunk_srpt", {})
"""It decides in every slot, also while a job has no parameter server, and so takes 10,000 decisions there."""
SOME_POLICIES = ("a_online", "chunk_fifo", "chunk_spt", "chunk_earliest_finish", "chunk_las")
every_policy = pytest.mark.parametrize(
    ("name", "params"), [*POLICIES, pytest.param(*IN_EVERY_SLOT, marks=pytest.mark.long)], ids=str
)


def run(world: World, name: str, params: dict[str, object]) -> RunResult:
    return replay(world, create_policy(name, params))


def places(result: RunResult, role: str) -> set[tuple[str, str]]:
    """Jobs and the servers on which they had chunks in progress, or a parameter server."""
    rows = result.events.filter((pl.col("role") == role) & pl.col("server").is_not_null())
    return set(rows.select("job_id", "server").rows())


@every_policy
def test_a_job_waits_for_a_worker_with_its_memory_beside_an_idle_one_without(
    name: str, params: dict[str, object]
) -> None:
    # Both need 8 GiB, of which s1 alone has enough; J1 has it from 0 to 10, though s0 is idle.
    jobs = [ChunkJob(0, 1, 10, worker_gib=8), ChunkJob(1, 1, 10, worker_gib=8)]
    world = chunk_world(jobs, [Server(worker_gib=4), Server(worker_gib=8)], slot_s=1)
    assert times_of(run(world, name, params)) == {"J1": (0, 10), "J2": (10, 20)}


@every_policy
def test_jobs_of_little_need_count_what_jobs_of_more_have_put_on_a_worker(
    name: str, params: dict[str, object]
) -> None:
    # Of three jobs that come together the first needs s1; the second goes to idle s0, and so each has a
    # worker for itself; the third takes the one that is left least, s0 by its number, but at random any.
    jobs = [ChunkJob(0, 1, 6, worker_gib=8), ChunkJob(0, 1, 6), ChunkJob(0, 1, 6)]
    result = run(chunk_world(jobs, [Server(worker_gib=4), Server(worker_gib=8)], slot_s=1), name, params)
    if params.get("dispatch") != "random":
        assert times_of(result) == {"J1": (0, 6), "J2": (0, 6), "J3": (6, 12)}
    assert ("J1", "s1") in places(result, "chunk")


@pytest.mark.parametrize("policy", SOME_POLICIES)
def test_where_no_edge_has_the_memory_all_chunks_go_to_the_cloud_without_communication(policy: str) -> None:
    # C1: no edge worker is eligible, so zeta = 1. Upload of 5 s, then 4 s without the 3 s of exchange.
    job = ChunkJob(0, 2, 4, cloud_upload_s=5, exchange_s=3, worker_gib=8)
    servers = [Server(worker_gib=4), Server(kind=CLOUD)]
    assert times_of(replay(chunk_world([job], servers, slot_s=1), policy)) == {"J1": (5, 9)}


@pytest.mark.parametrize("policy", SOME_POLICIES)
def test_a_cloud_may_be_too_small_as_well(policy: str) -> None:
    # Of two clouds the second has the memory, though it takes twice as long; the edge has not.
    job = ChunkJob(0, 2, 4, cloud_upload_s=5, worker_gib=8)
    servers = [Server(worker_gib=4), Server(kind=CLOUD, worker_gib=4), Server(kind=CLOUD, speed=0.5)]
    assert times_of(replay(chunk_world([job], servers, slot_s=1), policy)) == {"J1": (5, 13)}


@pytest.mark.parametrize("policy", SOME_POLICIES)
def test_a_parameter_server_without_the_memory_does_not_serve(policy: str) -> None:
    # Two workers, and a parameter server with 8 GiB beside three without: J2 stands still until J1 is done.
    jobs = [ChunkJob(0, 1, 4, ps_gib=8), ChunkJob(0, 1, 4, ps_gib=8)]
    servers = [Server(2, ps=3, ps_gib=4), Server(0, ps=1, ps_gib=8)]
    result = replay(chunk_world(jobs, servers, slot_s=1), policy)
    assert times_of(result) == {"J1": (0, 4), "J2": (4, 8)}
    assert chunked_of(result).stalled_s == 4
    assert places(result, "ps") == {("J1", "s1"), ("J2", "s1")}


def test_parameter_servers_of_the_cloud_that_are_too_small_leave_a_job_its_communication() -> None:
    # No edge worker: both chunks go to the cloud, whose parameter servers have 4 GiB. The job is served by
    # the edge's, with 3 s of exchange: upload 5, 4 + 3.
    job = ChunkJob(0, 2, 4, cloud_upload_s=5, exchange_s=3, ps_gib=8)
    servers = [Server(0, ps=1), Server(kind=CLOUD, ps_gib=4)]
    for policy in SOME_POLICIES:
        result = replay(chunk_world([job], servers, slot_s=1), policy)
        assert times_of(result) == {"J1": (5, 12)}
        assert places(result, "ps") == {("J1", "s0")}


def test_a_job_at_the_edge_is_served_from_the_cloud_if_nobody_else_may() -> None:
    job = ChunkJob(0, 1, 4, upload_s=1, cloud_upload_s=50, ps_gib=8)
    result = replay(chunk_world([job], [Server(ps_gib=4), Server(kind=CLOUD)], slot_s=1), "a_online")
    assert times_of(result) == {"J1": (1, 5)}
    assert places(result, "ps") == {("J1", "s1")}


@pytest.mark.parametrize("policy", SOME_POLICIES)
def test_a_job_that_nobody_may_train_or_serve_never_fits(policy: str) -> None:
    jobs = [
        ChunkJob(0, 1, 4, worker_gib=4.0001),  # rounded up to whole MiB, 4,097 of 4,096
        ChunkJob(0, 1, 4, ps_gib=5),
        ChunkJob(0, 1, 4, worker_gib=4, ps_gib=4),
    ]
    result = replay(chunk_world(jobs, [Server(worker_gib=4, ps_gib=4)], slot_s=1), policy)
    assert result.jobs["status"].to_list() == ["rejected", "rejected", "completed"]
    assert result.jobs["reason"].to_list() == ["never_fits", "never_fits", None]


def test_the_memory_of_another_partition_does_not_help() -> None:
    jobs = [ChunkJob(0, 1, 4, vc="a", worker_gib=8), ChunkJob(0, 1, 4, vc="b", worker_gib=8)]
    servers = [Server(vc="a", worker_gib=4), Server(vc="b", worker_gib=8)]
    result = replay(chunk_world(jobs, servers, slot_s=1, partition="vc"), "a_online")
    assert result.jobs["status"].to_list() == ["rejected", "completed"]


@pytest.mark.parametrize(
    ("job", "script", "servers", "words"),
    [
        (
            ChunkJob(0, 1, 4, worker_gib=8),
            [(0, 0, 0, 0)],
            [Server(worker_gib=4), Server()],
            r"at 0 s: .* chunk 0 of job J1 to worker 0: .* less memory than the job's worker_memory_gib",
        ),
        (
            ChunkJob(0, 1, 4, ps_gib=8),
            [(0, 0, 0, 0)],
            [Server(ps_gib=4), Server()],
            r"at 0 s: .* job J1 a parameter server on s0, which has less memory than the job's ps_memory_gib",
        ),
    ],
    ids=["worker", "parameter server"],
)
def test_a_decision_for_somebody_without_the_memory_is_refused_by_name(
    job: ChunkJob, script: Sequence[Row], servers: Sequence[Server], words: str
) -> None:
    with pytest.raises(InfeasibleDecisionError, match=words):
        replay(chunk_world([job], servers, slot_s=1), Script({0.0: script}))


def test_a_job_is_due_by_the_fastest_worker_that_may_train_it() -> None:
    # Twice the shortest time: upload 1 + 8 / 1 on s0, which has the memory, not 1 + 8 / 4 on s1.
    job = ChunkJob(0, 1, 8, upload_s=1, worker_gib=8)
    world = chunk_world([job], [Server(), Server(speed=4, worker_gib=4)], slot_s=1, deadline_factor=2)
    assert due_us_of(world) == [18_000_000]


def test_a_job_is_due_when_it_would_be_without_speed_augmentation() -> None:
    # Chunks of 4 s where they would take 8, but deadlines stay comparable: 2 x (1 + 8).
    job = ChunkJob(0, 1, 8, upload_s=1)
    world = chunk_world([job], [Server()], slot_s=1, deadline_factor=2, speed_up=2)
    assert due_us_of(world) == [18_000_000]


def test_the_bounds_know_who_may_train_a_job() -> None:
    # Two jobs of 10 s that only s1 may train, whatever else is there: 10 and 20 s.
    jobs = [ChunkJob(0, 1, 10, worker_gib=8)] * 2
    servers = [Server(9, speed=2, worker_gib=4), Server(worker_gib=8)]
    found = replay(chunk_world(jobs, servers, slot_s=1), "a_online").summary.certificate
    assert found is not None
    assert found.b1_s == pytest.approx(10, rel=1e-8)
    assert found.lp_s == pytest.approx(15, rel=1e-8)
    assert found.gap == pytest.approx(0, abs=1e-8)


@pytest.mark.slow
@every_policy
@settings(max_examples=instances(40, 6))
@given(case=cases())
def test_memory_for_everybody_is_as_good_as_no_limit(
    name: str, params: dict[str, object], case: Case
) -> None:
    needy = [job._replace(worker_gib=2, ps_gib=3) for job in case.jobs]
    roomy = [server._replace(worker_gib=2 + i, ps_gib=3 + i) for i, server in enumerate(case.servers)]
    plain = run(chunk_world(case.jobs, case.servers, slot_s=1), name, params)
    limited = run(chunk_world(needy, roomy, slot_s=1), name, params)
    for part in ("jobs", "events", "timeline"):
        assert fingerprint(limited)[part] == fingerprint(plain)[part]


@pytest.mark.slow
@every_policy
@settings(max_examples=instances(60, 8))
@given(case=with_memory(cases()), slot_s=st.sampled_from([1.0, None]))
def test_whoever_is_admitted_is_trained_by_workers_and_served_by_servers_with_the_memory(
    name: str, params: dict[str, object], case: Case, slot_s: float | None
) -> None:
    if slot_s is None:
        world = chunk_world(case.jobs, case.servers, slot_s=1, slot_fill="fractional")
    else:
        world = chunk_world(case.jobs, case.servers, slot_s=slot_s)
    result = run(world, name, params)
    of = {f"J{i + 1}": job for i, job in enumerate(case.jobs)}
    at = {f"s{i}": server for i, server in enumerate(case.servers)}
    for job, server in places(result, "chunk"):
        assert (at[server].worker_gib or 99) >= of[job].worker_gib
    for job, server in places(result, "ps"):
        assert (at[server].ps_gib or 99) >= of[job].ps_gib
    for sites in range(2, len(case.servers) + 1):
        assert fingerprint(replay(world, create_policy(name, params), sites=sites)) == fingerprint(result)
    # Nobody stands still for ever but for want of a parameter server on its side.
    if all(server.ps > 0 or server.kind == CLOUD for server in case.servers):
        assert set(result.jobs["status"]) <= {"completed", "rejected"}
