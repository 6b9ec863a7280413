"""Properties of the mechanism in the engine, and how runs go on alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.contract.rigid_worlds import cluster
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.run import GeneralRun, run_world
from ray_sim.engine.sites.fleet import fleet_of
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.policies.posted_price.exact_failure import ExactFailure
from tests.policies.posted_price.engine_runs import (
    SIGNALS,
    FateRow,
    Instance,
    outlook,
    policy_of,
    random_instance,
    random_value,
    run_engine,
    table_of,
    world_of,
)
from tests.policies.posted_price.naive_mechanism import NANO, Job, Setting, Signal, signal_of
from tests.proofs import instances

WAYS: tuple[Mapping[str, Any], ...] = (
    {},
    {"failure_oracle": "sampled"},
    {"menu": "expected"},
)
"""Oracles and menus."""


def drawn(whole: int, per_commit: int) -> Iterator[Instance]:
    return (random_instance(seed) for seed in range(instances(whole, per_commit)))


@pytest.mark.parametrize("way", WAYS[:2])
def test_later_jobs_change_no_earlier_fate(way: Mapping[str, Any]) -> None:
    """Fates and payments; the bounds of the world stay the same."""
    for instance in drawn(2000, 1):
        fates = run_engine(instance, **way).fates()
        for kept in range(1, len(fates)):
            assert run_engine(instance.first(kept), **way).fates() == fates[:kept]


def tailed_jobs(draw: np.random.Generator) -> tuple[Job, ...]:
    """Jobs worth H = 8 that fill rounds 3 and 4, then others that need these with a small probability."""
    jobs: list[Job] = []
    for arrival in [*draw.integers(3, 5, 100).tolist(), *[2] * 100]:
        tail = float(draw.uniform(0.1, 0.3))
        short, long = (arrival, 1, 1 - tail), (arrival, 3, tail)
        points = ((arrival, 1, 1.0),) if arrival > 2 else (short, long)
        worth = (8 * NANO,) * (arrival + 2) + (NANO,) * 2
        jobs.append(Job(0, 1 + len(jobs) % 2, worth, points, arrival, 1))
    return tuple(replace(one, birth=int(one.arrival == 2)) for one in jobs)


@pytest.mark.parametrize("signal", SIGNALS)
def test_no_more_is_booked_than_c_prime(signal: Signal) -> None:
    """At most C' is booked, but for half a 1e-9 per point; values at H buy long durations above H."""
    setting = Setting(20, 8, 0.0, 8.0, 2, 3, signal=signal)
    fullest = 0.0
    for seed in range(instances(1000, 1)):
        draw = Streams(seed).generator("posted-price-crowd")
        jobs = tailed_jobs(draw)
        booked = run_engine(Instance(jobs, jobs, setting), failure_oracle="sampled").booked
        assert booked.max() <= 20 * NANO + len(jobs)
        fullest = max(fullest, booked.max() / (20 * NANO))
    assert fullest > 0.85


def single(job: Job) -> Job:
    """The same job, whose arrival and duration are certain."""
    arrival, duration, _ = job.points[0]
    return replace(job, points=((arrival, duration, 1.0),), arrival=arrival, duration=duration)


def roomy(instance: Instance) -> Instance:
    """The same jobs with room for all at once, also within the relaxed capacity."""
    setting = instance.setting
    nodes = 2 * sum(one.concurrency for one in instance.jobs) + setting.max_concurrency
    return replace(instance, setting=replace(setting, nodes=nodes))


def test_no_deterministic_job_fails_where_all_fit_at_once() -> None:
    """4.4 (e)."""
    for instance in drawn(2000, 6):
        jobs = tuple(sorted(map(single, instance.jobs), key=lambda one: (one.birth, one.arrival)))
        found = run_engine(roomy(Instance(jobs, jobs, instance.setting)))
        assert {fate for fate, *_ in found.fates()} <= {"completed", "not_launched", "never_came"}


def test_without_bookings_before_it_every_job_earns_its_best() -> None:
    """With prices of 0, those of no load: one job alone, reported truly."""
    for instance in drawn(2000, 6):
        job = single(instance.jobs[0])
        (fate,) = run_engine(roomy(Instance((job,), (job,), instance.setting))).fates()
        finish = job.arrival + job.duration
        best = job.worth(finish) if finish <= instance.setting.rounds else 0
        assert (job.worth(fate[2]) if fate[2] else 0) == best
        assert fate[3] == 0


def test_planned_welfare_is_utility_plus_payments(utilities: list[float]) -> None:
    """Welfare is utility plus revenue, where nothing can fail."""
    for instance in drawn(2000, 6):
        given = roomy(instance)
        utilities.clear()
        found = run_engine(given)
        figures = found.result.summary.policy_figures
        assert figures is not None
        share = [p for one in given.jobs for *_, p in sorted(plan_points(one, given.setting))]
        paid = float(np.dot(share, found.policy.state()["_plans.price"]))
        assert figures["planned_welfare"] == pytest.approx(sum(utilities) + paid / NANO, abs=1e-8)


def plan_points(job: Job, setting: Setting) -> list[tuple[int, int, int, float]]:
    """(arrival, signal, duration, probability): sorted, they are in the order of a plan."""
    return [(arrival, signal_of(d, setting.signal), d, share) for arrival, d, share in job.points]


@pytest.mark.slow
def test_higher_values_are_worth_more_and_launched_as_well(utilities: list[float]) -> None:
    """The value of the last job scaled up, and raised in every round."""
    accepted = 0
    for seed, instance in enumerate(drawn(2000, 5)):
        draw = Streams(seed).generator("posted-price-raise")
        last = instance.jobs[-1]
        extra = sorted(draw.integers(0, 5 * NANO, len(last.value)).tolist(), reverse=True)

        def outcome(value: tuple[int, ...], instance: Instance = instance) -> tuple[float, bool]:
            jobs = (*instance.jobs[:-1], replace(instance.jobs[-1], value=value))
            setting = replace(instance.setting, max_value=32.0)
            launched = run_engine(Instance(jobs, jobs, setting)).fates()[-1][0] != "not_launched"
            return utilities[-1], launched

        utility, launched = outcome(last.value)
        raised, _ = outcome(tuple(a + b for a, b in zip(last.value, extra, strict=True)))
        scaled, still_launched = outcome(tuple(3 * worth for worth in last.value))
        assert min(raised, scaled) >= utility
        assert still_launched >= launched
        accepted += launched
    assert accepted > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_alike_from_a_snapshot_after_every_decision(way: Mapping[str, Any]) -> None:
    for instance in drawn(40, 1):
        world, whole = world_of(instance), run_engine(instance, **way)
        policy = policy_of(instance.setting, **way)
        going = GeneralRun(world, policy, seed=0, fleet=fleet_of(world, 1, always=False))
        while going.decide_once():
            saved = going.state()
            policy = policy_of(instance.setting, **way)
            going = GeneralRun(world, policy, seed=0, fleet=fleet_of(world, 1, always=False), saved=saved)
        assert going.result(None, "").jobs.equals(whole.result.jobs)
        assert going.result(None, "").summary == whole.result.summary
        assert np.array_equal(policy.state()["_menu.booked"], whole.booked)


@pytest.mark.parametrize("way", WAYS)
def test_runs_of_one_seed_are_equal(way: Mapping[str, Any]) -> None:
    for instance in drawn(40, 1):
        one, other = run_engine(instance, seed=5, **way), run_engine(instance, seed=5, **way)
        assert one.result.jobs.equals(other.result.jobs)
        assert one.result.summary == other.result.summary


def shaken(monkeypatch: pytest.MonkeyPatch, instance: Instance, seed: int, by: float) -> list[FateRow]:
    """Fates where every estimate of failure is up to ``by`` off."""
    draw, estimate = np.random.default_rng(seed), ExactFailure._estimate

    def off(oracle: ExactFailure, birth: int, concurrency: int, failures: FloatArray) -> None:
        estimate(oracle, birth, concurrency, failures)
        uncertain = (failures > 0) & (failures < 1)
        failures[uncertain] += draw.uniform(-by, by, failures.shape)[uncertain]
        np.clip(failures, 0, 1, out=failures)

    with monkeypatch.context() as patch:
        patch.setattr(ExactFailure, "_estimate", off)
        return run_engine(instance).fates()


@pytest.mark.slow
def test_samples_decide_as_enumeration_where_no_decision_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = 0
    for instance in drawn(1000, 4):
        fates = run_engine(instance).fates()
        if all(shaken(monkeypatch, instance, seed, by=0.08) == fates for seed in range(4)):
            clear += 1
            assert run_engine(instance, failure_oracle="sampled", mu=0.01).fates() == fates
    assert clear > 0


@pytest.mark.parametrize("signal", ["none", "full"])
def test_expected_prices_sell_and_book_within_c_prime(signal: Signal) -> None:
    """Menu B on small worlds: jobs run, no more is booked than C', and nobody pays above the value."""
    sold = 0
    for instance in drawn(2000, 4):
        given = replace(instance.honest(), setting=replace(instance.setting, signal=signal))
        found = run_engine(given, menu="expected")
        setting = given.setting
        assert found.booked.max() <= (1 - setting.eps / 10) * setting.nodes * NANO + len(given.jobs) * 3
        for job, (what, _, end, paid) in zip(given.jobs, found.fates(), strict=True):
            sold += what == "completed"
            if what == "completed" and signal == "full" and one_of_points(job):
                assert end is not None
                assert paid <= job.worth(end)
    assert sold > 0


PRIOR_SETTING = Setting(4, 6, 0.0, 8.0, 1, 1, threshold=False)


def paid_by_the_marginal_job(report: float, prior: Path | None) -> tuple[str, float, list[str]]:
    """Fate, payment and warnings; five jobs of a round want one of four nodes, the last is worth 7."""
    others = [Job(0, 1, (8 * NANO,) * 2, ((0, 1, 1.0),), 0, 1)] * 4
    told = Job(0, 1, (round(report * NANO),) * 2, ((0, 1, 1.0),), 0, 1)
    jobs = (*others[:2], told, *others[2:3])
    params: dict[str, Any] = {} if prior is None else {"prior": str(prior)}
    run = run_engine(Instance(jobs, jobs, PRIOR_SETTING), menu="expected", **params)
    what, _, _, paid = run.fates()[2]
    return what, paid / NANO, list(run.result.summary.policy_warnings or [])


def test_expected_prices_follow_the_own_report_without_a_prior_and_not_with_one(tmp_path: Path) -> None:
    """Four nodes, four jobs, C' = 4: alone, the report sets the price of the round to at most itself."""
    rows = [{"birth_s": 0.0, "num_gpus": 1.0, "value": "deadline 3 60", "outlook": "0:60:1"}] * 6
    prior = tmp_path / "prior.parquet"
    pl.DataFrame(rows).write_parquet(prior)
    found = {report: paid_by_the_marginal_job(report, prior) for report in (1.1, 3.5, 7.0)}
    assert [what for what, *_ in found.values()] == ["not_launched", "completed", "completed"]
    assert found[3.5][1] == found[7.0][1] == pytest.approx(3.0, abs=1e-6)
    assert not any(told for *_, told in found.values())
    assert "not truthful: menu=expected" in paid_by_the_marginal_job(7.0, None)[2][0]


def test_a_prior_must_be_a_workload_with_statements_and_needs_the_expected_menu(tmp_path: Path) -> None:
    with pytest.raises(InvalidScenarioError, match="only menu=expected has a prior"):
        policy_of(PRIOR_SETTING, prior="a.parquet")
    bare = tmp_path / "bare.parquet"
    pl.DataFrame({"num_gpus": [1.0]}).write_parquet(bare)
    for path in (bare, tmp_path / "none.parquet"):
        with pytest.raises(InvalidInputError, match=f"prior={path}: is no workload with statements of work"):
            paid_by_the_marginal_job(7.0, path)


@pytest.mark.parametrize("declared", [True, False])
def test_a_dummy_outcome_lowers_prices_only_where_bounds_come_from_reports(declared: bool) -> None:
    """D_m rises from 2 to 4 by an outcome that never happens, so that L = 1 / (2 C_m D_m) falls."""
    setting = Setting(4, 12, 0.0, 8.0, 1, 4, threshold=False)
    others = [Job(0, 1, (8 * NANO,) * 4, ((0, 2, 1.0),), 0, 2)] * 2
    truth = Job(0, 1, (8 * NANO,) * 4, ((0, 2, 1.0),), 0, 2)
    lie = replace(truth, points=((0, 2, 1 - 1e-6), (0, 4, 1e-6)))
    paid, told = [], []
    for report in (truth, lie):
        given = Instance((*others, report), (*others, truth), setting)
        world = world_of(given, {} if declared else {"most_duration_s": None})
        result = run_world(world, policy_of(setting))
        assert result.jobs["fate"][2] == "completed"
        paid.append(result.jobs["payment"][2])
        told.append("most_duration_s not declared" in str(result.summary.policy_warnings))
    assert (paid[0] == paid[1], told) == (declared, [not declared] * 2)


@pytest.mark.parametrize(("declared", "error"), [(540, "uniform"), (None, "uniform"), (None, "pointwise")])
def test_a_later_deadline_raises_the_number_of_sample_paths_only_if_undeclared(
    declared: int | None, error: str
) -> None:
    """ln(2 K / p) / (2 mu^2) has K = S_m C_m D_m, with p = 0.01 and mu = 0.1; pointwise 1 / (4 mu^2) = 25."""
    truth = Job(0, 1, (8 * NANO,) * 4, ((0, 2, 1.0),), 0, 2)
    setting = Setting(4, 12, 0.0, 8.0, 1, 4, threshold=False)
    counts, told = [], []
    for last in (4, 10):
        report = replace(truth, value=(8 * NANO,) * last)
        world = world_of(Instance((report,), (truth,), setting), {"most_delay_s": declared})
        policy = policy_of(setting, failure_oracle="sampled", oracle_error=error, mu=0.1)
        summary = run_world(world, policy).summary
        counts.append((summary.policy_counts or {})["oracle_paths"])
        told.append(str(summary.policy_warnings))
    paths = {540: (10, 10), None: (4, 10)}[declared]
    uniform = [math.ceil(math.log(2 * delay * 4 / 0.01) * 50) for delay in paths]
    assert counts == (uniform if error == "uniform" else [25, 25])
    warned = declared is None and error == "uniform"
    assert ["most_delay_s not declared" in text for text in told] == [warned] * 2
    assert ("-w most_delay_s=540" in told[1]) == warned


def test_bounds_that_are_not_declared_are_those_of_reports_and_never_of_truths() -> None:
    true = Job(0, 2, (8 * NANO,) * 8, ((0, 1, 0.5), (0, 4, 0.5)), 0, 1)
    told = Job(0, 1, (2 * NANO,) * 4, ((0, 1, 1.0),), 0, 1)
    table = table_of([told], [true])
    assert table.statements is not None
    outlooks = (outlook(true), *table.statements.outlooks[1:])
    table = replace(table, statements=replace(table.statements, outlooks=outlooks))
    given = {"truth": "announced", "slot_s": 60, "horizon_s": 540, "signal": "full"}
    bounds = AnnouncedFacts.in_world(build_world(table, cluster([4], ["a"]), params=given)).bounds
    assert (bounds.concurrency, bounds.duration, bounds.value, bounds.delay) == (1, 1, 2.0, 4)


def one_of_points(job: Job) -> bool:
    return (job.arrival, job.duration) in {point[:2] for point in job.points}


def test_random_values_are_in_the_bounds() -> None:
    """Guards the instances: the engine refuses worths below 1 and above H."""
    draw, setting = np.random.default_rng(0), random_instance(0).setting
    worths = [worth for _ in range(50) for worth in random_value(draw, setting, ((2, 1, 1.0),), 0)]
    assert min(worths) >= NANO
    assert max(worths) <= setting.max_value * NANO
