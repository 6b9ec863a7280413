"""Stops of jobs: attempts of a trace, random failures, time limits, suspensions that cost progress."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Causes, Decision, Wake
from ray_sim.engine.run import run_world
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError, RunStoppedError
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams, text_entities
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import Policy
from tests.engine.test_snapshots import Keeper
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, job_lists, policies
from tests.worlds import (
    DOWN,
    HOUR,
    UP,
    Job,
    availability,
    cluster_of,
    column_of,
    fingerprint,
    job_table,
    replay,
    times_of,
)

Columns = Mapping[str, Sequence[object]]


def faulty(
    jobs: Sequence[Job], gpus: Sequence[float], columns: Columns | None = None, **params: Any
) -> World:
    return build_world(job_table(jobs, columns=columns), cluster_of(gpus), params=params)


def hours(result: RunResult) -> dict[str, tuple[float | None, float | None]]:
    return {
        job: (None if a is None else a / HOUR, None if b is None else b / HOUR)
        for job, (a, b) in times_of(result).items()
    }


def log_of(*attempts: tuple[float, str]) -> str:
    return " ".join(f"{length * HOUR:g}{reason and ':'}{reason}" for length, reason in attempts)


def test_a_job_fails_where_its_attempts_in_the_trace_ended() -> None:
    # J1 runs 0-3, 3-5, 5-9 on both GPUs, as it returns to its old place; J2 9-11.
    logs = [log_of((3, "oom"), (2, "node"), (4, "")), None]
    world = faulty(
        [Job(0, 2, 9 * HOUR), Job(HOUR, 2, 2 * HOUR)], [2], {"attempt_log": logs}, attempts="replay"
    )
    result = replay(world, "fifo")
    assert hours(result) == {"J1": (0, 9), "J2": (9, 11)}
    assert column_of(result, "attempts") == {"J1": 3, "J2": 1}
    assert column_of(result, "lost_s")["J1"] == 5 * HOUR
    assert column_of(result, "wasted_gpu_s")["J1"] == 10 * HOUR
    assert result.summary.wasted_gpu_h == {"oom": 6, "node": 4}
    assert result.stops is not None
    assert result.stops.select("time_s", "attempt", "reason").rows() == [
        (3 * HOUR, 1, "oom"),
        (5 * HOUR, 2, "node"),
    ]
    assert result.loop_reason == "faults (attempts) are injected in the general loop"


def test_progress_that_a_stop_lost_is_not_lost_again_when_the_attempt_ends() -> None:
    # The server goes at 1 h with 1 h of progress; attempts run 1-3 and 3-4.
    changes = availability([(HOUR, 0, DOWN), (HOUR, 0, UP)])
    world = build_world(
        job_table([Job(0, 2, 3 * HOUR)], columns={"attempt_log": [log_of((2, ""), (1, ""))]}),
        replace(cluster_of([2]), availability=changes),
        params={"attempts": "replay", "checkpoint_s": 100 * HOUR},
    )
    result = replay(world, "fifo")
    assert hours(result) == {"J1": (0, 4)}
    assert result.stops is not None
    assert result.stops.select("reason", "lost_s").rows() == [("server", HOUR), ("attempt", 2 * HOUR)]
    assert column_of(result, "wasted_gpu_s") == {"J1": 6 * HOUR}


def test_random_failures_end_no_job_whose_attempts_are_replayed() -> None:
    log = {"attempt_log": [log_of((2, ""), (2, ""))]}
    world = faulty([Job(0, 1, 4 * HOUR)], [1], log, attempts="replay", failure_gpu_h=0.2, retries=0)
    result = replay(world, "fifo")
    assert column_of(result, "status") == {"J1": "completed"}
    assert result.stops is not None
    assert {"failure", "attempt"} == set(result.stops["reason"])


@pytest.mark.parametrize(
    ("preemption", "finish_h", "wasted"), [("save", 13, 0), ("checkpoint", 14, 4), ("restart", 17, 16)]
)
def test_what_a_suspended_job_keeps_is_a_fact_of_the_world(
    preemption: str, finish_h: int, wasted: int
) -> None:
    # J1 holds 4 GPUs from 0; at 4 h J2 takes 2 of them for 3 h. Checkpoints are every 3 h.
    jobs = [Job(0, 4, 10 * HOUR), Job(4 * HOUR, 2, 3 * HOUR)]
    world = faulty(jobs, [4], checkpoint_s=3 * HOUR, preemption=preemption)
    result = replay(world, "srtf")
    assert hours(result) == {"J1": (0, finish_h), "J2": (4, 7)}
    assert column_of(result, "wasted_gpu_s")["J1"] == wasted * HOUR
    assert result.loop == ("compiled" if preemption == "save" else "general")


def test_srtf_ranks_a_suspended_job_by_what_it_lost() -> None:
    # J2 takes one of two GPUs at 2 h, with 8 of J1's 10 h left. J1 has 10 h left again, so J3, of 9 h, goes
    # first at 3 h.
    jobs = [Job(0, 2, 10 * HOUR), Job(2 * HOUR, 1, HOUR), Job(2.5 * HOUR, 2, 9 * HOUR)]
    result = replay(faulty(jobs, [2], preemption="restart"), "srtf")
    assert hours(result) == {"J1": (0, 22), "J2": (2, 3), "J3": (3, 12)}


def test_a_move_costs_what_a_suspension_costs() -> None:
    class Mover(Policy):
        name = "mover"
        wake_on = Wake.ARRIVAL | Wake.REVIEW

        def decide(self, view: View) -> Decision:
            if view.now_us == 0:
                return Decision.of({0: [(0, 0, 1)]}, review_us=40_000_000)
            if len(view.waiting) == 0 and view.now_us == 40_000_000:
                causes = Causes(np.array([0]), np.array([0]), ("space",))
                return Decision.of({0: [(1, 0, 1)]}, causes=causes)
            return Decision()

    saved = faulty([Job(0, 1, 100)], [1, 1], checkpoint_s=30)
    checkpoint = faulty([Job(0, 1, 100)], [1, 1], checkpoint_s=30, preemption="checkpoint")
    assert times_of(replay(saved, Mover())) == {"J1": (0, 100)}
    moved = replay(checkpoint, Mover())
    assert times_of(moved) == {"J1": (0, 110)}
    assert (moved.summary.wasted_gpu_h or {}) == pytest.approx({"move": 10 / 3600})


def failing(jobs: int, **params: Any) -> RunResult:
    """Jobs of 10 h, each alone on a GPU."""
    world = faulty([Job(0, 1, 10 * HOUR)] * jobs, [jobs], failure_gpu_h=10.0, **params)
    return replay(world, "fifo", placement="pooled")


def within_four_errors(samples: np.ndarray, mean: float) -> bool:
    return bool(abs(samples.mean() - mean) < 4 * samples.std() / math.sqrt(len(samples)))


@pytest.mark.slow
def test_failures_cost_what_theory_says() -> None:
    # A failure per 10 h of a job of 10 h. From scratch the mean is 10 (e - 1) and there are e attempts.
    scratch = failing(2000, retries=10**6, checkpoint_s=10 * HOUR)
    assert within_four_errors(scratch.jobs["jct_s"].to_numpy() / HOUR, 10 * (math.e - 1))
    assert within_four_errors(scratch.jobs["attempts"].to_numpy(), math.e)
    # With a checkpoint an hour, progress takes 100 (e^0.1 - 1); each of its tenth failures costs 0.25 h.
    hourly = failing(2000, retries=10**6, checkpoint_s=HOUR, restart_cost_s=HOUR / 4)
    progress = 100 * (math.exp(0.1) - 1)
    assert within_four_errors(hourly.jobs["attempts"].to_numpy() - 1, progress / 10)
    assert within_four_errors(hourly.jobs["jct_s"].to_numpy() / HOUR, progress * 1.025)
    # Four attempts at most.
    retried = failing(2000, checkpoint_s=10 * HOUR)
    done = (retried.jobs["status"] == "completed").to_numpy()
    assert within_four_errors(done.astype(np.float64), 1 - (1 - 1 / math.e) ** 4)
    assert retried.summary.failed == 2000 - done.sum()
    assert retried.jobs["attempts"].max() == 4
    failed = retried.jobs.filter(status="failed")
    assert (failed["wasted_gpu_s"] == failed["gpu_s"]).all()


def test_early_failures_follow_the_shape() -> None:
    # Of 4-GPU jobs of 2 h with k = 0.7 and L = 10 h, exp(-4 x 0.2^0.7) never fail.
    mean = 10 * math.gamma(1 + 1 / 0.7)
    world = faulty([Job(0, 4, 2 * HOUR)] * 1500, [6000], failure_gpu_h=mean, failure_shape=0.7, retries=0)
    done = (replay(world, "fifo", placement="pooled").jobs["status"] == "completed").to_numpy()
    assert within_four_errors(done.astype(np.float64), math.exp(-4 * 0.2**0.7))


def naive_fifo(
    jobs: Sequence[Job], gpus: int, mean_h: float, every_s: int, retries: int
) -> dict[str, tuple[int, str]]:
    """End in microseconds and status of jobs under pooled FIFO, by steps from event to event."""
    us = 10**6
    entity = text_entities(f"J{i + 1}" for i in range(len(jobs)))
    left = [int(job.duration_s) * us for job in jobs]
    tries, running, ends = [0] * len(jobs), dict[int, tuple[int, int, int]](), dict[str, tuple[int, str]]()
    now = 0
    while len(ends) < len(jobs):
        waiting = [
            i
            for i, job in enumerate(jobs)
            if job.submit_s * us <= now and i not in running and f"J{i + 1}" not in ends
        ]
        for i in waiting:
            if sum(jobs[k].gpus for k in running) + jobs[i].gpus > gpus:
                break
            u = float(Streams(0).uniforms("failure", entity[i : i + 1], np.array([tries[i]]))[0])
            fails = mean_h * 3600 * us * -math.log1p(-u) / jobs[i].gpus
            running[i] = (now, now + left[i], now + max(math.ceil(fails), 1))
        comes = [int(job.submit_s * us) for job in jobs if job.submit_s * us > now]
        now = min([*comes, *(min(done, fails) for _, done, fails in running.values())])
        for i, (begun, done, fails) in sorted(running.items()):
            if min(done, fails) > now:
                continue
            del running[i]
            if done <= now:
                ends[f"J{i + 1}"] = (now, "completed")
            elif tries[i] == retries:
                ends[f"J{i + 1}"] = (now, "failed")
            else:
                tries[i] += 1
                ran = int(jobs[i].duration_s) * us - left[i] + now - begun
                left[i] = int(jobs[i].duration_s) * us - ran // (every_s * us) * (every_s * us)
    return ends


@settings(max_examples=instances(300))
@given(
    jobs=st.lists(
        st.builds(Job, st.integers(0, 20), st.integers(1, 3), st.integers(1, 12)), min_size=1, max_size=8
    ),
    mean_s=st.sampled_from([2, 10, 40]),
    every_s=st.sampled_from([1, 3, 100]),
    retries=st.integers(0, 2),
)
def test_random_failures_are_those_of_a_plain_simulator(
    jobs: list[Job], mean_s: int, every_s: int, retries: int
) -> None:
    jobs = sorted(jobs, key=lambda job: job.submit_s)
    first = jobs[0].submit_s
    jobs = [job._replace(submit_s=job.submit_s - first) for job in jobs]
    params: dict[str, Any] = {"failure_gpu_h": mean_s / 3600, "checkpoint_s": every_s, "retries": retries}
    result = replay(faulty(jobs, [3], **params), "fifo", placement="pooled")
    ends = result.jobs.select("job_id", (pl.col("finish_s") * 1e6).round().cast(pl.Int64), "status")
    naive = naive_fifo(jobs, 3, mean_s / 3600, every_s, retries)
    assert {job: (end, status) for job, end, status in ends.rows()} == naive
    check_accounts(result, retries)


def check_accounts(result: RunResult, retries: int) -> None:
    """Run time - pauses - lost is the work of completed jobs; stops, attempts and GPU time add up."""
    jobs = result.jobs
    done = jobs.filter(status="completed")
    assert (done["run_s"] - done["lost_s"] - done["duration_s"]).abs().max() in (
        None,
        pytest.approx(0, abs=1e-5),
    )
    assert (jobs["attempts"] <= retries + 1).all()
    assert result.stops is not None
    assert result.stops.height == (jobs["attempts"].clip(1) - 1).sum() + result.summary.failed
    assert jobs["gpu_s"].sum() == pytest.approx((jobs["run_s"] * jobs["num_gpus"]).sum())
    wasted = result.summary.wasted_gpu_h or {}
    assert sum(wasted.values()) == pytest.approx(jobs["wasted_gpu_s"].sum() / 3600, abs=1e-6)


FAULTS: dict[str, Any] = {"failure_gpu_h": 3 / 3600, "checkpoint_s": 2, "retries": 4, "restart_cost_s": 1}


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(
    jobs=job_lists(min_size=1),
    gpus=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=3),
    policy=policies(),
)
def test_sites_and_restored_runs_fail_alike(jobs: list[Job], gpus: list[float], policy: PolicyChoice) -> None:
    world = faulty(jobs, gpus, preemption="checkpoint", **FAULTS)
    whole = run_world(world, policy.create())
    parted = run_world(world, policy.create(), sites=len(gpus), loop="general")
    assert fingerprint(parted) == fingerprint(whole)
    keeper = Keeper(stop_after=4)
    with suppress(RunStoppedError):
        run_world(world, policy.create(), keeper=keeper)
    if keeper.state is not None:
        again = run_world(world, policy.create(), keeper=Keeper(state=keeper.state))
        assert fingerprint(again) == fingerprint(whole)
        assert again.stops is not None
        assert whole.stops is not None
        assert again.stops.equals(whole.stops)


def test_failures_by_progress_are_the_same_under_every_policy() -> None:
    draw = np.random.default_rng(1)
    jobs = [Job(float(i), float(draw.integers(1, 4)), float(draw.integers(5, 60))) for i in range(40)]
    world = faulty(jobs, [4, 2], failure_gpu_h=40 / 3600, retries=3)
    counts = []
    for name in ("fifo", "srtf", "las"):
        stops = replay(world, name).stops
        assert stops is not None
        counts.append(stops.filter(reason="failure").group_by("job_id").len().sort("job_id").rows())
    assert counts[0] == counts[1] == counts[2]
    assert len(counts[0]) > 10


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(lengths=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=6))
def test_jobs_that_fill_the_cluster_end_as_if_they_never_failed(lengths: list[list[int]]) -> None:
    jobs = [Job(float(i), 2, float(sum(each))) for i, each in enumerate(lengths)]
    logs = {"attempt_log": [" ".join(map(str, each)) for each in lengths]}
    replayed, merged = (faulty(jobs, [2], logs, attempts=how) for how in ("replay", "merge"))
    assert times_of(replay(replayed, "fifo")) == times_of(replay(merged, "fifo"))


def test_jobs_are_killed_at_their_limits() -> None:
    # J1 may hold servers for 5 s, and waits 2 s in between; J2 was killed 6 s after submission in the trace.
    columns: Columns = {
        "time_limit_s": [5.0, None, None],
        "status": ["Pass", "Killed", "Failed"],
        "wait_s": [0.0, 1.0, 0.0],
        "span_s": [9.0, 5.0, 2.0],
    }
    jobs = [Job(0, 1, 9), Job(0, 1, 20), Job(0, 1, 2)]
    world = faulty(jobs, [1], columns, limits=True, endings="wall")
    result = replay(world, "fifo")
    assert column_of(result, "status") == {"J1": "killed", "J2": "killed", "J3": "failed"}
    assert column_of(result, "reason") == {"J1": "limit", "J2": "killed", "J3": "trace"}
    assert times_of(result) == {"J1": (0, 5), "J2": (5, 6), "J3": (6, 8)}
    assert (result.summary.failed, result.summary.killed, result.summary.completed) == (1, 2, 0)
    assert result.summary.jct_ended_s is not None
    assert result.summary.jct_ended_s.mean == pytest.approx((5 + 6 + 8) / 3)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
def test_a_job_that_is_killed_while_it_waits_leaves_the_queue(policy: str) -> None:
    columns: Columns = {
        "status": ["Pass", "Killed", "Pass"],
        "wait_s": [0.0, 1.0, 0.0],
        "span_s": [9.0, 2.0, 2.0],
    }
    jobs = [Job(0, 1, 9), Job(1, 1, 9), Job(2, 1, 20)]
    result = replay(faulty(jobs, [1], columns, endings="wall"), policy)
    assert column_of(result, "status") == {"J1": "completed", "J2": "killed", "J3": "completed"}
    assert times_of(result)["J2"][1] == 4
    assert result.stops is not None
    assert "killed" not in result.stops["reason"]  # it held nothing


def test_a_job_that_is_killed_before_it_starts_again_has_begun_one_attempt() -> None:
    # J1 fails at 2 s; sjf starts J2, and J1 is killed at 4 s.
    columns: Columns = {
        "status": ["Killed", "Pass"],
        "wait_s": [0.0, 0.0],
        "span_s": [4.0, 3.0],
        "attempt_log": ["2:oom 5", None],
    }
    world = faulty([Job(0, 1, 7), Job(1, 1, 3)], [1], columns, endings="wall", attempts="replay")
    result = replay(world, "sjf")
    assert times_of(result) == {"J1": (0, 4), "J2": (2, 5)}
    assert column_of(result, "attempts") == {"J1": 1, "J2": 1}


@pytest.mark.parametrize("submit_s", [0, 3])
def test_a_job_that_is_killed_when_it_comes_never_starts(submit_s: int) -> None:
    columns: Columns = {"status": ["Killed", "Pass"], "wait_s": [0.0, 0.0], "span_s": [0.0, 9.0]}
    result = replay(faulty([Job(submit_s, 1, 2), Job(0, 1, 9)], [2], columns, endings="wall"), "fifo")
    assert times_of(result) == {"J1": (None, submit_s), "J2": (0, 9)}
    assert column_of(result, "status") == {"J1": "killed", "J2": "completed"}


def test_what_faults_need_is_named_at_once() -> None:
    with pytest.raises(InvalidScenarioError) as refused:
        faulty([Job(0, 1, 5)], [1], endings="wall", limits=True, attempts="replay")
    assert str(refused.value).splitlines() == [
        "the workload lacks what faults need:",
        "  endings=wall: no job was killed and has both wait_s and span_s",
        "  limits=true: no job has a time_limit_s",
        "  attempts=replay: no job has an attempt_log",
    ]
    for log, text in (
        ("2 2", "does not sum to duration_s: 4 of 5 s"),
        ("5 0", "has an attempt of length 0: 5 of 5 s"),
    ):
        with pytest.raises(InvalidScenarioError, match=f"attempt_log of job J1 {text}"):
            faulty([Job(0, 1, 5)], [1], {"attempt_log": [log]}, attempts="replay")


def test_a_run_without_checkpoints_is_told_that_failures_cost_nothing() -> None:
    result = replay(faulty([Job(0, 1, 5)], [1], failure_gpu_h=1.0), "fifo")
    assert "checkpoint_s is 0" in (result.summary.policy_warnings or [""])[0]


def test_causes_are_of_jobs_once_each() -> None:
    class Wrong(Policy):
        name = "wrong"

        def decide(self, view: View) -> Decision:
            return Decision(causes=Causes(np.array([0]), np.array([7]), ("space",)))

    with pytest.raises(InfeasibleDecisionError, match="cause of job J1 by a job that does not exist"):
        replay(faulty([Job(0, 1, 5)], [1]), Wrong())


def test_elastic_jobs_fail_by_the_gpus_they_hold() -> None:
    calm = busy_elastic(12)
    params = {**calm.params, "failure_gpu_h": 0.3, "checkpoint_s": 30.0, "retries": 10**6}
    world = build_world(calm.table, calm.cluster, partition=calm.partition, params=params)
    first, again = (run_world(world, create_policy("drf", {}), sites=sites) for sites in (1, 2))
    assert fingerprint(first) == fingerprint(again)
    assert first.stops is not None
    assert first.stops.height > 0
    assert (first.jobs["status"] == "completed").all()
    held = run_world(replace(world, injectors=()), create_policy("drf", {}))
    assert held.jobs["gpu_s"].sum() < first.jobs["gpu_s"].sum()
