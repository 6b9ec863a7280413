"""Lines over an axis of a sweep: paired ratios by arithmetic, values of the axis, section of a report."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import scipy.stats

from ray_sim.reports.across import Across, Scale, axis_lines, axis_section, line_curves, scale_of, turned
from ray_sim.reports.compare import GroupComparison, PolicyComparison
from ray_sim.reports.findings import PlaceComparison
from ray_sim.reports.tables import RunRow
from tests.results_by_hand import run_rows
from tests.worlds import Job, replay, world_of

DURATIONS_S = ((10, 20, 30, 40), (20, 20, 20, 20), (40, 10, 10, 10))
"""Four jobs of one GPU, all submitted at 0 s, for each of three seeds."""

SERVERS = Scale(Across.CLUSTER, "servers", {"one": 1.0, "two": 2.0}, "one")


def fifo_rows(draws: Sequence[Sequence[int]]) -> list[RunRow]:
    """Runs of FIFO on one and on two servers of a GPU each, a seed for each draw."""
    return [
        RunRow("w", cluster, "", "fifo", seed, replay(world_of(jobs, [1.0] * gpus), "fifo").summary)
        for cluster, gpus in (("one", 1), ("two", 2))
        for seed, jobs in enumerate([Job(0.0, 1.0, float(each)) for each in draw] for draw in draws)
    ]


def only_comparison(rows: Sequence[RunRow]) -> tuple[PlaceComparison, GroupComparison, PolicyComparison]:
    """The line of FIFO over the servers, and its comparison of two servers with one."""
    (line,) = axis_lines(rows, SERVERS, "queue_s.mean").values()
    assert line.comparison is not None
    (two,) = line.comparison.policies
    return line, line.comparison, two


def test_waits_of_four_jobs_on_two_clusters_over_three_seeds_have_the_ratio_of_arithmetic() -> None:
    # One GPU: (0 + 10 + 30 + 60) / 4 = 25, (0 + 20 + 40 + 60) / 4 = 30, (0 + 40 + 50 + 60) / 4 = 37.5.
    # Two GPUs: (0 + 0 + 10 + 20) / 4 = 7.5, (0 + 0 + 20 + 20) / 4 = 10, (0 + 0 + 10 + 20) / 4 = 7.5.
    # Differences -17.5, -20, -30, mean -22.5; ratio of means 25 / 92.5, so -72.97 %.
    line, _, two = only_comparison(fifo_rows(DURATIONS_S))
    assert {value: sample.tolist() for value, sample in line.values.items()} == {
        "one": [25.0, 30.0, 37.5],
        "two": [7.5, 10.0, 7.5],
    }
    assert two.difference == pytest.approx(-22.5)
    assert two.relative_percent == pytest.approx(100 * (25 / 92.5 - 1))
    assert (two.interval, two.relative_interval, line.interval("two")) == (None, None, "too few seeds")


def test_six_seeds_have_the_t_interval_of_the_difference_and_a_ratio_interval_above_0() -> None:
    draws = (*DURATIONS_S, (10, 10, 40, 40), (5, 5, 5, 5), (30, 1, 1, 1))
    # One GPU: 25, 30, 37.5, (0 + 10 + 20 + 60) / 4 = 22.5, (0 + 5 + 10 + 15) / 4 = 7.5, (30 + 31 + 32) / 4.
    # Two: 7.5, 10, 7.5, (0 + 0 + 10 + 10) / 4 = 5, (0 + 0 + 5 + 5) / 4 = 2.5, (0 + 0 + 1 + 2) / 4 = 0.75.
    _, _, two = only_comparison(fifo_rows(draws))
    differences = [-17.5, -20.0, -30.0, -17.5, -5.0, -22.5]
    low, high = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert two.interval is not None
    assert [two.interval.low, two.interval.high] == pytest.approx([low, high])
    assert two.relative_interval is not None
    assert -100 <= two.relative_interval.low < two.relative_interval.high < 0


def test_jobs_that_depend_on_no_seed_have_no_interval_and_it_is_said() -> None:
    free = [RunRow(*row.place, row.policy, None, row.summary) for row in fifo_rows(DURATIONS_S[:1])]
    line, comparison, two = only_comparison(free)
    assert (two.baseline_mean, two.mean, two.interval) == (25.0, 7.5, None)
    assert (line.interval("one"), line.interval("two")) == ("-", "-")
    assert "seed-free: no run here depends on a seed" in comparison.notes


@pytest.mark.parametrize(
    ("across", "expected"),
    [
        (Across.WORKLOAD, (("", "c", "s=1"), "las(knob=2){slot_s=9}", "w")),
        (Across.CLUSTER, (("w", "", "s=1"), "las(knob=2){slot_s=9}", "c")),
        (Across.WORLD, (("w", "c", ""), "las(knob=2){slot_s=9}", "s=1")),
        (Across.PARAMS, (("w", "c", "s=1"), "las", "(knob=2){slot_s=9}")),
    ],
)
def test_a_run_belongs_to_the_line_of_all_that_the_axis_is_not(
    across: Across, expected: tuple[tuple[str, str, str], str, str]
) -> None:
    assert turned(("w", "c", "s=1"), "las(knob=2){slot_s=9}", across) == expected


def test_parameters_stand_without_brackets_and_defaults_by_this_name() -> None:
    assert turned(("w", "c", ""), "las(knob=2)", Across.PARAMS)[1:] == ("las", "knob=2")
    assert turned(("w", "c", ""), "las", Across.PARAMS)[1:] == ("las", "defaults")
    assert turned(("w", "c", ""), "las", Across.WORLD)[2] == "defaults"


def test_x_is_the_first_number_that_tells_all_values_apart() -> None:
    facts: dict[str, dict[str, object]] = {
        "big": {"price": 9.0, "servers": 4, "GPUs": 8},
        "small": {"price": None, "servers": 4, "GPUs": 2},
    }
    names = ("price", "servers", "GPUs")
    scale = scale_of(Across.CLUSTER, facts, names)
    assert (scale.title, dict(scale.xs), scale.first) == ("GPUs", {"small": 2, "big": 8}, "big")
    assert list(scale.xs) == ["small", "big"]
    priced = scale_of(Across.CLUSTER, {**facts, "small": {"price": 2.5}}, names)
    assert (priced.title, list(priced.xs.values())) == ("price", [2.5, 9.0])
    named = scale_of(Across.CLUSTER, {"a": {"servers": 1}, "b": {"servers": True}}, names)
    assert (named.title, named.numeric, list(named.xs)) == ("cluster", False, ["a", "b"])


def test_the_section_of_a_report_has_a_chart_with_a_line_per_policy_and_a_table() -> None:
    rows = [
        RunRow("w", cluster, "", row.policy, row.seed, row.summary)
        for cluster, lasts in (("one", (40.0, 50.0)), ("two", (20.0, 30.0)))
        for row in run_rows({"fifo": lasts, "sjf": lasts})
    ]
    section = axis_section(rows, SERVERS, ["jct_s.mean", "queue_s.mean"])
    assert section is not None
    assert [chart.caption for chart in section.charts] == ["jct_s.mean, w", "queue_s.mean, w"]
    assert section.charts[0].data["x_title"] == "servers"
    assert section.charts[0].data["series"] == [
        {"name": name, "x": [1.0, 2.0], "y": [27.5, 17.5], "low": [None] * 2, "high": [None] * 2}
        for name in ("fifo", "sjf")
    ]
    assert [table.columns[0] for table in section.tables] == ["fifo, w, cluster", "sjf, w, cluster"] * 2
    # Mean JCTs (10 + last) / 2: 25 and 30 on one server, 15 and 20 on two; 35 / 55 - 1 = -36.4 %.
    texts = [[cell.text for cell in row] for row in section.tables[0].rows]
    assert texts[0] == ["one", "baseline", "28 s", "too few seeds", "-", "-", "2"]
    assert texts[1][:2] == ["two", "too few seeds"]
    assert texts[1][5] == "-36.4 (too few seeds)"
    assert not any(cell.best for row in section.tables[0].rows for cell in row)
    curves = line_curves(axis_lines(rows, SERVERS, "jct_s.mean"), SERVERS, "jct_s.mean")
    assert (curves.series, curves.xs, curves.y.unit) == (("fifo", "sjf"), (1.0, 2.0), "seconds")
    assert [point.mean for point in curves.points] == [27.5, 17.5] * 2


def test_workloads_without_a_number_have_no_section() -> None:
    rows = [
        RunRow(workload, "c", "", "fifo", 0, row.summary)
        for workload in ("philly", "helios")
        for row in run_rows({"fifo": (40.0,)})
    ]
    names = {"philly": "philly", "helios": "helios"}
    assert axis_section(rows, Scale(Across.WORKLOAD, "workload", names, "philly"), ["jct_s.mean"]) is None
