"""Runs side by side: means over seeds, in a stated order."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from ray_sim.model.result import UtilityCertificate
from ray_sim.reports.tables import RunRow, best_value, run_table, sweep_headings, sweep_table
from tests.results_by_hand import PLACE, announced_figures, three_jobs


def _row(policy: str, seed: int | None, last_jct_s: float) -> RunRow:
    return RunRow(*PLACE, policy, seed, three_jobs(last_jct_s).summary)


def test_the_sweep_table_averages_over_seeds_and_keeps_the_order_of_appearance() -> None:
    table = sweep_table([_row("sjf", 0, 30.0), _row("sjf", 1, 50.0), _row("fifo", None, 90.0)])
    assert table["policy"].to_list() == ["sjf", "fifo"]
    assert table["seeds"].to_list() == [2, 1]
    # sjf: ((10 + 30) / 2 + (10 + 50) / 2) / 2 = 25; fifo: (10 + 90) / 2 = 50.
    assert table["jct_s.mean"].to_list() == [25.0, 50.0]
    assert table["utilisation.gpu"].to_list() == [1.0, 1.0]
    assert table["rejected"].to_list() == [1.0, 1.0]


def test_a_run_that_earns_next_to_nothing_does_not_drown_the_others_in_the_gap_of_utility() -> None:
    # Bounds of 8 each, 4 and 1e-9 earned: 16 / (4 + 1e-9) - 1 = 3, not the mean of 1 and 8e9; so the optimum
    # of 6 each. Where nothing is earned there is no ratio.
    def row(policy: str, seed: int, utility: float) -> RunRow:
        found = UtilityCertificate(
            u1=8, u2=8, u3=8, bound=8, gap=None, hopeful=2, hopeless=0, optimum=6, optimum_bound=6
        )
        summary = replace(three_jobs().summary, utility=utility, utility_certificate=found)
        return RunRow(*PLACE, policy, seed, summary)

    table = sweep_table([row("drf", 0, 4.0), row("drf", 1, 1e-9), row("fifo", 0, 0.0), row("fifo", 1, 0.0)])
    assert table["utility_certificate.gap"].to_list() == [pytest.approx(3), None]
    assert table["utility_certificate.optimum_ratio"].to_list() == [pytest.approx(3), None]


def _announced(policy: str, welfare: float, bound: float) -> RunRow:
    summary = replace(three_jobs().summary, figures=announced_figures(welfare, bound))
    return RunRow(*PLACE, policy, None, summary)


def test_runs_of_announced_jobs_show_their_welfare_and_what_it_is_of_the_bound() -> None:
    # Means 3 and 8: 3 / 8, not the mean of 4 / 8 and 2 / 8, which is the same, nor of bounds 0.
    rows = [_announced("a", 4.0, 8.0), _announced("a", 2.0, 8.0), _announced("b", 0.0, 0.0)]
    table = sweep_table(rows)
    assert table["welfare.welfare"].to_list() == [3.0, 0.0]
    assert table["welfare.share_of_bound"].to_list() == [0.375, None]
    assert best_value(table["welfare.welfare"]) == 3.0
    shown = sweep_headings(table)
    assert list(shown.values())[:6] == [
        *("seeds", "welfare", "share of bound", "revenue", "eviction rate", "mean JCT")
    ]
    assert not {"median", "p99", "bound", "gap", "mean queue"} & set(shown.values())


def test_the_share_of_the_bound_is_that_of_the_means() -> None:
    # (1 + 9) / (10 + 10) = 0.5 and (9 + 9) / (10 + 90) = 0.18; means of ratios would be 0.5 and 0.5.
    rows = [_announced("a", 1.0, 10.0), _announced("a", 9.0, 10.0)]
    rows += [_announced("b", 9.0, 10.0), _announced("b", 9.0, 90.0)]
    assert sweep_table(rows)["welfare.share_of_bound"].to_list() == [0.5, pytest.approx(0.18)]


def test_other_runs_keep_their_columns_beside_announced_ones() -> None:
    others = sweep_headings(sweep_table([_row("sjf", 0, 30.0)]))
    assert not [name for name in others if name.startswith("welfare.")]
    table = sweep_table([_row("sjf", 0, 30.0), _announced("a", 4.0, 8.0)])
    both = sweep_headings(table)
    assert set(both) == {*others, *(name for name in both if name.startswith("welfare."))}
    assert sweep_headings(table.filter(policy="sjf")) == others


def test_a_resource_that_no_run_uses_has_no_column() -> None:
    table = sweep_table([_row("sjf", 0, 30.0), _row("fifo", 0, 30.0)])
    shares = pl.Series("utilisation.gpu", [0.0, 0.5])
    assert "utilisation.gpu" in sweep_headings(table.with_columns(shares))
    assert "utilisation.gpu" not in sweep_headings(table.with_columns(shares * 0))


def test_the_run_table_keeps_every_run() -> None:
    table = run_table([_row("sjf", 0, 30.0), _row("fifo", None, 90.0)])
    assert table["seed"].to_list() == [0, None]


def test_no_run_gives_an_empty_table() -> None:
    assert sweep_table([]).is_empty()
