"""Timelines of runs, and lines over an axis, as series of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from ray_sim.experiments.tracking.records import (
    MAX_CHART_POINTS,
    MAX_TIMELINE_POINTS,
    line_metrics,
    run_params,
    timeline_metrics,
)
from ray_sim.experiments.tracking.views import TIME_CHARTS
from tests.stored_by_hand import manifest

NONE = pl.DataFrame(schema={"finish_s": pl.Float64, "status": pl.String})


def _points(
    columns: Mapping[str, Sequence[object]], jobs: pl.DataFrame = NONE
) -> dict[str, list[tuple[int, float]]]:
    """Step and value of the points of each series."""
    found: dict[str, list[tuple[int, float]]] = {}
    for each in timeline_metrics(pl.DataFrame(columns, strict=False), jobs):
        found.setdefault(each.key.removeprefix("timeline."), []).append((each.step, each.value))
    return found


def test_a_label_is_a_parameter_beside_the_policy() -> None:
    params = {each.key: each.value for each in run_params(manifest("ab" * 32, "las", label="short"), None)}
    assert (params["policy"], params["parameters.knob"], params["label"]) == ("las", "2", "short")


def test_what_was_told_once_is_believed_until_something_else_is_told() -> None:
    """Nothing was told at 0 s, so there is no point."""
    points = _points({"time_s": [0.0, 60.0, 120.0, 180.0], "speed_error": [None, 0.5, None, 0.25]})
    assert points["speed_error"] == [(1, 0.5), (2, 0.5), (3, 0.25)]


def test_a_series_without_a_number_has_no_points() -> None:
    points = _points({"time_s": [0.0], "waiting": [1], "speed_error": [None]})
    assert points == {"waiting": [(0, 1)], "completed": [(0, 0)]}


@pytest.mark.parametrize(
    ("time_s", "timestamps", "steps"),
    [([-60.0, 0.0, 30.0], [0, 60_000, 90_000], [0, 1, 2]), ([60.0, 120.0], [60_000, 120_000], [1, 2])],
)
def test_times_before_the_zero_of_a_trace_count_from_the_first(
    time_s: list[float], timestamps: list[int], steps: list[int]
) -> None:
    found = timeline_metrics(pl.DataFrame({"time_s": time_s}), NONE)
    assert ([each.timestamp for each in found], [each.step for each in found]) == (timestamps, steps)


def test_completed_jobs_are_counted_at_each_instant() -> None:
    # Jobs end after 1 and 3 min; one is rejected and never ends.
    jobs = pl.DataFrame({"finish_s": [180.0, None, 60.0], "status": ["completed", "rejected", "completed"]})
    points = _points({"time_s": [0.0, 60.0, 120.0, 180.0], "waiting": [2, 1, 1, 0]}, jobs)
    assert points == {
        "waiting": [(0, 2), (1, 1), (2, 1), (3, 0)],
        "completed": [(0, 0), (1, 1), (2, 1), (3, 2)],
    }


def test_a_long_run_has_at_most_200_points_in_charts_and_100_in_all_other_series() -> None:
    n = 10_000
    columns = ("time_s", "waiting", "used_gpu", "running", "used_cpu")
    counts = {name: len(points) for name, points in _points({name: range(n) for name in columns}).items()}
    charted = {name.removeprefix("timeline."): MAX_CHART_POINTS for name in TIME_CHARTS}
    assert counts == {**charted, "running": 50, "used_cpu": 50}
    assert sum(charted.values()) <= 200
    assert MAX_TIMELINE_POINTS == 100


def test_series_end_when_95_percent_of_the_completed_jobs_have_ended() -> None:
    # 21 jobs end after 1, 2, ..., 20 and 1,000 min; 95 % of the way from the first to the last is the 20th.
    minutes = [*range(1, 21), 1000]
    jobs = pl.DataFrame({"finish_s": [60.0 * each for each in minutes], "status": ["completed"] * 21})
    points = _points({"time_s": [60.0 * each for each in (0, 19, 20, 21, 1000)]}, jobs)
    assert points == {"completed": [(0, 0), (19, 19), (20, 20)]}


def test_the_points_of_a_line_are_joined_by_their_step() -> None:
    points = line_metrics("workload.load_scale", {0.8: {"jct_s.mean": 60.0}, 1.25: {"jct_s.mean": 90.0}})
    assert [(each.key, each.step, each.value) for each in points] == [
        ("workload.load_scale", 0, 0.8),
        ("jct_s.mean", 0, 60.0),
        ("workload.load_scale", 1, 1.25),
        ("jct_s.mean", 1, 90.0),
    ]
