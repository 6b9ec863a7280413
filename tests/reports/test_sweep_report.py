"""Parts of a sweep's report, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.reports.findings import certificate_text, compare_place, compare_places
from ray_sim.reports.page import Chart, Table
from ray_sim.reports.small_tables import means_table
from ray_sim.reports.sweep_report import (
    CONFIGURATIONS_SCHEMA,
    PlaceData,
    difference_charts,
    fairness_table,
    jct_charts,
    place_charts,
    reject_table,
    summary_charts,
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
        "seed": [0] * 4,
        "job_id": list("abcd"),
        "vc": ["x", "x", "y", "y"],
        "user": ["ann", "bob", "ann", "bob"],
        "num_gpus": [1.0, 4.0, 8.0, 9.0],
        "submit_s": [0.0, 1.0, 2.0, 3.0],
        "duration_s": [10.0, 10.0, 10.0, 10.0],
        "jct_s": [10.0, 20.0, 40.0, 40.0],
        "queue_s": [0.0, 10.0, 30.0, 30.0],
        "run_s": [10.0, 10.0, 10.0, 10.0],
        "status": ["completed"] * 4,
    }
)


def test_fairness_is_jains_index_of_the_progress_of_vcs() -> None:
    # Progress: x (1 + 0.5) / 2 = 0.75, y 0.25. Jain: 1^2 / (2 (0.5625 + 0.0625)) = 0.8.
    assert _texts(fairness_table(JOBS, "vc")) == [["fifo", "2", "0.8", "y", "0.25"]]
    assert fairness_table(JOBS.filter(vc="x"), "vc") is None
    short = JOBS.with_columns(pl.col("duration_s", "jct_s") / 1e6)  # it is a ratio, whatever the unit
    assert _texts(fairness_table(short, "vc")) == _texts(fairness_table(JOBS, "vc"))


def test_users_are_compared_as_vcs_are() -> None:
    # Progress: ann (1 + 0.25) / 2 = 0.625, bob (0.5 + 0.25) / 2 = 0.375.
    # Jain: 1^2 / (2 (0.390625 + 0.140625)) = 0.941.
    assert _texts(fairness_table(JOBS, "user")) == [["fifo", "2", "0.9412", "bob", "0.375"]]


def _series(chart: Chart) -> list[dict[str, Any]]:
    series = chart.data["series"]
    assert isinstance(series, list)
    return series


def test_box_plots_have_a_block_for_each_class_that_has_jobs() -> None:
    jcts = {"fifo": np.array([10.0, 20.0, 40.0, 40.0])}
    _, by_size, by_vc, by_user = jct_charts(PlaceData(jcts, JOBS))
    assert by_size.data["groups"] == ["1 GPU or less", "2 to 4 GPUs", "5 to 8 GPUs", "more than 8 GPUs"]
    assert (by_vc.caption, by_user.caption) == ("JCT by vc", "JCT by user")
    # ann has 10 and 40 s: median 25, a quarter of the way 17.5 and 32.5, a twentieth 11.5 and 38.5.
    assert _series(by_user)[0] == {"name": "fifo", "group": 0, "box": [11.5, 17.5, 25.0, 32.5, 38.5]}
    _, only = jct_charts(PlaceData({"fifo": np.array([10.0])}, JOBS.head(1)))
    assert only.data["groups"] == ["1 GPU or less"]


def test_a_curve_knows_its_jobs_and_their_classes() -> None:
    [line] = _series(jct_charts(PlaceData({"fifo": JOBS["jct_s"].to_numpy()}, JOBS))[0])
    assert (line["x"], line["y"]) == ([10.0, 20.0, 40.0, 40.0], [0.25, 0.5, 0.75, 1.0])
    jobs = line["jobs"]
    assert (jobs["id"], jobs["queue_s"], jobs["seed"]) == (list("abcd"), [0.0, 10.0, 30.0, 30.0], [0] * 4)
    assert (jobs["size"], jobs["vc"], jobs["user"]) == ([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1])


def test_differences_are_those_of_each_seed_and_a_run_of_no_seed_pairs_with_all() -> None:
    # Means of JCT are (10 + last) / 2. fifo: 25 and 26 s, sjf: 30 and 33 s; las has 28 s under any seed.
    rows = run_rows({"fifo": (40.0, 42.0), "sjf": (50.0, 56.0)})
    rows.append(RunRow(*PLACE, "las", None, three_jobs(46.0).summary))
    compared = compare_place(rows)
    [chart] = difference_charts(compared, rows)
    assert chart.caption == "Difference to fifo, paired by seed"
    points = {row["name"]: (row["mean"], row["seeds"], row["values"]) for row in _series(chart)}
    assert points == {"las": (2.5, [0, 1], [3.0, 2.0]), "sjf": (6.0, [0, 1], [5.0, 7.0])}
    assert difference_charts(compare_place(rows[:2]), rows[:2]) == []


def test_summaries_have_means_and_intervals_over_seeds() -> None:
    rows = run_rows({"fifo": (40.0, 42.0), "sjf": tuple(50.0 + 2 * seed for seed in range(5))})
    charts = summary_charts(compare_place(rows), sweep_table(rows), rows)
    fifo, sjf = _series(charts[0])
    assert charts[0].caption == "Mean JCT"
    assert fifo == {"name": "fifo", "mean": 25.5}  # two seeds have no interval
    assert sjf["mean"] == 32.0
    assert 30.0 < sjf["low"] < 32.0 < sjf["high"] < 34.1


def test_charts_over_time_have_a_line_for_each_policy_and_seed() -> None:
    timeline = three_jobs().timeline
    data = PlaceData(
        {"fifo": np.zeros(0)}, JOBS, {"fifo": {3: timeline, 4: timeline}, "las": {None: timeline}}
    )
    waiting, used = place_charts(data)
    assert (waiting.caption, waiting.data["y_title"]) == ("Jobs waiting", "jobs")
    assert (used.caption, used.data["y_title"]) == ("gpu in use", "gpu")
    assert [(each["name"], each.get("seed")) for each in _series(waiting)] == [
        ("fifo", 3),
        ("fifo", 4),
        ("las", None),
    ]
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
    assert "bound: no schedule of these jobs beats it" in table.note


@pytest.mark.parametrize(("seeds", "marked"), [((0, 1), True), ((0,), False)])
def test_a_notebook_marks_no_best_over_other_numbers_of_seeds(seeds: tuple[int, ...], marked: bool) -> None:
    rows = run_rows({"fifo": [40.0, 40.0], "sjf": [50.0 for _ in seeds]})
    table = means_table(sweep_table(rows))
    assert any(cell.best for row in table.rows for cell in row) == marked
