"""Which worlds of chunked jobs there are, and which are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from tests.chunk_worlds import CLOUD, ChunkJob, Server, chunk_columns, chunk_world, cluster_of, due_us_of
from tests.worlds import DOWN, UP, Job, job_table

JOBS = [ChunkJob(0, 2, 5), ChunkJob(1, 3, 4)]


def world_with(columns: Mapping[str, Sequence[object]], **params: object) -> World:
    """Two jobs with these columns in a chunked world."""
    table = job_table([Job(job.submit_s, 1, 1) for job in JOBS], columns=columns)
    return build_world(table, cluster_of([Server()]), params={"truth": "a_online", **params})


def refusal(columns: Mapping[str, Sequence[object]], **params: object) -> str:
    with pytest.raises(InvalidScenarioError) as refused:
        world_with(columns, **params)
    return str(refused.value)


def test_a_workload_that_does_not_say_how_its_jobs_train_is_refused_with_all_that_is_missing() -> None:
    assert refusal({}, slot_s=10).splitlines() == [
        "truth=a_online: the workload does not say how its jobs train: 8 problems",
        "  chunks: is missing",
        "  epochs: is missing",
        "  minibatches_per_chunk: is missing",
        "  minibatch_s: is missing",
        "  gradient_mb: is missing",
        "  bandwidth_mbps: is missing",
        "  upload_edge_s: is missing",
        "  upload_cloud_s: is missing",
        "  draw what is missing by `ray-sim enrich`, e.g. --profile jsac_edge_cloud, give these columns in "
        "the table that you convert (docs/workloads.md), or use truth=rigid",
    ]


def test_a_column_must_be_there_for_every_job() -> None:
    columns = {**chunk_columns(JOBS), "epochs": [3, None]}
    assert "  epochs: is null for 1 of 2 jobs, first for J2" in refusal(columns, slot_s=10).splitlines()


def test_whole_slots_have_a_length() -> None:
    assert "slot_fill=whole rounds to slots: give their length, e.g. -w slot_s=3600" in refusal(
        chunk_columns(JOBS)
    )
    assert isinstance(world_with(chunk_columns(JOBS), slot_fill="fractional").facts, ChunkFacts)


def test_facts_without_effect_are_refused() -> None:
    advice = "set truth=rigid or placement or pd_ors or measured, or leave it out"
    told = refusal(chunk_columns(JOBS), slot_s=10, restart_cost_s=1)
    assert f"restart_cost_s: chunks that are preempted pay preemption_cost_s; {advice}" in told
    told = refusal(chunk_columns(JOBS), slot_s=10, checkpoint_s=1)
    assert f"checkpoint_s: a chunk that is lost begins anew, a completed one stays; {advice}" in told
    for facts in ({"slot_fill": "fractional"}, {"preemption_cost_s": 1}, {"deadline_factor": 2}):
        assert f"{next(iter(facts))}: is about" in refusal({}, truth="rigid", **facts)
        assert "set truth=a_online" in refusal({}, truth="rigid", **facts)


def test_costs_and_deadlines_are_not_negative() -> None:
    assert "preemption_cost_s" in refusal(chunk_columns(JOBS), slot_s=10, preemption_cost_s=-1)
    assert "deadline_factor" in refusal(chunk_columns(JOBS), slot_s=10, deadline_factor=0)


def test_the_cost_of_a_preemption_is_rounded_up_like_the_length_of_a_chunk() -> None:
    assert facts_of(slot_s=10, preemption_cost_s=11).preemption_us == 20_000_000
    assert facts_of(slot_fill="fractional", preemption_cost_s=11).preemption_us == 11_000_000


def facts_of(**params: object) -> ChunkFacts:
    return ChunkFacts.in_world(world_with(chunk_columns(JOBS), **params))


def test_a_cost_that_the_clock_cannot_hold_is_refused() -> None:
    # Forty chunks that each preempt once, at 6e10 s: 2.4e12 s, more than the 2.3e12 s of the clock.
    jobs = [job._replace(chunks=20) for job in JOBS]
    text = refusal(chunk_columns(jobs), slot_s=10, preemption_cost_s=6e10)
    assert "more than can be simulated" in text
    assert "preemption_cost_s" in text


def test_a_job_is_due_so_many_times_its_shortest_time_after_its_submission() -> None:
    # Edges at speeds 1 and 2, 4 s of training and 2 s of exchange: 4 / 2 + 2 = 4 s, after an upload of 1 s.
    # In the cloud, at speed 1, 4 s after an upload of 3 s. J2 is near the cloud: 1 + 4 < 9 + 4.
    jobs = [
        ChunkJob(0, 2, 4, upload_s=1, cloud_upload_s=3, exchange_s=2),
        ChunkJob(10, 1, 4, upload_s=9, cloud_upload_s=1, exchange_s=2),
    ]
    servers = [Server(), Server(speed=2.0), Server(kind=CLOUD)]
    world = chunk_world(jobs, servers, slot_s=1, deadline_factor=1.5)
    assert due_us_of(world) == [1_500_000 * 5, 10_000_000 + 1_500_000 * 5]


def test_deadlines_of_the_workload_are_its_own() -> None:
    own = {**chunk_columns(JOBS), "utility_max": [1.0] * 2, "utility_decay_per_s": [0.0] * 2}
    own["utility_due_s"] = [7.0, 8.0]
    world = world_with(own, slot_s=10)
    assert due_us_of(world) == [7_000_000, 9_000_000]
    assert "deadlines of their own, utility_due_s" in refusal(own, slot_s=10, deadline_factor=2)


def test_in_whole_slots_servers_come_and_go_between_slots() -> None:
    # Slots of 10 s from the first submission at 3 s: 5, 13 and 14 s are 2, 10 and 11 s later.
    changes = [(5.0, 0, DOWN), (13.0, 0, UP), (14.0, 0, DOWN)]
    jobs = [job._replace(submit_s=job.submit_s + 3) for job in JOBS]
    assert chunk_world(jobs, slot_s=10, changes=changes).outages.time.tolist() == [
        10_000_000, 10_000_000, 20_000_000
    ]  # fmt: skip
    in_microseconds = chunk_world(jobs, changes=changes).outages.time.tolist()
    assert in_microseconds == [2_000_000, 10_000_000, 11_000_000]


def test_more_than_the_clock_can_hold_is_refused_with_the_longest_job() -> None:
    # 2^20 epochs x 2^20 mini-batches x 1000 s = 1.1e15 s each; the clock has 2^61 us = 2.3e12 s.
    long: dict[str, Sequence[object]] = {
        "epochs": [1, 2**20],
        "minibatches_per_chunk": [1, 2**20],
        "minibatch_s": [1.0, 1000.0],
    }
    text = refusal({**chunk_columns(JOBS), **long}, slot_s=10)
    assert "more than can be simulated, job J2 alone 3.3e+15 s" in text


def test_more_chunks_than_memory_can_hold_are_refused() -> None:
    table = job_table([Job(0, 1, 1)] * 200, columns=chunk_columns([ChunkJob(0, 2**20, 1)] * 200))
    with pytest.raises(InvalidScenarioError, match=r"has 2\.1e\+08 chunks in all, at most 134,217,728"):
        build_world(table, cluster_of([Server()]), params={"truth": "a_online", "slot_s": 10})


def test_slots_are_the_resources_of_a_chunked_world() -> None:
    world = chunk_world(JOBS, [Server(3, 2), Server(kind=CLOUD), Server(0, 4)])
    facts = ChunkFacts.in_world(world)
    assert facts.resources == {"worker": 1, "ps": 1}
    # A cloud has one worker number, and a parameter server for each of the two jobs.
    assert world.arrays.capacity.tolist() == [[3, 2], [1, 2], [0, 4]]
    assert facts.slots.server.tolist() == [0, 0, 0, 1]
    assert facts.slots.on_demand.tolist() == [False, False, False, True]
    assert facts.chunks.tolist() == [2, 3]


def test_worlds_are_rigid_unless_they_are_asked_to_be_chunked() -> None:
    table = job_table([Job(0, 1, 1)], columns=chunk_columns([ChunkJob(0, 1, 1)]))
    assert build_world(table, cluster_of([Server()])).kind.jobs == "rigid"
    world = build_world(table, cluster_of([Server()]), params={"truth": "a_online", "slot_s": 1})
    assert world.kind.jobs == "chunked"
