"""Runs side by side: means over seeds, in a stated order; pictures with stable bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.reports.plots import completed_jct_s, jct_cdf_png
from ray_sim.reports.tables import RunRow, run_table, sweep_table
from tests.results_by_hand import three_jobs


def _row(policy: str, seed: int | None, last_jct_s: float) -> RunRow:
    return RunRow("week", "edge", "", policy, seed, three_jobs(last_jct_s).summary)


def test_the_sweep_table_averages_over_seeds_and_keeps_the_order_of_appearance() -> None:
    table = sweep_table([_row("sjf", 0, 30.0), _row("sjf", 1, 50.0), _row("fifo", None, 90.0)])
    assert table["policy"].to_list() == ["sjf", "fifo"]
    assert table["seeds"].to_list() == [2, 1]
    # sjf: ((10 + 30) / 2 + (10 + 50) / 2) / 2 = 25; fifo: (10 + 90) / 2 = 50.
    assert table["jct_s.mean"].to_list() == [25.0, 50.0]
    assert table["utilisation.gpu"].to_list() == [1.0, 1.0]
    assert table["rejected"].to_list() == [1.0, 1.0]


def test_the_run_table_keeps_every_run() -> None:
    table = run_table([_row("sjf", 0, 30.0), _row("fifo", None, 90.0)])
    assert table["seed"].to_list() == [0, None]


def test_no_run_gives_an_empty_table() -> None:
    assert sweep_table([]).is_empty()


def test_only_completed_jobs_enter_the_cdf() -> None:
    np.testing.assert_array_equal(completed_jct_s(three_jobs().jobs), [10.0, 40.0])


def test_the_same_numbers_give_the_same_picture() -> None:
    curves = {"fifo": np.array([10.0, 40.0]), "none completed": np.array([])}
    picture = jct_cdf_png(curves, "JCT")
    assert picture == jct_cdf_png(curves, "JCT")
    assert picture.startswith(b"\x89PNG")


@pytest.mark.parametrize("jct_s", [[], [0.0], [1.0, 2e9], [1e-6, 5.0]])
def test_any_completion_times_can_be_drawn(jct_s: list[float]) -> None:
    assert jct_cdf_png({"fifo": np.array(jct_s)}, "JCT").startswith(b"\x89PNG")
