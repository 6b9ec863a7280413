"""Charts of lines over time that the reader can zoom, as the script of the page reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray
from ray_sim.reports.page import Chart
from ray_sim.reports.plots import thin_steps

MOST_POINTS = 600
"""Largest number of points of a line in a page."""

Line = tuple[FloatArray, FloatArray]
"""Times in seconds of the workload, increasing, and values; NaN where there is none."""


def line_chart(
    caption: str, unit: str, lines: Mapping[str, Line], *, visible: int | None = None, note: str = ""
) -> Chart:
    """Step lines over time by name.

    Parameters
    ----------
    unit : text below the chart until the reader points at it
    visible : number of lines that are on at first; all by default
    """
    series = [{"name": shown(name), **_points(*line)} for name, line in lines.items()]
    count = len(series) if visible is None else visible
    return Chart(caption, {"kind": "lines", "unit": unit, "shown": count, "series": series}, note)


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
