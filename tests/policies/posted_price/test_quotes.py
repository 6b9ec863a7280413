"""Prices that jobs were offered, and why they were not launched: by hand, and from the definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from ray_sim.engine.run import run_world
from ray_sim.experiments.explain import facts_of
from ray_sim.policies.registry import create_policy
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.history.explanation_text import headline_rows
from tests.policies.posted_price.engine_runs import (
    SLOT_S,
    EngineRun,
    Instance,
    policy_of,
    random_instance,
    run_engine,
    world_of,
)
from tests.policies.posted_price.naive_mechanism import (
    NANO,
    Fate,
    Job,
    Setting,
    as_written,
    bundle_price,
    longest_run,
    run,
    signal_of,
)
from tests.proofs import instances

COLUMNS = ("refusal", "best_start_s", "best_price", "best_value", "best_failure", "plan_utility")
QuoteRow = tuple[str | None, float | None, float | None, float | None, float | None, float | None]


def now_job(*worths: float, gpus: int = 1, rounds: int = 1, comes: int = 0) -> Job:
    """Born in round 0, it surely comes in a round; worths of a finish 0, 1, ... rounds later."""
    return Job(
        0, gpus, tuple(round(worth * NANO) for worth in worths), ((comes, rounds, 1.0),), comes, rounds
    )


def last_of(jobs: Sequence[Job], setting: Setting) -> tuple[QuoteRow, str, str]:
    """Columns, fate and explanation of the last job."""
    instance = Instance(tuple(jobs), tuple(jobs), setting)
    world = world_of(instance)
    result = run_world(world, policy_of(setting))
    found = RunExplainer(facts_of(world, {}), result.jobs, result.events).explain(len(jobs) - 1)
    why = dict(headline_rows(found)).get("why", "")
    return result.jobs.select(COLUMNS).row(-1), result.jobs["fate"][-1], str(why)


FIVE = Setting(nodes=5, rounds=9, eps=0.0, max_value=4.0, max_concurrency=1, max_rounds=2)
"""kappa = 4, L = 0.25 and B = 17: p(3) = 0.25 (17^0.75 - 1) = 1.843036."""


def test_no_start_is_worth_its_price() -> None:
    """Three jobs are booked in round 0, the only one in which the fourth is worth anything."""
    row, fate, why = last_of([now_job(4, 4)] * 3 + [now_job(1.5, 1.5)], FIVE)
    assert row == ("price", 0.0, 1.843036007, 1.5, 0.0, 0.0)
    assert fate == "not_launched"
    best = "the best, 0 s after its birth, costs 1.843, is worth 1.5, and fails with probability 0"
    assert why == f"rejected: no start is worth its price: {best}"


def test_the_best_start_may_be_late() -> None:
    """Round 0 costs 1.843 for a worth of 1.25; round 1 is free for a worth of 1: it is launched there."""
    row, fate, why = last_of([now_job(4, 4)] * 3 + [now_job(1.25, 1.25, 1)], FIVE)
    assert (row, fate, why) == ((None, 60.0, 0.0, 1.0, 0.0, 1.0), "completed", "")


def test_a_job_without_value_at_its_earliest_end() -> None:
    row, _, why = last_of([now_job(4, 4, comes=3)], FIVE)
    assert row == ("worthless", None, None, None, None, 0.0)
    assert why == "rejected: it is worth nothing even at its earliest end"


def test_all_starts_are_sold_out() -> None:
    """With kappa = 2, one node and then two are booked in round 0, at p(0) = 0 and 2 p(1) = 1.186."""
    setting = Setting(nodes=4, rounds=9, eps=0.0, max_value=4.0, max_concurrency=2, max_rounds=2)
    jobs = [now_job(4, 4), now_job(4, 4, gpus=2), now_job(4, 4)]
    row, fate, why = last_of(jobs, setting)
    assert (row, fate) == (("sold_out", None, None, None, None, 0.0), "not_launched")
    assert why == "rejected: all starts at which it is worth anything were sold out at its birth"


def test_every_start_ends_after_the_horizon() -> None:
    row, fate, why = last_of([now_job(*[4] * 12, comes=8, rounds=2)], FIVE)
    assert (row, fate) == (("horizon", None, None, None, None, 0.0), "not_launched")
    assert why == "rejected: all starts at which it is worth anything end after the horizon"


@pytest.mark.parametrize("comes", [(2, 1), (1, 2)])
def test_an_arrival_or_a_signal_that_was_not_reported(comes: tuple[int, int]) -> None:
    """Its plan starts it in round 1 for one round, of utility 4; it comes later, or for two rounds."""
    row, fate, why = last_of([Job(0, 1, (4 * NANO,) * 6, ((1, 1, 1.0),), *comes)], FIVE)
    assert (row, fate) == (("unreported", None, None, None, None, 4.0), "not_launched")
    assert why.startswith("rejected: its arrival, or the signal of its duration, was not reported")


def test_a_job_after_the_horizon_and_policies_without_prices_have_none() -> None:
    late = Job(10, 1, (4 * NANO,) * 3, ((10, 1, 1.0),), 10, 1)
    jobs = (now_job(4, 4), late)
    assert last_of(jobs, FIVE)[0] == (None,) * 6
    instance = Instance(jobs, jobs, FIVE)
    first = run_world(world_of(instance), create_policy("announced_fifo")).jobs
    assert first.select(COLUMNS).rows() == [(None,) * 6] * 2
    assert first.schema == run_engine(instance).result.jobs.schema


def naive_quote(job: Job, fate: Fate, setting: Setting) -> tuple[str | None, int | None]:
    """Why no start is planned for what comes, and the one that is."""
    seen = (job.arrival, signal_of(job.duration, setting.signal))
    if seen not in fate.plan:
        return "unreported", None
    if fate.plan[seen] is not None:
        return None, fate.plan[seen]
    shortest = min(told for a, told, _ in job.points if (a, signal_of(told, setting.signal)) == seen)
    starts = [t for t in range(job.arrival, job.birth + len(job.value)) if job.worth(t + shortest) > 0]
    in_time = [t for t in starts if t + shortest <= setting.rounds]
    longest = longest_run(seen[1], setting)
    if not in_time:
        return "horizon" if starts else "worthless", None
    return "sold_out" if all(None in fate.menu[t : t + longest] for t in in_time) else "price", None


def check_offer(job: Job, fate: Fate, setting: Setting, row: QuoteRow) -> None:
    """Price, value and failure at the best start are those of the menu, over the durations reported."""
    reason, start_s, *offered, _ = row
    start = None if start_s is None else round(start_s / SLOT_S)
    assert (reason, start if reason is None else None) == naive_quote(job, fate, setting)
    if start is None:
        return
    seen = (job.arrival, signal_of(job.duration, setting.signal))
    points = [(d, as_written(p)) for a, d, p in job.points if (a, signal_of(d, setting.signal)) == seen]
    price = value = failure = Fraction()
    for d, p in points:
        if start + d <= setting.rounds:
            price += p * (bundle_price(fate.menu, start, job.concurrency, d) or 0) / NANO
            value += p * Fraction(job.worth(start + d), NANO)
        if reason is None:
            risk = fate.failure[job.arrival, d]
            failure += p * risk if not setting.threshold or risk > as_written(setting.eps) / 10 else 0
    told = [float(each / sum(p for _, p in points)) for each in (price, value, failure)]
    assert offered[: 3 if reason is None else 2] == pytest.approx(
        told[: 3 if reason is None else 2], abs=1e-8
    )


def check_run(instance: Instance, found: EngineRun) -> Counter[str | None]:
    """Compare the columns with the slow mechanism; counts of the reasons."""
    expected = run(instance.jobs, instance.setting)
    rows = found.result.jobs.select(COLUMNS).rows()
    for number, (job, fate, row) in enumerate(zip(instance.jobs, expected.fates, rows, strict=True)):
        if not fate.menu:
            assert row == (None,) * 6
            continue
        check_offer(job, fate, instance.setting, row)
        assert row[-1] == pytest.approx(float(fate.utility) / NANO, abs=1e-9)
        price, sold_out = found.policy.menu_at_birth(number)
        menu = [None if out else one for one, out in zip(price.tolist(), sold_out.tolist(), strict=True)]
        assert tuple(menu) == fate.menu[job.birth :]
        if found.result.jobs["fate"][number] == "completed" and instance.setting.signal == "full":
            assert found.result.jobs["payment"][number] == row[2]
    return Counter(row[0] for row in rows)


def sooner_ended(instance: Instance, rounds: int) -> Instance:
    """The same jobs with an earlier horizon, after which some are still worth something."""
    setting = replace(instance.setting, rounds=instance.setting.rounds - rounds)
    return replace(instance, setting=setting)


def test_quotes_are_those_of_the_definitions() -> None:
    reasons, tried = Counter[str | None](), instances(1000, 5)
    for seed in range(tried):
        instance = sooner_ended(random_instance(seed), seed % 4)
        try:
            reasons += check_run(instance, run_engine(instance))
        except AssertionError as difference:
            raise AssertionError(f"seed {seed}: {difference}") from difference
    assert tried < 20 or set(reasons) == {None, "price", "sold_out", "horizon", "unreported", "worthless"}
