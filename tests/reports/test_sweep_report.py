"""Parts of a sweep's report, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ray_sim.reports.findings import certificate_text, compare_place, compare_places
from ray_sim.reports.notebook_tables import means_table
from ray_sim.reports.page import Table
from ray_sim.reports.sweep_report import (
    CONFIGURATIONS_SCHEMA,
    PlaceData,
    class_pictures,
    fairness_table,
    place_charts,
    reject_table,
    sweep_page,
    verdict_table,
)
from ray_sim.reports.tables import RunRow, in_human_units, sweep_table
from tests.results_by_hand import PLACE, run_rows, three_jobs


def _texts(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row] for row in table.rows]


def test_verdicts_are_paired_with_the_best_policy() -> None:
    # Means of JCT are (10 + last) / 2. fifo: 25 and 26 s, sjf: 30 and 33 s; differences 5 and 7, mean 6.
    lasts = {"fifo": (40.0, 42.0), "sjf": (50.0, 56.0)}
    rows = run_rows(lasts)
    best, other = _texts(verdict_table(compare_place(rows)))
    assert (best[0], best[1], best[2], best[-1]) == ("fifo", "best mean", "26 s", "2")
    assert (other[0], other[1], other[2]) == ("sjf", "too few seeds", "32 s")
    assert best[3] == "too few seeds"
    assert other[4:6] == ["6 s (too few seeds)", "+23.5 (too few seeds)"]
    assert verdict_table(compare_place(rows[:2])) is None


def test_no_policy_is_called_best_without_a_common_seed() -> None:
    seeds = {"fifo": (0, 40.0), "sjf": (1, 50.0)}
    rows = [RunRow(*PLACE, policy, seed, three_jobs(last).summary) for policy, (seed, last) in seeds.items()]
    table = verdict_table(compare_place(rows))
    assert _texts(table)[0][:3] == ["fifo", "baseline", "25 s"]
    assert table is not None
    assert not any(cell.best for row in table.rows for cell in row)


def test_a_certificate_says_what_no_policy_can_beat() -> None:
    means = pl.DataFrame(
        {"policy": ["a", "b"], "certificate.bound_s": [3600.0, 3600.0], "certificate.gap": [1.0, 0.25]}
    )
    # 1.25 h against a bound of 1 h: at most 0.25 / 1.25 = 20 % faster.
    assert certificate_text(means) == (
        "No schedule of the jobs that b completed has a mean completion time below 1 h; that of b is 25 % "
        "above this bound, so no policy can be more than 20 % faster."
    )
    assert certificate_text(means.drop("certificate.gap")) == ""


def test_rejected_jobs_are_means_over_seeds() -> None:
    summary = three_jobs().summary
    rows = [
        RunRow(*PLACE, "fifo", 0, summary),
        RunRow(*PLACE, "fifo", 1, replace(summary, reasons={"never_fits": 2})),
        RunRow(*PLACE, "sjf", 0, replace(summary, reasons={"horizon": 1})),
    ]
    table = reject_table(rows)
    assert table is not None
    assert table.columns == ("policy", "never_fits", "horizon")
    assert _texts(table) == [["fifo", "1.5", "0"], ["sjf", "0", "1"]]
    assert reject_table([RunRow(*PLACE, "fifo", 0, replace(summary, reasons={}))]) is None


JOBS = pl.DataFrame(
    {
        "policy": ["fifo"] * 4,
        "vc": ["x", "x", "y", "y"],
        "user": ["ann", "bob", "ann", "bob"],
        "num_gpus": [1.0, 4.0, 8.0, 9.0],
        "submit_s": [0.0, 1.0, 2.0, 3.0],
        "duration_s": [10.0, 10.0, 10.0, 10.0],
        "jct_s": [10.0, 20.0, 40.0, 40.0],
        "status": ["completed"] * 4,
    }
)


def test_fairness_is_jains_index_of_the_progress_of_vcs() -> None:
    # Progress: x (1 + 0.5) / 2 = 0.75, y 0.25. Jain: 1^2 / (2 (0.5625 + 0.0625)) = 0.8.
    assert _texts(fairness_table(JOBS, "vc")) == [["fifo", "2", "0.8", "y", "0.25"]]
    assert fairness_table(JOBS.filter(vc="x"), "vc") is None


def test_users_are_compared_as_vcs_are() -> None:
    # Progress: ann (1 + 0.25) / 2 = 0.625, bob (0.5 + 0.25) / 2 = 0.375.
    # Jain: 1^2 / (2 (0.390625 + 0.140625)) = 0.941.
    assert _texts(fairness_table(JOBS, "user")) == [["fifo", "2", "0.9412", "bob", "0.375"]]


@pytest.mark.slow
def test_box_plots_have_a_block_for_each_class_that_has_jobs() -> None:
    by_size, by_vc, by_user = class_pictures("0", JOBS)
    for label in ("1 GPU or less", "2 to 4 GPUs", "5 to 8 GPUs", "more than 8 GPUs"):
        assert label in by_size.svg
    assert (by_vc.caption, by_user.caption) == ("JCT by vc", "JCT by user")
    [only] = class_pictures("0", JOBS.head(1))
    assert "5 to 8 GPUs" not in only.svg


def test_charts_have_a_line_for_each_policy() -> None:
    timeline = three_jobs().timeline
    data = PlaceData({"fifo": np.zeros(0)}, JOBS, {"fifo": timeline, "sjf": timeline}, {3})
    waiting, used = place_charts(data)
    assert waiting.data["unit"] == used.data["unit"] == "of seed 3"
    assert (waiting.caption, used.caption) == ("Jobs waiting", "gpu in use")
    series = waiting.data["series"]
    assert isinstance(series, list)
    assert [each["name"] for each in series] == ["fifo", "sjf"]
    assert waiting.data["focus_s"] == 3.0
    assert place_charts(PlaceData({})) == []


def test_labels_in_seconds_become_durations() -> None:
    rows = in_human_units([("JCT s, mean", 3600.0), ("jobs", 3), ("makespan s", None), ("lost s", 90)])
    assert rows == [("JCT, mean", "1 h"), ("jobs", 3), ("makespan s", None), ("lost", "1 min 30 s")]


@pytest.mark.parametrize(
    ("seeds", "marked"),
    [
        ({"fifo": (0, 1), "sjf": (0, 1)}, True),
        ({"fifo": (None,), "sjf": (0, 1)}, True),
        ({"fifo": (0, 1), "sjf": (0,)}, False),
        ({"fifo": (0, 1), "sjf": (1, 2)}, False),
    ],
)
def test_the_best_of_a_column_is_marked_over_the_same_seeds_only(
    seeds: dict[str, tuple[int | None, ...]], marked: bool
) -> None:
    lasts = {"fifo": 40.0, "sjf": 50.0}
    rows = [
        RunRow(*PLACE, policy, seed, three_jobs(lasts[policy]).summary)
        for policy, each in seeds.items()
        for seed in each
    ]
    places = [(PLACE, PlaceData({policy: np.array([1.0]) for policy in seeds}))]
    none = pl.DataFrame(schema=CONFIGURATIONS_SCHEMA)
    page = sweep_page("study", rows, compare_places(rows), places, none)
    (table,) = [each for part in page.sections for each in part.tables if each.note.startswith("Means over")]
    assert any(cell.best for row in table.rows for cell in row) == marked
    assert ("no best is marked" in table.note) != marked


@pytest.mark.parametrize(("seeds", "marked"), [((0, 1), True), ((0,), False)])
def test_a_notebook_marks_no_best_over_other_numbers_of_seeds(seeds: tuple[int, ...], marked: bool) -> None:
    rows = run_rows({"fifo": [40.0, 40.0], "sjf": [50.0 for _ in seeds]})
    table = means_table(sweep_table(rows))
    assert any(cell.best for row in table.rows for cell in row) == marked
