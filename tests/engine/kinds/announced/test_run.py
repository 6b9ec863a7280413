"""Announced jobs: births, arrivals, signals, starts, evictions, payments, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.certificates.announced_audit import RunIntervals, violations
from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.books import checked_run
from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.announced_audit import check_audited
from ray_sim.kernels.core.arrays import FAILED, KILLED
from ray_sim.model.errors import (
    BlindPolicyError,
    InfeasibleDecisionError,
    InvalidScenarioError,
    InvalidWorkloadError,
    RunStoppedError,
)
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import parse_outlook
from ray_sim.model.result import RunResult
from ray_sim.model.streams import text_entities
from ray_sim.model.units import NEVER_US, US_PER_S
from ray_sim.model.value_function import parse_value
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import (
    NO_JOBS,
    AnnouncedContext,
    AnnouncedDecision,
    AnnouncedPolicy,
    AnnouncedView,
    Charges,
    Launches,
    Streams,
)
from tests.engine.test_snapshots import Keeper
from tests.figures import welfare_of
from tests.proofs import quick_first
from tests.worlds import fingerprint

Row = tuple[float, float, float, int, str, str]
"""Birth, arrival and duration in seconds, GPUs, value, outlook."""

CERTAIN = "0:60:1"


def jobs(rows: list[Row], **reported: Any) -> JobTable:
    table = job_table([(row[0], row[3], row[2], "a") for row in rows])
    values = tuple(parse_value(row[4]) for row in rows)
    outlooks = tuple(parse_outlook(row[5]) for row in rows)
    seconds = np.array([row[:2] for row in rows]).reshape(-1, 2) - (rows[0][0] if rows else 0.0)
    birth_us, arrival_us = (seconds * US_PER_S).astype(np.int64).T
    each = np.arange(len(rows))
    profile = StatementProfile(
        birth_us=birth_us.copy(),
        arrival_us=arrival_us.copy(),
        values=values,
        value_row=each,
        outlooks=outlooks,
        outlook_row=each.copy(),
        reported_value_row=each.copy(),
        reported_outlook_row=each.copy(),
        reported_gpus=table.num_gpus.copy(),
    )
    return replace(table, statements=replace(profile, **reported))


def world(
    rows: list[Row], gpus: int = 4, params: Mapping[str, object] | None = None, **reported: Any
) -> World:
    given = {"truth": "announced", "slot_s": 60, "horizon_s": 6000, "most_duration_s": 1200, **(params or {})}
    return build_world(jobs(rows, **reported), cluster([gpus], ["a"]), params=given)


class Scripted(AnnouncedPolicy):
    """Answers by a function of the view; an idle decision where it gives None."""

    def __init__(self, answer: Callable[[AnnouncedView], AnnouncedDecision | None]) -> None:
        self._answer = answer

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        return self._answer(view) or AnnouncedDecision()


def run(given: World, answer: Callable[[AnnouncedView], AnnouncedDecision | None]) -> RunResult:
    return run_world(given, Scripted(answer))


def start_all(view: AnnouncedView) -> AnnouncedDecision:
    """Start whatever has come, at a price of 1, paid at the end."""
    jobs = view.present
    start_us = np.full(len(jobs), view.now_us)
    paid = Charges(view.completed.copy(), np.full(len(view.completed), 10**9))
    return AnnouncedDecision(changes=view.starts(jobs), launches=Launches(jobs, start_us), charges=paid)


def test_a_job_is_born_comes_runs_and_pays_in_whole_rounds() -> None:
    # Job 0: born in round 0, comes 70 s later, in round 2, runs 90 s, 2 rounds: ends in round 4, 240 s.
    # Job 1: born at 65 s, in round 2, comes at once, runs 1 round: ends in round 3, one round later.
    rows: list[Row] = [
        (0.0, 70.0, 90.0, 1, "step 5@120 3@240", "70:90:1"),
        (65.0, 65.0, 60.0, 2, "deadline 4 60", CERTAIN),
    ]
    result = run(world(rows), start_all)
    got = result.jobs.select("submit_s", "arrival_s", "start_s", "finish_s", "value", "payment", "fate")
    assert got.rows() == [
        (0.0, 120.0, 120.0, 240.0, 3.0, 1.0, "completed"),
        (65.0, 120.0, 120.0, 180.0, 4.0, 1.0, "completed"),
    ]
    figures = welfare_of(result)
    assert (figures.welfare, figures.revenue, figures.surplus, figures.eviction_rate) == (7.0, 2.0, 5.0, 0.0)
    assert figures.bound == pytest.approx(7.0, rel=1e-8)  # both have room, and none could earn more alone
    assert figures.jct_from_arrival_s.mean == (120 + 60) / 2
    assert result.summary.jct_s.mean == (240 + 115) / 2
    progress = result.timeline.select("time_s", "welfare", "revenue").rows()
    assert progress[-2:] == [(180.0, 4.0, 1.0), (240.0, 7.0, 2.0)]
    come = result.events.filter(pl.col("event") == "come").select("time_s", "job_id").rows()
    assert come == [(120.0, "job-0"), (120.0, "job-1")]


@pytest.mark.parametrize(("signal", "stated"), [("none", [0, 0]), ("full", [1, 5]), ("partial", [1, 3])])
def test_signals_tell_nothing_the_digits_or_the_rounds(signal: str, stated: list[int]) -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN),
        (0.0, 0.0, 299.0, 1, "deadline 4 600", CERTAIN),
    ]
    heard: list[list[int]] = []

    def listen(view: AnnouncedView) -> AnnouncedDecision:
        if len(view.came):
            heard.append(view.signals(view.came).tolist())
        return start_all(view)

    run(world(rows, params={"signal": signal}), listen)
    assert heard == [stated]


def test_the_last_born_goes_first_running_due_or_not_yet_here() -> None:
    # Jobs 0 to 2 run with 2, 1 and 1 GPUs of 4; 3 is announced only; 4 is born last and comes with them.
    rows: list[Row] = [
        *((0.0, 0.0, 600.0, gpus, "deadline 9 900", "0:600:1") for gpus in (2, 1, 1)),
        (0.0, 600.0, 60.0, 4, "deadline 9 900", "600:60:1"),
        (0.0, 60.0, 60.0, 2, "deadline 9 900", "60:60:1"),
    ]
    seen: dict[int, tuple[list[int], list[int]]] = {}

    def answer(view: AnnouncedView) -> AnnouncedDecision:
        due = view.present
        evicted = view.overload(due)
        seen[view.round] = due.tolist(), evicted.tolist()
        staying = np.setdiff1d(due, evicted)
        return AnnouncedDecision(
            changes=view.starts(staying, np.intersect1d(evicted, view.running)),
            evict=evicted,
            launches=Launches(due, np.full(len(due), view.now_us)) if len(due) else None,
        )

    result = run(world(rows), answer)
    assert seen[0] == ([0, 1, 2], [])
    assert seen[1] == ([4], [4])  # the load is 4 + 2: the last born, which is due, suffices
    assert result.jobs["fate"].to_list() == ["completed"] * 4 + ["cancelled_due"]


def test_evictions_are_told_apart() -> None:
    rows: list[Row] = [
        (0.0, 0.0, 600.0, 1, "deadline 9 900", "0:600:1"),
        (0.0, 0.0, 600.0, 1, "deadline 9 900", "0:600:1"),
        (0.0, 300.0, 60.0, 1, "deadline 9 900", "300:60:1"),
        (0.0, 0.0, 60.0, 1, "deadline 9 900", CERTAIN),
        (0.0, 5990.0, 60.0, 1, "deadline 9 900", CERTAIN),
    ]

    def answer(view: AnnouncedView) -> AnnouncedDecision | None:
        if view.round == 0:
            return AnnouncedDecision(
                changes=view.starts(np.array([0])), reject=np.array([3]), reject_reason="dear"
            )
        if view.round == 1:
            launches = Launches(np.array([1]), np.array([view.now_us + 60_000_000]))
            return AnnouncedDecision(evict=np.array([0, 2]), launches=launches)
        return AnnouncedDecision(evict=np.array([1])) if view.round == 2 else None

    result = run(world(rows), answer)
    fates = ["evicted_running", "cancelled_due", "cancelled_early", "not_launched", "never_came"]
    assert result.jobs["fate"].to_list() == fates
    figures = welfare_of(result)
    assert figures.eviction_rate == 1.0
    assert {name: count for name, count in figures.fates.items() if count} == dict.fromkeys(fates, 1)
    assert result.jobs["payment"].sum() == 0


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (
            lambda view: AnnouncedDecision(changes=view.starts(np.array([1]))),
            "starts job job-1, which has not come",
        ),
        (
            lambda view: AnnouncedDecision(launches=Launches(np.array([1]), np.array([view.now_us]))),
            "tells job job-1 its start, which does not wait or has not come",
        ),
        (
            lambda view: AnnouncedDecision(launches=Launches(np.array([0]), np.array([view.now_us + 1]))),
            "a start that is past or within a round",
        ),
        (
            lambda view: AnnouncedDecision(charges=Charges(np.array([0]), np.array([1]))),
            "charges job job-0, which has not completed",
        ),
        (
            lambda view: AnnouncedDecision(
                changes=view.starts(np.array([0])), launches=Launches(np.array([0]), np.array([60_000_000]))
            ),
            "starts job job-0 at another time than its launch says",
        ),
        (
            lambda view: AnnouncedDecision(launches=Launches(np.array([0, 0]), np.array([0, 0]))),
            "not sorted numbers of jobs, each once",
        ),
        (lambda view: AnnouncedDecision(charges=Charges(np.array([0]), NO_JOBS)), "1 jobs and 0 values"),
    ],
)
def test_decisions_that_break_a_rule_are_refused(
    answer: Callable[[AnnouncedView], AnnouncedDecision], fault: str
) -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN),
        (0.0, 120.0, 60.0, 1, "deadline 4 600", CERTAIN),
    ]
    with pytest.raises(InfeasibleDecisionError, match=fault):
        run(world(rows), answer)


def test_a_running_job_is_not_moved_and_a_charge_is_not_repeated() -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN),
        (0.0, 0.0, 600.0, 1, "deadline 4 600", CERTAIN),
    ]

    def twice(view: AnnouncedView) -> AnnouncedDecision:
        paid = np.array([0] if view.round in (1, 2) else [], dtype=np.int64)
        return AnnouncedDecision(changes=view.starts(view.present), charges=Charges(paid, paid + 1))

    with pytest.raises(InfeasibleDecisionError, match="charges job job-0 a second time"):
        run(world(rows), twice)

    def moves(view: AnnouncedView) -> AnnouncedDecision:
        return AnnouncedDecision(changes=view.starts(np.array([1])))

    with pytest.raises(InfeasibleDecisionError, match="moves or stops job job-1, which runs"):
        run(world(rows), moves)


def test_what_nobody_knows_is_not_told() -> None:
    rows: list[Row] = [(0.0, 120.0, 60.0, 1, "deadline 4 600", CERTAIN)]
    for question in (
        lambda view: view.signals(np.array([0])),
        lambda view: view.work_left(np.array([0])),
        lambda view: view.jobs.work_us,
    ):
        with pytest.raises(BlindPolicyError):
            run(world(rows), lambda view, asked=question: asked(view))  # type: ignore[misc]


class Blind(AnnouncedPolicy):
    """Reads statements that it does not declare."""

    sees = frozenset()

    def start(self, world: AnnouncedContext, streams: Streams) -> None:
        world.statements  # noqa: B018

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        return AnnouncedDecision()


def test_statements_are_declared() -> None:
    with pytest.raises(BlindPolicyError, match="add 'statements' to its `sees`"):
        run_world(world([(0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN)]), Blind())


def test_too_few_gpus_earn_nothing_and_too_many_are_held() -> None:
    rows: list[Row] = [(0.0, 0.0, 60.0, 2, "deadline 4 600", CERTAIN)] * 3
    result = run(world(rows, gpus=8, reported_gpus=np.array([1.0, 2.0, 3.0])), start_all)
    assert result.jobs["value"].to_list() == [0.0, 4.0, 4.0]
    assert result.jobs["payment"].to_list() == [1.0] * 3
    assert result.timeline["used_gpu"].max() == 6.0


@pytest.mark.parametrize(
    ("rule", "checks"),
    [
        ("value", lambda reported, true: (reported.values.max(), true.values.max() * 2)),
        ("gpus", lambda reported, true: (reported.concurrency.tolist(), (true.concurrency * 2).tolist())),
        (
            "collapsed",
            lambda reported, true: (np.diff(reported.outlooks.ptr)[reported.outlook_row].tolist(), [1, 1]),
        ),
        ("deadline", lambda reported, true: (reported.values[reported.value_row[1], 2], 2 * 10**9)),
        ("deadline", lambda reported, true: (np.flatnonzero(reported.values.any(axis=0)).max(), 10)),
    ],
)
def test_misreports_change_the_report_and_not_the_truth(
    rule: str, checks: Callable[..., tuple[Any, Any]]
) -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", "0:60:0.5 0:180:0.5"),
        (0.0, 0.0, 60.0, 2, "deadline 2 60", CERTAIN),
    ]
    params = {"misreport": rule, "misreport_share": 1.0, "most_value": 100, "most_gpus": 8}
    params["most_delay_s"] = 600
    lying = world(rows, params=params).facts.statements  # type: ignore[attr-defined]
    honest = world(rows).facts.statements  # type: ignore[attr-defined]
    found, expected = checks(lying.reported, lying.true)
    assert found == expected
    assert np.array_equal(lying.true.values, honest.true.values)
    assert np.array_equal(lying.true.concurrency, honest.true.concurrency)


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        (
            {"most_gpus": 1},
            r"reported_gpus: must be at most 1 .*; raise -w most_gpus, .*, is 2 for job job-1",
        ),
        ({"most_duration_s": 60}, "outlook: must be at most 1 rounds .most_duration_s.*is 3 for job job-0"),
        ({"most_value": 3}, "value: must be at most 3 .most_value.*is 4 for job job-0"),
        ({"most_delay_s": 599}, "value: must be 0 later than 9 rounds .*most_delay_s.*is 10 for job job-0"),
        ({}, "value: must be 0 or at least 1 unit.*is 0.5 for job job-2"),
    ],
)
def test_statements_beyond_the_bounds_are_refused_with_the_job(params: dict[str, object], fault: str) -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", "0:60:0.5 0:180:0.5"),
        (0.0, 0.0, 60.0, 2, "deadline 2 60", CERTAIN),
        (0.0, 0.0, 60.0, 1, "step 2@60 0.5@120", CERTAIN),
    ]
    with pytest.raises(InvalidWorkloadError, match=fault):
        world(rows, params=params)


def test_a_job_without_whole_gpus_is_refused_without_a_count_of_a_part() -> None:
    # A trial world has a few of the jobs, so a count would be of them.
    with pytest.raises(InvalidWorkloadError, match=r"but job job-0 has 0: round or drop such jobs$"):
        world([(0.0, 0.0, 60.0, 0, "deadline 4 600", CERTAIN)])


def test_statements_are_cut_to_the_bounds_on_request_and_counted() -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", "0:60:0.25 0:120:0.25 0:180:0.5"),
        (0.0, 0.0, 60.0, 1, "deadline 2 60", CERTAIN),
        (0.0, 0.0, 60.0, 1, "step 2@60 0.5@120", CERTAIN),
    ]
    bounds = {"most_value": 3, "most_duration_s": 120, "most_delay_s": 500}
    given = world(rows, params={**bounds, "clip_statements": True})
    reported = given.facts.statements.reported  # type: ignore[attr-defined]
    assert reported.values.max() == 3 * 10**9
    assert np.flatnonzero(reported.values[0]).tolist() == list(range(9))
    assert reported.values[2].tolist()[:3] == [2 * 10**9, 2 * 10**9, 0]
    first = slice(*reported.outlooks.ptr[:2])
    assert reported.outlooks.duration[first].tolist() == [1, 2]
    assert reported.outlooks.probability[first].tolist() == [0.25, 0.75]
    figures = welfare_of(run_world(given, create_policy("announced_fifo")))
    assert figures.clipped == 2


def test_worlds_that_are_no_pool_of_equal_gpus_are_refused_at_once() -> None:
    slow = replace(cluster([4], ["a"]), speed=np.array([0.5]))
    with pytest.raises(InvalidScenarioError) as refused:
        build_world(jobs([]), slow, partition="vc", params={"truth": "announced"})
    assert all(name in str(refused.value) for name in ("slot_s", "partition", "speed"))
    with pytest.raises(InvalidWorkloadError, match="ray-sim enrich --profile announced"):
        build_world(job_table([]), cluster([4], ["a"]), params={"truth": "announced", "slot_s": 60})


def faulty(table: JobTable, gpus: int, **params: object) -> World:
    given = {"truth": "announced", "slot_s": 60, "horizon_s": 60_000, "most_duration_s": 1200, **params}
    return build_world(table, cluster([gpus], ["a"]), params=given)


def test_limits_are_of_whole_rounds_and_a_killed_job_pays_nothing() -> None:
    # One GPU. Job 0 runs 2 rounds, as its 90 s are rounded up, and so is its limit of 100 s: it completes.
    # Job 1 would run 5 rounds from 240 s and is killed after 2 of them; job 2 starts in the next round.
    # Job 3 comes at 120 s, and was killed 130 s later in the trace, 3 rounds: it still waits.
    rows: list[Row] = [
        (0.0, 60.0, 90.0, 1, "deadline 9 6000", "60:120:1"),
        (0.0, 60.0, 300.0, 1, "deadline 9 6000", "60:300:1"),
        (0.0, 60.0, 60.0, 1, "deadline 9 6000", "60:60:1"),
        (0.0, 120.0, 60.0, 1, "deadline 9 6000", "120:60:1"),
    ]
    second, never = US_PER_S, NEVER_US
    table = replace(
        jobs(rows),
        time_limit_us=np.array([100 * second, 100 * second, never, never]),
        killed_us=np.array([never, never, never, 130 * second]),
        endings=np.array([0, 0, FAILED, KILLED]),
    )
    result = run_world(faulty(table, 1, limits=True, endings="wall"), create_policy("announced_fifo"))
    assert result.jobs.select("start_s", "finish_s", "fate", "reason", "value").rows() == [
        (60.0, 180.0, "completed", None, 9.0),
        (180.0, 300.0, "killed", "limit", 0.0),
        (300.0, 360.0, "failed", "trace", 0.0),
        (None, 300.0, "killed", "killed", 0.0),
    ]
    figures = welfare_of(result)
    assert (figures.welfare, figures.eviction_rate) == (9.0, 0.0)
    assert {fate: count for fate, count in figures.fates.items() if count} == {
        "completed": 1,
        "failed": 1,
        "killed": 2,
    }
    assert "failed" not in welfare_of(run(world(rows), start_all)).fates


def test_a_failure_ends_a_job_within_a_round_and_its_gpus_serve_from_the_next_one() -> None:
    rows: list[Row] = [(0.0, 0.0, 1200.0, 2, "deadline 9 60000", "0:1200:1")] * 12
    told: dict[int, float] = {}

    def answer(view: AnnouncedView) -> AnnouncedDecision:
        assert view.now_us % (60 * US_PER_S) == 0
        told.update({int(job): view.now_us / US_PER_S for job in view.failed})
        done = np.setdiff1d(view.completed, view.failed)
        return AnnouncedDecision(
            changes=view.starts(view.present[: 1 - len(view.running)]),
            charges=Charges(done, np.ones(len(done), dtype=np.int64)),
        )

    mean_s = 2400.0
    given = faulty(jobs(rows), 3, failure_gpu_h=mean_s / 3600, most_duration_s=1200)
    result = run_world(given, Scripted(answer))
    draws = Streams(0).uniforms("failure", text_entities(result.jobs["job_id"]), np.zeros(12, dtype=np.int64))
    start_s, expected = 0.0, []
    for uniform in draws.tolist():
        lasts_s = -math.log1p(-uniform) * mean_s / 2  # on two GPUs
        done = lasts_s >= 1200
        end_s = start_s + (1200 if done else math.ceil(lasts_s * US_PER_S) / US_PER_S)
        expected.append((start_s, end_s, "completed" if done else "failed", 1e-9 * done))
        start_s = math.ceil(end_s / 60) * 60.0
    assert result.jobs.select("start_s", "finish_s", "fate", "payment").rows() == expected
    assert 2 < len(told) < 12
    failed = result.jobs.with_row_index().filter(fate="failed")
    rounds = {job: math.ceil(end / 60) * 60.0 for job, end in failed.select("index", "finish_s").rows()}
    assert told == {job: round_s for job, round_s in rounds.items() if job < 11}  # then there is no job left
    assert (failed["reason"] == "failure").all()
    assert result.stops is not None
    assert result.stops["job_id"].to_list() == failed["job_id"].to_list()
    held = result.jobs["run_s"] * 2
    assert result.jobs["gpu_s"].to_list() == pytest.approx(held.to_list())
    assert result.summary.wasted_gpu_h == pytest.approx({"failure": (failed["run_s"] * 2).sum() / 3600})


POLICIES = ("posted_price", "announced_fifo", "value_density", "reservation")


@pytest.mark.parametrize("policy", quick_first(POLICIES))
def test_nobody_pays_for_a_failed_job_and_sites_and_restored_runs_are_equal(policy: str) -> None:
    calm = busy_announced(60)
    limits = Streams(0).generator("limits").integers(60, 400, 60) * US_PER_S
    endings = np.where(np.arange(60) % 7 == 0, FAILED, 0)
    table = replace(calm.table, time_limit_us=limits, endings=endings)
    params = {**calm.params, "failure_gpu_h": 0.2, "limits": True, "endings": "run"}
    given = build_world(table, calm.cluster, params=params)
    new_policy = partial(create_policy, policy, {"mu": 0.1} if policy == "posted_price" else {})
    whole = checked_run(given, new_policy())
    ended = whole.jobs.filter(pl.col("status").is_in(["failed", "killed"]))
    assert set(ended["reason"]) >= {"failure", "limit"}
    assert (ended["fate"] == ended["status"]).all()
    assert ended["payment"].sum() == ended["value"].sum() == 0
    if policy == "posted_price":
        assert (whole.jobs.filter(status="completed")["payment"] > 0).any()
    runs = RunIntervals.of(whole, table.origin_us)
    facts = AnnouncedFacts.in_world(given)
    gpus = facts.statements.reported.concurrency
    assert violations(runs, whole.jobs, gpus, facts.nodes, facts.slot_us) == []
    assert welfare_of(whole).welfare <= welfare_of(whole).bound * (1 + 1e-9)
    assert fingerprint(run_world(given, new_policy(), sites=3)) == fingerprint(whole)
    for decisions in (3, 9, 27):
        keeper = Keeper(stop_after=decisions)
        with pytest.raises(RunStoppedError):
            run_world(given, new_policy(), keeper=keeper)
        assert keeper.state is not None
        again = run_world(given, new_policy(), keeper=Keeper(state=keeper.state))
        assert fingerprint(again) == fingerprint(whole)


def test_what_a_job_that_runs_once_cannot_suffer_is_refused_by_name() -> None:
    table = jobs([(0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN)])
    for name, value in (("attempts", "replay"), ("retries", 1), ("preemption", "restart")):
        with pytest.raises(InvalidScenarioError, match=f"{name}: announced jobs run once"):
            faulty(table, 1, **{name: value})
    with pytest.raises(InvalidScenarioError, match=r"audit: .* know no faults: leave out failure_gpu_h, or"):
        check_audited(faulty(table, 1, failure_gpu_h=1.0))
