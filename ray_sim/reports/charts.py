"""Charts of lines over time that the reader can zoom, as the script of the page reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray
from ray_sim.reports.page import Chart
from ray_sim.reports.plots import thin_steps
from ray_sim.reports.submission_times import last_end_s

MOST_POINTS = 1500
"""Largest number of points of a line in a page."""

Line = tuple[FloatArray, FloatArray]
"""Times in seconds of the workload, increasing, and values; NaN where there is none."""


def line_chart(caption: str, unit: str, lines: Mapping[str, Line], *, focus_s: float | None = None) -> Chart:
    """Step lines over time by name.

    Parameters
    ----------
    unit : text below the chart until the reader points at it
    focus_s : end of the interesting part, e.g. the last submission; a long rest is out of view at first
    """
    series = [{"name": shown(name), **_points(*line)} for name, line in lines.items()]
    return Chart(caption, {"kind": "lines", "unit": unit, "focus_s": focus_s, "series": series})


def timeline_to_end(timeline: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The timeline with a row at the end of the run, where jobs wait or hold servers after its last event.

    Parameters
    ----------
    timeline, jobs : as in `RunResult`
    """
    end_s = last_end_s(jobs)
    last = timeline.tail(1)
    if last.is_empty() or end_s is None or end_s <= last["time_s"][0]:
        return timeline
    return pl.concat([timeline, last.with_columns(time_s=pl.lit(end_s))])


def timeline_lines(timeline: pl.DataFrame, columns: Mapping[str, str]) -> dict[str, Line]:
    """Lines of columns of a timeline by their label; nulls are NaN."""
    time_s = timeline["time_s"].to_numpy()
    return {
        label: (time_s, timeline[column].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        for column, label in columns.items()
    }


def _points(time_s: FloatArray, values: FloatArray) -> dict[str, object]:
    kept = thin_steps(time_s, np.nan_to_num(values, nan=-np.inf), MOST_POINTS)
    return {
        "x": np.round(time_s[kept], 3).tolist(),
        "y": [None if np.isnan(value) else float(f"{value:.6g}") for value in values[kept].tolist()],
    }
