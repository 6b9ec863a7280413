"""Chunked jobs that fail at random or are suspended: who loses what, and who goes on when."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.contract.books import checked_run
from ray_sim.contract.chunked_worlds import busy_chunks, failing_chunks
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams, text_entities
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, TWO, ChunkJob, Script, Server, chunk_world, runs_of
from tests.engine.kinds.chunked.naive_chunk_failures import US, FailingWorld, Fates
from tests.engine.kinds.chunked.naive_chunks import ALWAYS, Planned
from tests.engine.kinds.chunked.test_against_naive_slots import Case, cases, workers_and_times
from tests.engine.test_snapshots import Keeper
from tests.engine.test_stops import within_four_errors
from tests.proofs import instances
from tests.worlds import HOUR, column_of, fingerprint, replay, times_of


class Stops(NamedTuple):
    """When jobs fail, and when the policy takes the parameter server of those that train."""

    mean_s: int
    """GPU-seconds to a failure."""
    shape: float
    retries: int
    slot_s: float | None
    preemption: str
    suspends: Mapping[float, Sequence[int]]


stops = st.builds(
    Stops,
    st.sampled_from([3, 10, 40]),
    st.sampled_from([0.7, 1.0, 2.0]),
    st.integers(0, 3),
    st.sampled_from([1.0, None]),
    st.sampled_from(["checkpoint", "restart"]),
    st.dictionaries(st.integers(1, 20).map(float), st.lists(st.integers(0, 4), min_size=1), max_size=4),
)


def world_of(case: Case, stops: Stops) -> World:
    return chunk_world(
        case.jobs,
        case.servers,
        slot_s=stops.slot_s,
        preemption_cost_s=case.preemption_cost_s,
        failure_gpu_h=stops.mean_s / 3600,
        failure_shape=stops.shape,
        retries=stops.retries,
        preemption=stops.preemption,
    )


def policy_of(case: Case, stops: Stops) -> Script:
    return Script(case.script, keys=case.keys, suspends=stops.suspends, overtake=case.overtake)


def expected(case: Case, stops: Stops) -> Fates:
    """The naive simulation; lengths and upload ends from their definition."""
    server_of, clouds, jobs = workers_and_times(case, US)
    world = FailingWorld(
        jobs=jobs,
        ps=[ALWAYS if server.kind == CLOUD else server.ps for server in case.servers],
        server_of=server_of,
        on_demand=clouds,
        overtake=case.overtake,
        changes={},
        keys={int(at) * US: rows for at, rows in case.keys.items()},
        preemption_cost=case.preemption_cost_s * US,
        grid_us=US if stops.slot_s else 1,
        mean_us=stops.mean_s * US,
        shape=stops.shape,
        retries=stops.retries,
        suspends={int(at) * US: jobs for at, jobs in stops.suspends.items()},
        nothing=stops.preemption == "restart",
    )
    return world.fail({int(at) * US: [Planned(*row) for row in rows] for at, rows in case.script.items()})


def whole_us(seconds: pl.Series) -> list[int | None]:
    return (seconds * US).round().cast(pl.Int64).to_list()


def stops_of(result: RunResult, reason: str) -> list[tuple[int, int, int]]:
    """Instant, job and progress lost, in microseconds."""
    assert result.stops is not None
    found = result.stops.filter(reason=reason).select("time_s", "job_id", "lost_s")
    return sorted((round(at * US), int(job[1:]) - 1, round(lost * US)) for at, job, lost in found.iter_rows())


def assert_as_naive(case: Case, result: RunResult, fates: Fates) -> None:
    jobs, everybody = result.jobs, range(len(case.jobs))
    assert whole_us(jobs["finish_s"]) == [fates.end_us.get(job) for job in everybody]
    assert jobs["status"].to_list() == [fates.status.get(job, "unfinished") for job in everybody]
    assert whole_us(jobs["gpu_s"]) == [fates.worked_us.get(job, 0) for job in everybody]
    assert result.summary.preemptions == fates.chunks.preemptions
    for_good = [(fates.end_us[job], job, 0) for job, status in fates.status.items() if status == "failed"]
    assert stops_of(result, "failure") == sorted([*fates.failures, *for_good])
    assert stops_of(result, "policy") == sorted(fates.suspensions)
    tried = [sum(each == job for _, each, _ in fates.failures) for job in everybody]
    begun = [at is not None for at in jobs["start_s"]]
    assert jobs["attempts"].to_list() == [int(b) + n for b, n in zip(begun, tried, strict=True)]


def assert_accounts(case: Case, result: RunResult, fates: Fates, retries: int) -> None:
    """Time of workers = chunks done + progress lost; waste adds up by reason; bounds hold."""
    jobs = result.jobs
    done_us = [0] * len(jobs)
    for chunk in fates.chunks.chunks:
        done_us[chunk.job] += chunk.trained
    useful = (jobs["gpu_s"] - jobs["lost_s"]).to_list()
    for number, status in enumerate(jobs["status"]):
        if status == "completed" and not case.preemption_cost_s:
            assert round(useful[number] * US) == done_us[number]
    assert (jobs["attempts"] <= retries + 1).all()
    wasted = pl.select(pl.when(jobs["status"] == "failed").then(jobs["gpu_s"]).otherwise(jobs["lost_s"]))
    assert jobs["wasted_gpu_s"].equals(wasted.to_series().alias("wasted_gpu_s"))
    assert sum((result.summary.wasted_gpu_h or {}).values()) == pytest.approx(
        jobs["wasted_gpu_s"].sum() / 3600, abs=1e-8
    )
    if (certificate := result.summary.certificate) is not None:
        assert certificate.gap is None or certificate.gap >= -1e-9


def everything(result: RunResult) -> tuple[dict[str, str], str]:
    """All that a run leaves, with its stops."""
    assert result.stops is not None
    return fingerprint(result), result.stops.write_csv()


@pytest.mark.slow
@settings(max_examples=instances(300))
@given(case=cases(), stops=stops)
def test_chunked_jobs_stop_as_in_a_plain_simulator(case: Case, stops: Stops) -> None:
    world, fates = world_of(case, stops), expected(case, stops)
    result = replay(world, policy_of(case, stops))
    assert_as_naive(case, result, fates)
    assert_accounts(case, result, fates, stops.retries)
    for sites in range(2, len(case.servers) + 1):
        parted = replay(world, policy_of(case, stops), sites=sites)
        assert everything(parted) == everything(result)
    keeper = Keeper(stop_after=5)
    with suppress(RunStoppedError):
        run_world(world, policy_of(case, stops), keeper=keeper)
    if keeper.state is not None:
        again = run_world(world, policy_of(case, stops), keeper=Keeper(state=keeper.state))
        assert everything(again) == everything(result)


J1, J2, J3 = range(3)
ONE_OF_THREE = (
    [ChunkJob(0, 3, 4, 1, 6), ChunkJob(2, 1, 3), ChunkJob(3, 1, 1)],
    {0.0: [(J1, 0, 0, 0), (J1, 1, 1, 0), (J1, 2, 0, 0)], 2.0: [(J2, 0, 1, 5)], 3.0: [(J3, 0, 0, 5)]},
)
"""J1's chunks 0 and 1 upload until 1 s and train until 5 s. Then worker 0 takes chunk 2, and worker 1 takes
J2's, until 8 s. J3 waits for worker 0."""


def failing_at(gpu_s: float, *, seed: int = 6) -> float:
    """Mean GPU-hours to a failure of which J1's first attempt fails after so many GPU-seconds."""
    draw = Streams(seed).uniforms("failure", text_entities(["J1"]), np.array([0]))
    return gpu_s / 3600 / -math.log1p(-float(draw[0]))


def test_a_failure_costs_the_chunk_in_training_and_the_workers_go_to_others_at_once() -> None:
    # J1 trains on 2 GPUs from 1 s and on 1 from 5 s, so 10 GPU-s are over at 7 s, with 2 s of chunk 2 done.
    # J3 has worker 0 from 7 s to 8 s, as chunk 2 uploads again; it trains from 8 s to 12 s.
    jobs, script = ONE_OF_THREE
    result = run_world(chunk_world(jobs, TWO, failure_gpu_h=failing_at(10)), Script(script), seed=6)
    assert {job: end for job, (_, end) in times_of(result).items()} == {"J1": 12, "J2": 8, "J3": 8}
    assert runs_of(result, "J1", 2) == [(5, 7), (8, 12)]
    assert runs_of(result, "J3", 0) == [(7, 8)]
    assert column_of(result, "attempts") == {"J1": 2, "J2": 1, "J3": 1}
    assert column_of(result, "gpu_s") == {"J1": 4 + 4 + 2 + 4, "J2": 3, "J3": 1}
    assert column_of(result, "wasted_gpu_s") == column_of(result, "lost_s") == {"J1": 2, "J2": 0, "J3": 0}
    assert result.stops is not None
    assert result.stops.drop("by").rows() == [(7, "J1", 1, "failure", 2)]
    assert result.summary.wasted_gpu_h == pytest.approx({"failure": 2 / 3600})
    assert result.summary.interruptions == 0
    assert result.summary.policy_warnings is None


def test_a_job_without_retries_has_failed_and_wasted_all() -> None:
    jobs, script = ONE_OF_THREE
    world = chunk_world(jobs, TWO, failure_gpu_h=failing_at(10), retries=0)
    result = run_world(world, Script(script), seed=6)
    assert column_of(result, "status") == {"J1": "failed", "J2": "completed", "J3": "completed"}
    assert times_of(result)["J1"] == (1, 7)
    assert column_of(result, "wasted_gpu_s")["J1"] == column_of(result, "gpu_s")["J1"] == 10
    assert result.summary.wasted_gpu_h == pytest.approx({"failure": 10 / 3600})


def test_in_whole_slots_a_job_fails_at_the_end_of_a_slot() -> None:
    # Slots of 2 s: chunks 0 and 1 train 2-6 s, chunk 2 from 6 s. 9 GPU-s are over at 7 s; chunk 2 is lost at
    # 8 s with 2 s, uploads until 10 s and trains until 14 s.
    jobs, script = ONE_OF_THREE
    world = chunk_world(jobs, TWO, slot_s=2, failure_gpu_h=failing_at(9))
    result = run_world(world, Script({0.0: script[0.0]}), seed=6)
    assert runs_of(result, "J1", 2) == [(6, 8), (10, 14)]
    assert column_of(result, "lost_s")["J1"] == 2


def test_a_job_that_was_to_fail_within_a_slot_fails_at_its_end_though_its_chunk_is_done() -> None:
    # Chunk 0 trains 0-2 s at the edge, one slot, in which the job fails. It stays; chunk 1 uploads to the
    # cloud, 6 s, once more from 2 s on.
    world = chunk_world(
        [ChunkJob(0, 2, 2, 0, 6)], [Server(), Server(kind=CLOUD)], slot_s=2, failure_gpu_h=failing_at(1)
    )
    result = run_world(world, Script({0.0: [(J1, 0, 0, 0), (J1, 1, 1, 0)]}), seed=6)
    assert (runs_of(result, "J1", 0), runs_of(result, "J1", 1)) == ([(0, 2)], [(8, 10)])
    assert (column_of(result, "attempts"), column_of(result, "lost_s")) == ({"J1": 2}, {"J1": 0})


@pytest.mark.slow
@pytest.mark.parametrize(("preemption", "finish_s", "lost_s"), [("checkpoint", 12, 2), ("restart", 16, 10)])
def test_what_a_suspended_job_keeps_is_a_fact_of_the_world(
    preemption: str, finish_s: int, lost_s: int
) -> None:
    # The policy takes J1's parameter server at 7 s. From 8 s on it trains chunk 2, or all: 8-12 s, 12-16 s.
    jobs, script = ONE_OF_THREE
    world = chunk_world(jobs, TWO, preemption=preemption)
    result = replay(world, Script(script, suspends={7.0: [J1]}))
    assert times_of(result)["J1"] == (1, finish_s)
    assert column_of(result, "lost_s")["J1"] == column_of(result, "wasted_gpu_s")["J1"] == lost_s
    assert column_of(result, "gpu_s")["J1"] == 12 + lost_s
    assert runs_of(result, "J3", 0) == [(7, 8)]
    assert result.stops is not None
    assert result.stops.drop("by").rows() == [(7, "J1", 1, "policy", lost_s)]
    for decisions in range(1, 9):
        keeper = Keeper(stop_after=decisions)
        with pytest.raises(RunStoppedError):
            run_world(world, Script(script, suspends={7.0: [J1]}), keeper=keeper)
        rest = run_world(world, Script(script, suspends={7.0: [J1]}), keeper=Keeper(state=keeper.state))
        assert everything(rest) == everything(result)


def test_a_suspended_job_that_keeps_all_leaves_its_chunks_on_their_workers() -> None:
    # It gets its parameter server back when the policy is next asked, at 8 s.
    jobs, script = ONE_OF_THREE
    result = replay(chunk_world(jobs, TWO), Script(script, suspends={7.0: [J1]}))
    assert runs_of(result, "J1", 2) == [(5, 7), (8, 10)]
    assert column_of(result, "gpu_s") == {"J1": None, "J2": None, "J3": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jobs", "seed"),
    [(300, 0), *(pytest.param(4000, seed, marks=pytest.mark.long) for seed in (1, 2, 3))],
)
def test_failures_cost_what_theory_says(jobs: int, seed: int) -> None:
    # A failure per 10 GPU-h of jobs of one chunk of 10 h: 10 (e - 1) h of training, e attempts.
    world = chunk_world(
        [ChunkJob(0, 1, 10 * HOUR)] * jobs,
        [Server(workers=jobs, ps=jobs)],
        slot_s=10 * HOUR,
        slot_fill="fractional",
        failure_gpu_h=10.0,
        retries=10**6,
    )
    result = run_world(world, create_policy("chunk_fifo"), seed=seed)
    assert within_four_errors(result.jobs["run_s"].to_numpy() / HOUR, 10 * (math.e - 1))
    assert within_four_errors(result.jobs["attempts"].to_numpy(), math.e)
    useful_s = (result.jobs["gpu_s"] - result.jobs["wasted_gpu_s"]).to_numpy()
    assert useful_s == pytest.approx(np.full(jobs, 10 * HOUR))


DANGER = {"deadlines": "danger", "slack": 4.0, "preempt": True}
EVERY_POLICY = [
    ("a_online", {}),
    ("a_online", DANGER),
    ("a_online", {"uploads": "ignored"}),
    ("chunk_fifo", {}),
    ("chunk_spt", {}),
    ("chunk_earliest_finish", {}),
    ("chunk_las", {}),
    ("chunk_srpt", {"preempt": True}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "params"), EVERY_POLICY)
@pytest.mark.parametrize(
    ("made", "seed"), [(busy_chunks, 0), pytest.param(failing_chunks, 1, marks=pytest.mark.long)]
)
def test_every_policy_sends_chunks_again_that_come_back_from_failures(
    policy: str, params: Mapping[str, object], made: Callable[[int, int], World], seed: int
) -> None:
    new_policy, calm = partial(create_policy, policy, params), made(30, seed)
    given = {**calm.params, "failure_gpu_h": 1.0, "failure_shape": 0.8, "retries": 10**6}
    world = build_world(calm.table, calm.cluster, params=given)
    whole = checked_run(world, new_policy())
    assert whole.stops is not None
    assert whole.stops.height > 5
    assert set(whole.jobs["status"]) <= {"completed", "rejected"}
    assert whole.summary.certificate is not None
    assert whole.summary.certificate.gap is not None
    assert whole.summary.certificate.gap >= 0
    assert everything(run_world(world, new_policy(), sites=3)) == everything(whole)
    for decisions in (4, 18):
        keeper = Keeper(stop_after=decisions)
        with pytest.raises(RunStoppedError):
            run_world(world, new_policy(), keeper=keeper)
        again = run_world(world, new_policy(), keeper=Keeper(state=keeper.state))
        assert everything(again) == everything(whole)
