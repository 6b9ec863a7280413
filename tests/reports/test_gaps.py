"""The gap of several runs: one number in every table, a ratio of means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ray_sim.experiments.tracking.views import configuration_metrics
from ray_sim.model.result import JctCertificate, UtilityCertificate
from ray_sim.reports.arena import QUESTIONS, standings
from ray_sim.reports.compare import JCT
from ray_sim.reports.gaps import Gap, gap_of_means, share_of_means
from ray_sim.reports.policy_bounds import UTILITY, policy_bounds
from ray_sim.reports.statistics import mean_interval
from ray_sim.reports.tables import RunRow, run_table, sweep_table
from tests.results_by_hand import PLACE, three_jobs

GAP = 50 / 35 - 1
"""Two runs: mean completion times 20 and 30 s, bounds 10 and 25 s, so their gaps are 1 and 0.2."""


def _row(seed: int, last_jct_s: float, bound_s: float | None) -> RunRow:
    """FIFO with completion times of 10 s and ``last_jct_s``; without a bound it has no certificate."""
    summary, found = three_jobs(last_jct_s).summary, None
    if bound_s is not None:
        gap = (10 + last_jct_s) / 2 / bound_s - 1 if bound_s else None
        found = JctCertificate(b1_s=bound_s, b2_s=None, b3_s=None, bound_s=bound_s, gap=gap)
    return RunRow(*PLACE, "fifo", seed, replace(summary, certificate=found))


def _rows() -> list[RunRow]:
    """Two runs with a bound, and one with a mean of 500 s and none, which the gap leaves out."""
    return [_row(0, 30.0, 10.0), _row(1, 50.0, 25.0), _row(2, 990.0, None)]


def _arena_gap(rows: list[RunRow]) -> float:
    runs = run_table(rows)
    scores = runs.select(
        *("policy", "seed", "jobs", "completed"),
        *(pl.lit(None, pl.Float64).alias(question.key) for question in QUESTIONS[1:]),
        pl.lit(None, pl.Float64).alias("utility_bound"),
        pl.lit(None, pl.Float64).alias("welfare_bound"),
        place=pl.lit("week"),
        jct_mean_s=pl.col("jct_s.mean"),
        jct_bound_s=pl.col("certificate.bound_s"),
    )
    (gap,) = standings(scores).filter(question="jct_mean_s")["gap"]
    return float(gap)


def test_a_policy_has_one_gap_in_the_sweeps_table_in_compare_in_mlflow_and_in_the_arena() -> None:
    rows = _rows()
    (bounds,) = policy_bounds([(row.policy, row.summary) for row in rows], JCT)
    assert bounds.runs == 2
    assert bounds.gap == pytest.approx(GAP)
    assert sweep_table(rows)["certificate.gap"].to_list() == [bounds.gap]
    assert configuration_metrics(rows)["certificate.gap"] == bounds.gap
    assert _arena_gap(rows) == bounds.gap


def test_the_gap_of_utility_is_one_number_too_over_the_runs_that_have_a_bound() -> None:
    # (8 + 8) / (4 + 1) - 1; a third run earned 100 and has no bound.
    def row(seed: int, utility: float, bound: float | None) -> RunRow:
        found = None
        if bound is not None:
            found = UtilityCertificate(u1=8, u2=8, u3=8, bound=bound, gap=None, hopeful=2, hopeless=0)
        summary = replace(three_jobs().summary, utility=utility, utility_certificate=found)
        return RunRow(*PLACE, "drf", seed, summary)

    rows = [row(0, 4.0, 8.0), row(1, 1.0, 8.0), row(2, 100.0, None)]
    (bounds,) = policy_bounds([(each.policy, each.summary) for each in rows], UTILITY)
    assert bounds.gap == pytest.approx(16 / 5 - 1)
    assert sweep_table(rows)["utility_certificate.gap"].to_list() == [bounds.gap]
    assert configuration_metrics(rows)["utility_certificate.gap"] == bounds.gap


def test_the_gap_in_mlflow_lies_in_its_interval() -> None:
    metrics = configuration_metrics([_row(seed, 30.0 + seed, 18.0 + seed % 2) for seed in range(5)])
    assert (
        metrics["certificate.gap.ci95_low"]
        < metrics["certificate.gap"]
        < metrics["certificate.gap.ci95_high"]
    )


def test_the_interval_is_that_of_the_mean_where_all_bounds_are_equal() -> None:
    values = np.array([12.0, 15.0, 30.0, 20.0, 22.0])
    runs = pl.DataFrame({"value": values, "bound": [10.0] * 5})
    found, mean = Gap("value", "bound", lower=True).interval(runs), mean_interval(values / 10 - 1)
    assert found is not None
    assert mean is not None
    assert (found.low, found.high) == pytest.approx((mean.low, mean.high))


def test_a_gap_is_not_below_0_unless_a_run_was_sped_up() -> None:
    # Mean 20 and standard deviation 22.36: the t interval of the gap is 1 -+ 2.776.
    runs = pl.DataFrame({"value": [60.0, 10.0, 10.0, 10.0, 10.0], "bound": [10.0] * 5})
    gap = Gap("value", "bound", lower=True)
    ends = [gap.interval(runs), gap.interval(runs.with_columns(value=pl.col("value") - 1))]
    assert [None if each is None else each.low for each in ends] == [0.0, -1.0]


def test_one_run_has_the_gap_of_its_certificate() -> None:
    row = _row(0, 30.0, 16.0)
    assert row.summary.certificate is not None
    assert sweep_table([row])["certificate.gap"].to_list() == [pytest.approx(row.summary.certificate.gap)]


def test_where_a_ratio_divides_by_nothing_there_is_no_gap() -> None:
    none, one = np.zeros(2), np.ones(2)
    assert gap_of_means(one, none, lower=True) is None
    assert gap_of_means(none, one, lower=False) is None
    assert gap_of_means(-one, one, lower=False) is None
    assert gap_of_means(none[:0], none[:0], lower=True) is None
    assert share_of_means(none[:0], none[:0]) is None
    # Jobs of no length that never wait are at their bound; a utility of nothing is no schedule to praise.
    assert gap_of_means(none, none, lower=True) == 0
    assert gap_of_means(none, none, lower=False) is None
