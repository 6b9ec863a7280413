"""A run's timeline as series of points."""

from __future__ import annotations

import polars as pl

from ray_sim.experiments.mlflow_records import timeline_metrics


def test_what_was_told_once_is_believed_until_something_else_is_told() -> None:
    """Nothing was told at 0 s, so there is no point."""
    timeline = pl.DataFrame(
        {"time_s": [0.0, 1.0, 2.0, 3.0], "waiting": [2, 1, 1, 0], "speed_error": [None, 0.5, None, 0.25]}
    )
    points = [(metric.key, metric.step, metric.value) for metric in timeline_metrics(timeline)]
    assert [point for point in points if point[0] == "timeline.speed_error"] == [
        ("timeline.speed_error", 1, 0.5),
        ("timeline.speed_error", 2, 0.5),
        ("timeline.speed_error", 3, 0.25),
    ]
    assert len(points) == 4 + 3


def test_a_series_without_a_number_has_no_points() -> None:
    timeline = pl.DataFrame(
        {"time_s": [0.0], "waiting": [1], "speed_error": pl.Series([None], dtype=pl.Float64)}
    )
    assert [metric.key for metric in timeline_metrics(timeline)] == ["timeline.waiting"]


def test_times_before_the_zero_of_a_trace_count_from_the_first() -> None:
    births = pl.DataFrame({"time_s": [-60.0, 0.0, 30.0], "waiting": [1, 2, 3]})
    told = [(each.timestamp, each.step, each.value) for each in timeline_metrics(births)]
    assert told == [(0, 0, 1.0), (60_000, 60, 2.0), (90_000, 90, 3.0)]
    later = pl.DataFrame({"time_s": [10.0, 20.0], "waiting": [1, 2]})
    assert [each.timestamp for each in timeline_metrics(later)] == [10_000, 20_000]
