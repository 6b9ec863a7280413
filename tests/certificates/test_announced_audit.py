"""Bounds on welfare of runs, the line of Lemma 4.3, loads, and rules that recorded runs break."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.certificates.announced_audit import RunIntervals, eviction_line, violations
from ray_sim.contract.announced_worlds import busy_announced, misreporting
from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.announced_audit import audit_run
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures import AnnouncedFigures
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.welfare_audit import AuditRequest, MechanismRecord
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import AnnouncedDecision, AnnouncedView
from ray_sim.reports.tables import summary_rows
from tests.engine.kinds.announced.test_run import CERTAIN, Row, run, start_all, world
from tests.figures import figures_of, welfare_of
from tests.proofs import instances, quick_first

POLICIES = ("posted_price", "announced_fifo", "value_density", "reservation")
ROUNDED = 1e-6
"""Share by which linear programmes are rounded up."""


def worlds(seed: int) -> list[World]:
    return [busy_announced(24, seed), misreporting(seed)]


# ---------------------------------------------------------------- the bound of every run


@pytest.mark.parametrize("policy", quick_first(POLICIES, 2))
def test_no_policy_earns_more_than_the_bound(policy: str) -> None:
    for seed in range(instances(40, 1)):
        for given in worlds(seed):
            found = welfare_of(run_world(given, create_policy(policy, {})))
            assert found.welfare <= found.bound
            assert found.ratio == pytest.approx(found.bound / found.welfare)


def test_without_contention_the_bound_is_earned() -> None:
    for seed in range(instances(40, 4)):
        busy = busy_announced(30, seed)
        roomy = build_world(busy.table, cluster([100], ["a"]), params=busy.params)
        found = welfare_of(run_world(roomy, create_policy("announced_fifo", {})))
        assert found.ratio == pytest.approx(1, rel=1e-8)


def test_the_bound_is_over_the_jobs_that_count() -> None:
    rows: list[Row] = [
        (0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN),
        (600.0, 600.0, 60.0, 1, "deadline 3 600", CERTAIN),
    ]
    given = world(rows)
    whole, half = (
        welfare_of(run_world(given, create_policy("announced_fifo", {}), trim=trim))
        for trim in (None, Trim(warm_up_s=300))
    )
    assert [whole.welfare, half.welfare] == [7, 3]
    assert [whole.bound, half.bound] == pytest.approx([7, 3])


def test_where_nothing_is_earned_there_is_no_ratio() -> None:
    found = welfare_of(run(world([(0.0, 0.0, 60.0, 1, "deadline 4 600", CERTAIN)]), lambda _: None))
    assert (found.welfare, found.ratio) == (0, None)
    assert found.bound == pytest.approx(4)


# ---------------------------------------------------------------- the optimum of an audit


def two_for_one() -> World:
    """One GPU and two jobs of two rounds, worth 5 and 3 by round 2; told to nobody before they end."""
    rows: list[Row] = [(0.0, 0.0, 120.0, 1, f"deadline {worth} 120", "0:120:1") for worth in (3, 5)]
    return world(rows, gpus=1, params={"signal": "none"})


def test_the_optimum_after_the_fact_takes_the_dearer_job() -> None:
    given, policy = two_for_one(), partial(create_policy, "announced_fifo", {})
    result = run_world(given, policy())
    found = audit_run(given, policy, result, AuditRequest())
    assert (found.optimum, found.optimum_kind, found.optimum_proven) == (5, "ex post", True)
    assert found.optimum_bound == pytest.approx(5, rel=ROUNDED)
    assert found.optimum_ratio == pytest.approx(5 / 3, rel=ROUNDED)
    assert found.lp_bound == pytest.approx(5, rel=ROUNDED)
    assert found.launch_plan_bound == pytest.approx(5, rel=ROUNDED)
    assert found.launch_plan_ratio == pytest.approx(5 / 3, rel=ROUNDED)
    assert (found.regret, found.sampled_jobs, found.violations) == (None, None, [])


def test_a_programme_that_is_too_large_gives_way_to_the_cheap_bound_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ray_sim.solvers.welfare_optimum.MOST_VARIABLES", 1)
    monkeypatch.setattr("ray_sim.solvers.launch_plan_lp.MOST_VARIABLES", 0)
    given, policy = two_for_one(), partial(create_policy, "announced_fifo", {})
    result = run_world(given, policy())
    found = audit_run(given, policy, result, AuditRequest())
    assert found.optimum_kind == "prices of rounds"
    assert found.optimum_bound == welfare_of(result).bound
    assert (found.optimum, found.optimum_proven, found.lp_bound) == (None, None, None)
    assert (found.launch_plan_bound, found.launch_plan_ratio) == (None, None)


@pytest.mark.parametrize("policy", quick_first(POLICIES))
def test_bounds_are_in_order_and_above_every_policy(policy: str) -> None:
    for seed in range(instances(20, 1)):
        for given in worlds(seed):
            new_policy = partial(create_policy, policy, {})
            result = run_world(given, new_policy())
            found = audit_run(given, new_policy, result, AuditRequest(jobs=0, nodes=1))
            earned = welfare_of(result)
            assert earned.welfare <= found.optimum_bound <= earned.bound * (1 + ROUNDED)
            assert found.optimum is not None
            assert found.lp_bound is not None
            assert found.optimum <= found.optimum_bound <= found.lp_bound
            assert found.violations == []
            assert (found.launch_plan_bound is None) == (AnnouncedFacts.in_world(given).signal == "full")


def test_other_jobs_are_refused() -> None:
    rigid = build_world(job_table([(0.0, 1, 60.0, "a")]), cluster([2], ["a"]))
    with pytest.raises(InvalidScenarioError, match="audit: is about announced jobs: set"):
        audit_run(
            rigid,
            partial(create_policy, "fifo", {}),
            run_world(rigid, create_policy("fifo", {})),
            AuditRequest(),
        )


@pytest.mark.slow
def test_an_audit_is_shown_and_its_numbers_are_metrics() -> None:
    given, policy = busy_announced(20), partial(create_policy, "posted_price", {"eps": 1.0})
    result = run_world(given, policy())
    audit = audit_run(given, policy, result, AuditRequest(jobs=1, futures=2))
    own = replace(figures_of(result, AnnouncedFigures), audit=audit)
    summary = replace(result.summary, figures=own)
    rows = dict(summary_rows(summary))
    assert audit.regret is not None
    assert rows["audit: largest gain by misreports"] == audit.regret.max
    assert rows["audit: violation"] == "none"
    assert rows["upper bound on welfare"] == welfare_of(result).bound
    assert summary.flat()["audit.regret.max"] == audit.regret.max
    assert summary.flat()["welfare.bound"] == welfare_of(result).bound


# ---------------------------------------------------------------- Lemma 4.3


@pytest.mark.parametrize(("nodes", "exponent"), [(625, 1.4), (10_000, 23.7)])
def test_the_exponents_of_lemma_4_3(nodes: int, exponent: float) -> None:
    """With eps = 0.5, C_m = 1 and a prefactor below 1 at 10^4 nodes only."""
    line = eviction_line(nodes, 0.95 * nodes, 1, 10, 20, 0.05)
    prefactor = 30**2 / 0.05
    if prefactor * math.exp(-exponent) >= 1:
        assert line is None
    else:
        assert line is not None
        assert -math.log(line / prefactor) == pytest.approx(exponent, abs=0.05)


def test_lemma_4_3_says_nothing_without_spare_nodes_or_threshold() -> None:
    assert eviction_line(10_000, 10_000 * 0.95, 1, 1, 1, 0.0) is None
    assert eviction_line(100, 99.5, 1, 1, 1, 0.05) is None
    assert eviction_line(4, 2.0, 4, 1, 1, 0.05) is None


# ---------------------------------------------------------------- rules


def rule_breaks(given: World, result: RunResult, record: MechanismRecord | None = None) -> list[str]:
    facts = AnnouncedFacts.in_world(given)
    runs, gpus = RunIntervals.of(result, given.table.origin_us), facts.statements.reported.concurrency
    return violations(runs, result.jobs, gpus, facts.nodes, facts.slot_us, record)


def changed(result: RunResult, **columns: Any) -> RunResult:
    return replace(result, jobs=result.jobs.with_columns(**columns))


def test_changed_records_are_caught() -> None:
    given = busy_announced(30)
    result = run_world(given, create_policy("announced_fifo", {}))
    assert rule_breaks(given, result) == []
    starts = pl.col("event") == "start"
    double = pl.when(starts).then(pl.col("count") * 2).otherwise(pl.col("count"))
    told = rule_breaks(given, replace(result, events=result.events.with_columns(count=double)))
    assert ["holds another number of GPUs" in told[0], "GPUs are held, of 10" in told[1]] == [True, True]
    early = pl.when(pl.col("event") == "finish").then(pl.col("time_s") - 60).otherwise(pl.col("time_s"))
    assert rule_breaks(given, replace(result, events=result.events.with_columns(time_s=early))) == []
    unfinished = pl.when(pl.int_range(pl.len()) < 2).then(pl.lit("evicted")).otherwise(pl.col("status"))
    told = rule_breaks(given, changed(result, status=unfinished, payment=pl.lit(1.0)))
    assert [sentence.partition(" (")[0] for sentence in told] == [
        "job job-0 pays and has not completed",
        "job job-0 earns and has not completed",
    ]


def record_of(start: list[int], price: list[int], **changes: Any) -> MechanismRecord:
    record = MechanismRecord(
        relaxed=4 * NANO,
        least_failure=0.05,
        booked=np.zeros(4, dtype=np.int64),
        start=np.array(start),
        price=np.array(price),
        points=0,
        fallen=(),
        regret_bound=0.0,
    )
    return replace(record, **changes)


def evicting(victims: list[int]) -> tuple[World, RunResult]:
    """Three jobs start in round 0, and some are evicted in round 1; the third would end in round 2."""
    rows: list[Row] = [(0.0, 0.0, 600.0, 1, "deadline 9 900", "0:600:1")] * 2
    given = world([*rows, (0.0, 0.0, 120.0, 1, "deadline 9 900", "0:120:1")])

    def answer(view: AnnouncedView) -> AnnouncedDecision:
        evict = np.array(victims if view.round == 1 else [], dtype=np.int64)
        return replace(start_all(view), evict=evict, charges=None)

    return given, run(given, answer)


@pytest.mark.parametrize(("victims", "just"), [([2], True), ([1, 2], True), ([0], False), ([0, 2], False)])
def test_only_the_last_born_are_evicted(victims: list[int], just: bool) -> None:
    told = rule_breaks(*evicting(victims), record_of([0, 0, 0], [0, 0, 0]))
    late = "job job-0 is evicted at 60 s, and a job that was born later stays (1 such jobs)"
    assert told == ([] if just else [late])


def test_starts_prices_and_bookings_are_held_against_the_record() -> None:
    given, result = evicting([])
    late = record_of([0, 1, NEVER_ROUND], [0, 0, 0])
    assert rule_breaks(given, result, late) == ["job job-1 starts otherwise than its plan says (2 such jobs)"]
    paid = changed(result, payment=pl.lit(2.0))
    assert rule_breaks(given, paid, record_of([0, 0, 0], [2 * NANO, 2 * NANO, NANO])) == [
        "job job-2 pays more than the menu of its birth said (1 such jobs)"
    ]
    full = record_of([0, 0, 0], [0, 0, 0], booked=np.array([4 * NANO, 4 * NANO + 2, 0, 0]), fallen=((1, 3),))
    assert rule_breaks(given, result, full) == [
        "round 1: 4 GPUs are booked, above C' = 4 (1 such rounds)",
        "job job-1: at its birth the price of round 3 is lower than at an earlier birth (1 such jobs)",
    ]
    rounded = replace(full, points=4, fallen=())  # each point may round up by half a 1e-9
    assert rule_breaks(given, result, rounded) == []
