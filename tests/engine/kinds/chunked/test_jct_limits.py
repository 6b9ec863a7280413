"""Runs of chunked jobs say how far from the best possible they are, and none is better than that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import JctCertificate
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy
from ray_sim.reports.tables import summary_rows
from tests.chunk_worlds import CLOUD, ChunkJob, Script, Server, chunk_world
from tests.engine.kinds.chunked.best_chunk_schedule import Parts, least_total_jct
from tests.engine.kinds.chunked.test_against_naive_slots import Case, cases, with_memory
from tests.policies.test_a_online import totals
from tests.proofs import instances
from tests.random_worlds import server_changes
from tests.worlds import replay

ROUNDED = 2e-9
"""Bounds are rounded down by a relative 1e-9."""

POLICIES = ["chunk_fifo", "chunk_spt", "a_online"]


def certificate(world: World, policy: str = "chunk_fifo") -> JctCertificate:
    found = replay(world, policy).summary.certificate
    assert found is not None
    return found


def bound_s(jobs: Sequence[ChunkJob], servers: Sequence[Server]) -> float:
    return certificate(chunk_world(jobs, servers, slot_s=1)).bound_s


@pytest.mark.parametrize("policy", POLICIES)
def test_one_job_alone_has_no_gap(policy: str) -> None:
    # Uploaded at 2 s; 5 chunks of 4 s on two fast workers (2 s) and a slow one (4 s): by 4 s the fast
    # ones have done 2 each, the slow one 1.
    servers = [Server(2, speed=2.0), Server(1)]
    found = certificate(chunk_world([ChunkJob(0, 5, 4, 2)], servers, slot_s=1), policy)
    assert found.b1_s == pytest.approx(2 + 4, rel=ROUNDED)
    assert found.gap == pytest.approx(0.0, abs=ROUNDED)


def test_upload_ends_and_chunk_lengths_are_rounded_as_in_the_run() -> None:
    # Slots of 10 s: submitted at 0 and 4 s. The first is ready at 10 and takes 2 x 20 s for 11 s of work
    # and 3 s of exchange: 50. The second, sent off at 4 s at the earliest, is ready at 10: 6 + 10 = 16 s.
    jobs = [ChunkJob(0, 2, 11, 1, exchange_s=3), ChunkJob(4, 1, 10, 6)]
    found = certificate(chunk_world(jobs, [Server()], slot_s=10))
    assert found.b1_s == pytest.approx((50 + 16) / 2, rel=ROUNDED)
    # In microseconds: 1 + 2 x 14 = 29 and 6 + 10.
    exact = certificate(chunk_world(jobs, [Server()], slot_s=10, slot_fill="fractional"))
    assert exact.b1_s == pytest.approx((29 + 16) / 2, rel=ROUNDED)


def test_on_one_worker_the_second_bound_is_the_best_order() -> None:
    # Chunks of 3, 1 and 2 s, all there at 0: done at 1, 3 and 6 in the best order, which chunk_spt takes.
    jobs = [ChunkJob(0, 1, 3), ChunkJob(0, 1, 1), ChunkJob(0, 1, 2)]
    world = chunk_world(jobs, [Server()], slot_s=1)
    found = certificate(world, "chunk_spt")
    assert found.b2_s == pytest.approx((1 + 3 + 6) / 3, rel=ROUNDED)
    assert found.bound_s == pytest.approx(10 / 3, rel=ROUNDED)
    assert found.only_b1 is None
    assert found.gap == pytest.approx(0.0, abs=ROUNDED)
    # In order of dispatch 3, 4 and 6: mean 13/3 against 10/3.
    assert certificate(world, "chunk_fifo").gap == pytest.approx(13 / 10 - 1, abs=ROUNDED)


def test_the_capacity_bounds_begin_at_the_end_of_the_upload() -> None:
    # The same, each uploaded for 5 s: all are done 5 s later.
    jobs = [ChunkJob(0, 1, 3, 5), ChunkJob(0, 1, 1, 5), ChunkJob(0, 1, 2, 5)]
    assert bound_s(jobs, [Server()]) == pytest.approx(5 + 10 / 3, rel=ROUNDED)


def test_the_third_bound_knows_how_many_workers_a_job_can_use() -> None:
    # Four workers, 2 jobs of 4 chunks of 2 s and one of a chunk of 6 s: the example of the rigid jobs
    # with areas 8, 8, 6. Mean busy times 0.75, 2.5, 4.5, and half of 6, 2, 2: 4.25.
    jobs = [ChunkJob(0, 4, 2), ChunkJob(0, 4, 2), ChunkJob(0, 1, 6)]
    found = certificate(chunk_world(jobs, [Server(4)], slot_s=1))
    assert found.b3_s == pytest.approx(4.25, rel=ROUNDED)
    # Three chunks of 2 s on two workers take 4 s, but may be done at the rate of two for 3 s: M = 1.5,
    # half of 3, hence 3 and not 3.5.
    odd = certificate(chunk_world([ChunkJob(0, 3, 2)], [Server(2)], slot_s=1))
    assert (odd.b1_s, odd.b3_s) == pytest.approx((4.0, 3.0), rel=ROUNDED)


def test_parameter_servers_bound_like_workers() -> None:
    # Three workers, one parameter server: the three jobs of 3, 1 and 2 s run one after the other.
    jobs = [ChunkJob(0, 1, 3), ChunkJob(0, 1, 1), ChunkJob(0, 1, 2)]
    assert bound_s(jobs, [Server(3, ps=1)]) == pytest.approx(10 / 3, rel=ROUNDED)


def test_with_an_unlimited_cloud_only_the_first_bound_and_the_programme_hold() -> None:
    # Edge: 1 + 3 x 4 s of training and exchange = 13; cloud: 7 + 3 s without exchange = 10. Nobody waits.
    jobs = [ChunkJob(0, 3, 3, 1, 7, exchange_s=1)] * 2
    found = certificate(chunk_world(jobs, [Server(), Server(kind=CLOUD)], slot_s=1))
    assert found.b1_s == pytest.approx(10.0, rel=ROUNDED)
    assert (found.b2_s, found.b3_s) == (None, None)
    assert found.only_b1 is not None
    assert "unlimited cloud" in found.only_b1
    # A quarter of a chunk in slot t at the edge costs (t + 1/2 + 2) / 4, less than 10 / 4 in slots 1 to 7:
    # 45.5 / 4, and 10 for each of the other 6 - 7 / 4 chunks; over 3, on average over two jobs.
    assert found.lp_s == pytest.approx((45.5 / 4 + 42.5) / 3 / 2, rel=ROUNDED)
    assert found.bound_s == pytest.approx(10.0, rel=ROUNDED)
    # One chunk is done sooner at the edge: 1 + 4.
    single = [ChunkJob(0, 1, 3, 1, 7, exchange_s=1)]
    assert bound_s(single, [Server(), Server(kind=CLOUD)]) == pytest.approx(5.0, rel=ROUNDED)


def test_near_a_cloud_the_programme_knows_who_has_to_wait() -> None:
    # 3, 1 and 2 s at the edge end at 1, 3 and 6; the longest ends at 10 in the cloud, 7 s away. B1 says 2.
    jobs = [ChunkJob(0, 1, chunk_s, 0, 7) for chunk_s in (3, 1, 2)]
    found = certificate(chunk_world(jobs, [Server(), Server(kind=CLOUD)], slot_s=1), "a_online")
    assert found.b1_s == pytest.approx(2.0, rel=ROUNDED)
    assert (found.lp_s, found.bound_s) == pytest.approx((10 / 3, 10 / 3), rel=ROUNDED)
    assert found.gap == pytest.approx(0.0, abs=ROUNDED)


def test_every_chunked_run_has_the_programme_in_its_summary() -> None:
    summary = replay(chunk_world([ChunkJob(0, 1, 3, 2)], slot_s=1), "chunk_fifo").summary
    assert summary.flat()["certificate.lp_s"] == pytest.approx(5.0, rel=ROUNDED)
    rows = dict(summary_rows(summary))
    assert rows["gap: mean JCT / bound - 1"] == pytest.approx(0.0, abs=ROUNDED)
    assert not any("speed" in label or "programme" in label for label in rows)


@pytest.mark.slow
def test_too_many_jobs_leave_the_programme_out_and_the_summary_says_so() -> None:
    # On 201 jobs of a chunk of 1,000 slots each, 300 steps of time are too many.
    summary = replay(chunk_world([ChunkJob(0, 1, 1000)] * 201, slot_s=1), "chunk_fifo").summary
    found = summary.certificate
    assert found is not None
    assert found.lp_s is None
    assert found.no_lp is not None
    assert found.no_lp.startswith("too many variables: 201 jobs")
    assert found.bound_s == pytest.approx(1000 * 101, rel=ROUNDED)
    assert dict(summary_rows(summary))["no bound by linear programme"] == found.no_lp


def test_a_cloud_elsewhere_leaves_a_partition_its_own_bounds() -> None:
    # a: 3, 1, 2 s on one worker, 10 / 3 on average. b: uploaded for 7 s, 3 s of training.
    jobs = [*(ChunkJob(0, 1, chunk_s, vc="a") for chunk_s in (3, 1, 2)), ChunkJob(0, 2, 3, 0, 7, vc="b")]
    servers = [Server(vc="a"), Server(kind=CLOUD, vc="b")]
    found = certificate(chunk_world(jobs, servers, slot_s=1, partition="vc"))
    assert found.bound_s == pytest.approx((10 + 10) / 4, rel=ROUNDED)
    assert (found.b2_s, found.b3_s) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=instances(300, 8))
@given(case=with_memory(cases()), whole=st.booleans())
def test_no_policy_beats_the_bound(policy: str, case: Case, whole: bool) -> None:
    world = chunk_world(case.jobs, case.servers, slot_s=1, slot_fill="whole" if whole else "fractional")
    assert_above_bound(world, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=instances(100, 8))
@given(data=st.data(), case=with_memory(cases()), whole=st.booleans())
def test_no_policy_beats_the_bound_where_servers_come_and_go(
    policy: str, data: st.DataObject, case: Case, whole: bool
) -> None:
    fill = "whole" if whole else "fractional"
    changes = data.draw(server_changes(len(case.servers)))
    assert_above_bound(
        chunk_world(case.jobs, case.servers, slot_s=1, slot_fill=fill, changes=changes), policy
    )


@pytest.mark.slow
@settings(max_examples=instances(300, 8))
@given(case=cases(), slot_s=st.sampled_from([1.0, None]))
def test_no_script_beats_the_bound(case: Case, slot_s: float | None) -> None:
    # Dispatched at random, in parts, to edge and cloud, with random keys.
    world = chunk_world(case.jobs, case.servers, slot_s=slot_s)
    assert_above_bound(world, Script(case.script, overtake=case.overtake))


def assert_above_bound(world: World, policy: str | Script) -> None:
    summary = replay(world, policy).summary
    if summary.completed == 0:
        assert summary.certificate is None
        return
    found, mean_s = summary.certificate, summary.jct_s.mean
    assert found is not None
    assert mean_s is not None
    assert found.bound_s <= mean_s
    best = max(found.b1_s, found.b2_s or 0.0, found.b3_s or 0.0, found.lp_s or 0.0)
    assert best <= found.bound_s * (1 + 1e-12)
    assert found.gap is None or found.gap >= 0
    assert found.no_lp is None


@pytest.mark.slow
def test_no_small_instance_has_a_better_schedule_than_the_bound() -> None:
    tight, tried = 0, instances(300, 8)
    for seed in range(tried):
        draw = Streams(seed).generator("small-chunks")
        speeds = draw.choice([1.0, 0.5], int(draw.integers(1, 3))).tolist()
        ps = int(draw.integers(1, 3))
        jobs, chunks = [], 0
        for submit in sorted(draw.integers(0, 4, int(draw.integers(1, 4))).tolist()):
            n = min(int(draw.integers(1, 4)), 4 - chunks)
            if n > 0:
                jobs.append(ChunkJob(submit, n, int(draw.integers(1, 4)), int(draw.integers(0, 3))))
                chunks += n
        jobs = [job._replace(submit_s=job.submit_s - jobs[0].submit_s) for job in jobs]
        # All parameter servers on the first server: any will do for any job.
        servers = [Server(speed=speed, ps=ps if i == 0 else 0) for i, speed in enumerate(speeds)]
        parts = [
            Parts(
                int(job.submit_s),
                int(job.submit_s + job.upload_s),
                job.chunks,
                tuple(math.ceil(job.chunk_s / speed) for speed in speeds),
            )
            for job in jobs
        ]
        optimum = least_total_jct(parts, ps) / len(jobs)
        bound = bound_s(jobs, servers)
        assert bound <= optimum, (jobs, servers)
        tight += bound > optimum * (1 - ROUNDED)
    assert tight > tried / 3  # a bound that never bites would pass as well


def tiny_world(seed: int, fill: str, speed_up: float = 1.0) -> World:
    """Up to five jobs on up to four workers with parameter servers for all, half of them near a cloud.

    In half of the worlds the first server's workers lack memory for some jobs, which others then have.
    """
    draw = Streams(seed).generator("tiny-chunks")
    at = np.sort(draw.integers(0, 9, int(draw.integers(1, 6))))
    jobs = [
        ChunkJob(
            float(submit - at[0]),
            int(draw.integers(1, 4)),
            float(draw.integers(1, 8)),
            float(draw.integers(0, 4)),
            float(draw.integers(0, 12)),
            exchange_s=float(draw.integers(0, 2)),
        )
        for submit in at
    ]
    servers = [Server(2, speed=float(draw.choice([1.0, 0.5]))) for _ in range(int(draw.integers(1, 3)))]
    cloud = [Server(kind=CLOUD)] * int(draw.integers(0, 2))
    if seed % 2 and len(servers) + len(cloud) > 1:
        jobs = [job._replace(worker_gib=float(draw.choice([1, 4]))) for job in jobs]
        servers[0] = servers[0]._replace(worker_gib=2.0)
    return chunk_world(jobs, [*servers, *cloud], slot_s=1, slot_fill=fill, speed_up=speed_up)


@pytest.mark.slow
@pytest.mark.parametrize("fill", ["whole", "fractional"])
def test_no_policy_has_a_smaller_f_than_the_programme(fill: str) -> None:
    a_online, interrupting = (
        partial(create_policy, "a_online", {}),
        partial(create_policy, "a_online", {"preempt": True}),
    )
    nearest = np.inf
    for seed in range(instances(500, 25)):
        world = tiny_world(seed, fill)
        for policy in ((a_online, "chunk_fifo"), (interrupting, "chunk_spt"))[seed // 2 % 2]:
            result = replay(world, policy if isinstance(policy, str) else policy())
            found = result.summary.certificate
            assert found is not None
            assert found.lp_s is not None
            f = totals(world, result)[0] / len(world.table)
            assert found.lp_s <= f * (1 + 1e-12), seed
            nearest = min(nearest, f / found.lp_s)
    assert nearest < 1.03  # a bound that never bites would pass as well


# --- speed augmentation


def test_workers_that_are_sped_up_have_shorter_chunks_and_the_same_bound() -> None:
    # 6 s of training and 3 s of exchange per chunk, at 1.5 times the speed 6 s: two on one worker.
    job = [ChunkJob(0, 2, 6, 1, exchange_s=3)]
    plain, faster = (
        replay(chunk_world(job, slot_s=1, slot_fill="fractional", speed_up=speed_up), "chunk_spt").summary
        for speed_up in (1.0, 1.5)
    )
    assert (plain.jct_s.mean, faster.jct_s.mean) == (1 + 18, 1 + 12)
    assert plain.certificate is not None
    assert faster.certificate is not None
    assert faster.certificate.bound_s == plain.certificate.bound_s == pytest.approx(19, rel=ROUNDED)
    assert faster.certificate.gap == pytest.approx(13 / 19 - 1, abs=ROUNDED)
    assert (plain.certificate.speed_up, faster.certificate.speed_up) == (None, 1.5)
    assert dict(summary_rows(faster))["the bound assumes speed 1, the run had"] == 1.5


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0])
def test_the_guarantee_of_a_online_is_never_exceeded(eps: float) -> None:
    for seed in range(instances(100, 20)):
        world = tiny_world(seed, "fractional", 1 + eps)
        summary = replay(world, "a_online").summary
        assert summary.certificate is not None
        assert summary.jct_s.mean is not None
        guarantee = int(ChunkFacts.in_world(world).chunks.max()) * (1 + 1 / eps)
        assert summary.jct_s.mean <= guarantee * summary.certificate.bound_s, seed


@pytest.mark.parametrize("speed_up", [0, -1, "nan"])
def test_a_speed_that_is_not_above_zero_is_refused_by_name(speed_up: object) -> None:
    with pytest.raises(InvalidScenarioError, match="speed_up"):
        chunk_world([ChunkJob(0, 1, 1)], speed_up=speed_up)


@pytest.mark.parametrize("truth", ["rigid", "pd_ors"])
def test_other_progress_rules_have_no_workers_to_speed_up(truth: str) -> None:
    with pytest.raises(InvalidScenarioError, match=r"speed_up: .* set truth=a_online, or leave it out"):
        chunk_world([ChunkJob(0, 1, 1)], speed_up=1.5, slot_fill="whole", truth=truth)
