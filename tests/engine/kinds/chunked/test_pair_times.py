"""Upload delays and processing times by pair: a worked example, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.model.cluster import ChunkDelay
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, ChunkJob, Server, chunk_world, due_us_of
from tests.proofs import quick_first
from tests.worlds import fingerprint, replay, world_of

NEAR, FAR = Server(server_class="near"), Server(server_class="far")
JOBS = [ChunkJob(0, 1, 8, 7, model="a"), ChunkJob(0, 1, 8, 7, model="a"), ChunkJob(0, 1, 2, 7, model="b")]
DELAYS = [
    ChunkDelay("a", "near", 1.0, 1.0),
    ChunkDelay("a", "far", 4.0, 0.5),
    ChunkDelay("b", "near", 3.0, 1.0),
    ChunkDelay("b", "far", 0.0, 3.0),
]


def example(deadline_factor: float | None = None) -> World:
    return chunk_world(JOBS, [NEAR, FAR], slot_s=1, delays=DELAYS, deadline_factor=deadline_factor)


@pytest.mark.parametrize(
    ("uploads", "preempt", "finish_s"),
    [
        # J1: near 1 + 8, far 4 + 4: far. J2: near 9, far 4 + 4 + 4: near, in 1-9.
        # J3, near: at 3 J2 has 6 left: 3 + 6 + 2 = 11. Far, D p = 6: J1, D p = 4, is in upload: 0 + 4 + 6.
        ("counted", False, [10, 9, 6]),
        # Far without J1 6: J3 in 0-6, J1 waits from 4 to 6.
        ("ignored", False, [10, 9, 6]),
        # Near, before the rest of J2: 3 + 2 + 2 x 6 / 8 = 6.5 < 10: J3 in 3-5, J2 in 1-3 and 5-11.
        ("counted", True, [8, 11, 5]),
        # Far 6 < 6.5: J3 in 0-4 and 8-10, J1 interrupts it in 4-8.
        ("ignored", True, [8, 9, 10]),
    ],
)
def test_a_chunk_goes_where_its_own_delay_and_length_add_least(
    uploads: str, preempt: bool, finish_s: list[float]
) -> None:
    policy = create_policy("a_online", {"uploads": uploads, "preempt": preempt})
    assert replay(example(), policy).jobs["finish_s"].to_list() == finish_s


def test_the_earliest_finish_is_by_the_pair() -> None:
    # J1: near 9, far 8. J2 behind it: near 9, far max(4, 4) + 4 = 8. J3: near max(3, 0) + 2, far 8 + 6.
    assert replay(example(), "chunk_earliest_finish").jobs["finish_s"].to_list() == [8, 12, 5]


def test_a_job_is_due_by_the_pair_that_ends_first() -> None:
    # The shortest times are 4 + 4 s (far) and 3 + 2 s (near).
    assert due_us_of(example(deadline_factor=2)) == [16_000_000, 16_000_000, 10_000_000]


def test_of_two_clouds_the_one_that_ends_first_is_taken() -> None:
    # Slow but near 2 + 8, fast but far 9 + 4.
    servers = [Server(kind=CLOUD, speed=2.0, server_class="far"), Server(kind=CLOUD, server_class="near")]
    delays = [ChunkDelay("", "near", 2.0, 1.0), ChunkDelay("", "far", 9.0, 1.0)]
    world = chunk_world([ChunkJob(0, 1, 8)], servers, slot_s=1, delays=delays)
    assert replay(world, "a_online").jobs["finish_s"].to_list() == [10]


def test_the_programme_of_the_bound_knows_when_each_worker_can_begin() -> None:
    # J1 may be split. A slot t near, from 1 on, is 1/8 of it and costs t + 1/2 + 4; far, from 4 on, 1/4 and
    # t + 1/2 + 2. The cheapest: 5.5, 6.5, 7.5 and 8.5 near, 6.5 and 7.5 far: 28 / 8 + 14 / 4.
    world = chunk_world(JOBS[:1], [NEAR, FAR], slot_s=1, delays=DELAYS)
    found = replay(world, "a_online").summary.certificate
    assert found is not None
    assert found.lp_s == pytest.approx(7, rel=1e-8)


@pytest.mark.parametrize(
    "policy", quick_first(["a_online", "chunk_spt", "chunk_las", "chunk_srpt", "chunk_earliest_finish"], 2)
)
def test_a_table_of_what_the_workload_says_changes_nothing(policy: str) -> None:
    rng = np.random.default_rng(3)
    jobs = [
        ChunkJob(
            float(at),
            int(rng.integers(1, 4)),
            float(rng.integers(1, 9)),
            2,
            9,
            model=str(rng.choice(["a", "b"])),
        )
        for at in range(12)
    ]
    servers = [NEAR, Server(speed=2.0, server_class="far"), Server(kind=CLOUD, server_class="cloud")]
    labels = [("near", 2.0), ("far", None), ("cloud", 9.0)]
    delays = [ChunkDelay(model, label, upload_s, 1.0) for model in "ab" for label, upload_s in labels]
    plain = replay(chunk_world(jobs, servers, slot_s=1), policy)
    for sites in (1, 3):
        tabled = replay(chunk_world(jobs, servers, slot_s=1, delays=delays), policy, sites=sites)
        assert fingerprint(tabled) == fingerprint(plain)


@pytest.mark.parametrize(
    ("delays", "server", "missing"),
    [
        (DELAYS[:3], FAR, "no line for model 'b' and server_class 'far'"),
        (DELAYS, Server(), "no line for model 'a' and server_class ''"),
    ],
)
def test_a_missing_pair_is_named(delays: Sequence[ChunkDelay], server: Server, missing: str) -> None:
    with pytest.raises(InvalidScenarioError, match=missing):
        chunk_world(JOBS, [NEAR, server], slot_s=1, delays=delays)


def test_servers_without_workers_need_no_delays() -> None:
    world = chunk_world(JOBS, [NEAR, FAR, Server(workers=0)], slot_s=1, delays=DELAYS)
    assert ChunkFacts.in_world(world).upload_us(np.array([0, 2]), np.array([1, 0])).tolist() == [
        4_000_000,
        3_000_000,
    ]


def test_work_that_the_clock_cannot_hold_is_refused_by_the_factor() -> None:
    delays = [each._replace(processing_factor=1000.0) for each in DELAYS]
    jobs = [job._replace(chunk_s=1e10) for job in JOBS]
    chunk_world(jobs, [NEAR, FAR], slot_s=1, delays=DELAYS)
    with pytest.raises(InvalidScenarioError, match="more than can be simulated"):
        chunk_world(jobs, [NEAR, FAR], slot_s=1, delays=delays)


def test_delays_are_about_jobs_in_chunks() -> None:
    plain = world_of([], [1])
    with pytest.raises(InvalidScenarioError, match="delays: has no effect on rigid jobs; set truth=a_online"):
        build_world(plain.table, replace(plain.cluster, delays=tuple(DELAYS)))
