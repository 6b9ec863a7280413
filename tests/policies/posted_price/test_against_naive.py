"""The mechanism in the engine against the slow one that was written from the specification alone.

The slow one is exact; the real one takes E and utilities from floats. Worths, prices and probabilities are
such that decisions do not hang on their rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.figures import welfare_of
from tests.policies.posted_price.engine_runs import (
    EngineRun,
    FateRow,
    Instance,
    fates_of,
    random_instance,
    run_engine,
    shifted,
)
from tests.policies.posted_price.naive_mechanism import NANO, Job, Outcome, Setting, run
from tests.proofs import instances

FAILED = ("evicted_running", "cancelled_due", "cancelled_early")
FATES = ("completed", *FAILED, "not_launched", "never_came")


def figures_of(instance: Instance, fates: Sequence[FateRow]) -> tuple[float, float, float | None]:
    """Welfare, revenue and eviction rate, from the fates."""
    welfare = revenue = 0
    for report, truth, (what, _, end, paid) in zip(instance.jobs, instance.truths, fates, strict=True):
        revenue += paid
        if what == "completed" and report.concurrency >= truth.concurrency:
            assert end is not None
            welfare += truth.worth(end)
    tried = [what for what, *_ in fates if what not in ("not_launched", "never_came")]
    rate = sum(what in FAILED for what in tried) / len(tried) if tried else None
    return welfare / NANO, revenue / NANO, rate


def assert_same(instance: Instance, expected: Outcome, found: EngineRun, utilities: Sequence[float]) -> None:
    fates = fates_of(expected)
    assert found.fates() == fates
    assert tuple(found.booked.tolist()) == expected.booked
    born = [float(fate.utility) / NANO for fate in expected.fates if fate.menu]
    assert utilities == pytest.approx(born, abs=1e-9)
    figures = welfare_of(found.result)
    assert (figures.welfare, figures.revenue, figures.eviction_rate) == figures_of(instance, fates)
    count = Counter(what for what, *_ in fates)
    assert {name: figures.fates[name] for name in FATES} == {name: count[name] for name in FATES}
    assert figures.fates["open"] == 0


def test_the_engine_does_what_the_specification_says(utilities: list[float]) -> None:
    """Fates, starts, ends, payments, loads, utilities and figures, with E strictly between 0 and 1."""
    uncertain, fates = 0, Counter[str]()
    for seed in range(instances(2000, 5)):
        instance = random_instance(seed)
        utilities.clear()
        expected, found = run(instance.jobs, instance.setting), run_engine(instance)
        try:
            assert_same(instance, expected, found, utilities)
        except AssertionError as difference:
            raise AssertionError(f"seed {seed}: {difference}") from difference
        uncertain += any(0 < one < 1 for fate in expected.fates for one in fate.failure.values())
        fates.update(fate.what for fate in expected.fates)
    assert uncertain > 0
    assert {"completed", "not_launched", "never_arrived"} <= set(fates)


def certain(job: Job, arrival: int, duration: int) -> Job:
    """The same job, which surely comes and lasts so."""
    return replace(job, points=((arrival, duration, 1.0),), arrival=arrival, duration=duration)


def test_jobs_end_and_are_born_at_the_horizon() -> None:
    """T = 6: one job ends at 6, one would end at 7, one is born at 5, one at 6 and one at 7."""
    setting = Setting(nodes=6, rounds=6, eps=0.0, max_value=8.0, max_concurrency=1, max_rounds=3)
    worth = (8 * NANO,) * 9
    first = certain(Job(0, 1, worth, (), 0, 1), 4, 2)
    jobs = (first, certain(first, 4, 3), *(shifted(certain(first, 0, 1), born) for born in (5, 6, 7)))
    fates = [what for what, *_ in run_engine(Instance(jobs, jobs, setting)).fates()]
    assert fates == ["completed", "not_launched", "completed", "not_launched", "never_came"]
    assert [fate.what for fate in run(jobs, setting).fates][:3] == ["completed", "not_launched", "completed"]


@pytest.mark.parametrize("oracle", ["exact", "sampled"])
def test_a_job_that_outlasts_its_report_runs_on_and_pays_by_the_menu_of_its_birth(oracle: str) -> None:
    """Once it has outlasted its report it is booked for D_m rounds, and prices of later births rise."""
    setting = Setting(3, 9, 0.0, 8.0, 1, 4, signal="none")
    first = Job(0, 1, (8 * NANO,) * 5, ((0, 4, 1.0),), 0, 4)
    short = Job(0, 1, (8 * NANO,) * 4, ((0, 1, 1.0),), 0, 3)
    later = [Job(birth, 1, (8 * NANO,) * 4, ((birth, 2, 1.0),), birth, 2) for birth in (1, 2)]
    jobs = (first, short, *later)
    found, expected = run_engine(Instance(jobs, jobs, setting), failure_oracle=oracle), run(jobs, setting)
    assert found.fates() == fates_of(expected)
    assert tuple(found.booked.tolist()) == expected.booked
    assert found.fates()[1] == ("completed", 0, 3, sum(price or 0 for price in expected.fates[1].menu[:3]))
    assert expected.fates[1].menu[0] == expected.fates[1].menu[2] != 0
    last = [fate.menu[3] or 0 for fate in expected.fates]
    assert last[3] > last[1]


def test_a_duration_between_the_reported_ones_pays_by_the_menu_of_the_birth() -> None:
    """Reported 1 or 3 rounds, it lasts 2; others have been booked since on the same rounds."""
    setting = Setting(4, 8, 0.0, 8.0, 1, 4, signal="none")
    worth = (8 * NANO,) * 6
    first = Job(0, 1, worth, ((1, 3, 1.0),), 1, 3)
    between = Job(0, 1, worth, ((1, 1, 0.5), (1, 3, 0.5)), 1, 2)
    jobs = (first, between, first)
    found, expected = run_engine(Instance(jobs, jobs, setting)).fates(), fates_of(run(jobs, setting))
    assert found == expected
    assert found[1][3] == 2 * round(run(jobs, setting).fates[1].menu[1] or 0) > 0


@pytest.mark.parametrize("comes", [1, 3])
def test_births_of_an_instant_are_in_order_of_the_trace_whenever_they_come(comes: int) -> None:
    """One of two nodes is left: the first of the trace gets it, though it may come after the second."""
    setting = Setting(2, 6, 0.0, 8.0, 1, 4, threshold=False)
    first = Job(0, 1, (8 * NANO,) * 6, ((1, 2, 0.5), (3, 2, 0.5)), comes, 2)
    other = Job(0, 1, (8 * NANO,) * 6, ((2, 2, 1.0),), 2, 2)
    found, expected = (
        run_engine(Instance((first, other), (first, other), setting)),
        run([first, other], setting),
    )
    assert found.fates() == fates_of(expected)
    assert found.result.jobs["arrival_s"].to_list() == [comes * 60.0, 120.0]


def test_births_of_a_round_come_one_after_the_other() -> None:
    """Ten equal jobs of one round see ten menus."""
    setting = Setting(6, 6, 0.5, 8.0, 1, 1)
    one = Job(0, 1, (8 * NANO,) * 4, ((2, 1, 1.0),), 2, 1)
    instance = Instance((one,) * 10, (one,) * 10, setting)
    found, expected = run_engine(instance), run(instance.jobs, setting)
    assert found.fates() == fates_of(expected)
    assert tuple(found.booked.tolist()) == expected.booked
    assert len({fate[3] for fate in found.fates()}) > 3


def test_instances_are_varied() -> None:
    """Guards the comparison: reports differ from truths, and what comes from what is reported."""
    drawn = [random_instance(seed) for seed in range(60)]
    pairs = [pair for one in drawn for pair in zip(one.jobs, one.truths, strict=True)]
    outside = [job for job, _ in pairs if (job.arrival, job.duration) not in {p[:2] for p in job.points}]
    waits = [job.arrival - job.birth for job, _ in pairs]
    assert len(outside) > 10
    assert np.max(waits) > 5
    assert sum(job.concurrency > truth.concurrency for job, truth in pairs) > 5
    assert sum(job.concurrency < truth.concurrency for job, truth in pairs) > 5
    assert sum(job.value != truth.value for job, truth in pairs) > 20
    assert {one.setting.signal for one in drawn} == {"none", "full", "partial"}
    assert {one.setting.threshold for one in drawn} == {True, False}
    assert max(Counter(job.birth for job in one.jobs).most_common(1)[0][1] for one in drawn) > 3
