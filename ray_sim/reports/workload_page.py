"""Page of two workloads side by side: a table, arrivals, distributions of run times, sizes and gaps.

`ray_sim.experiments.workload_comparison` builds it for `ray-sim info --compare A B -o FILE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray
from ray_sim.reports.page import MOST_POINTS, Chart, Line, Page, Picture, Section, Table, line_chart
from ray_sim.reports.plots import size_cdf_svg, time_cdf_svg

_HOUR_S = 3600


def workloads_page(
    table: Table, jobs: Mapping[str, pl.DataFrame], by_hour: Mapping[str, Sequence[int]]
) -> Page:
    """Build the page of workloads by name, with the table that compares them.

    Parameters
    ----------
    jobs : columns submit_s, duration_s and num_gpus, at least one row; rows in any order
    by_hour : jobs submitted in each hour of the local day, 24, of the workloads whose days are known
    """
    submit_s, run_s, gpus = (
        {name: np.sort(frame[column].to_numpy()) for name, frame in jobs.items()}
        for column in ("submit_s", "duration_s", "num_gpus")
    )
    gaps_s = {name: np.sort(np.diff(at)) for name, at in submit_s.items()}
    pictures = (
        Picture(time_cdf_svg(run_s, "run time", "jobs", "runs"), "Run times"),
        Picture(size_cdf_svg(gpus, "sizes"), "Sizes"),
        Picture(time_cdf_svg(gaps_s, "time between submissions", "gaps", "gaps"), "Gaps"),
    )
    days = {name: _steps(np.array(counts) / sum(counts), 1) for name, counts in by_hour.items()}
    hours = line_chart("Jobs by hour of the local day", "share of jobs per hour", days)
    return Page(
        "Two workloads side by side",
        ", ".join(f"{name} ({frame.height:,} jobs)" for name, frame in jobs.items()),
        (
            Section("Side by side", tables=(table,)),
            Section("Arrivals", charts=(_arrivals(submit_s),)),
            *([Section("Hours of the day", charts=(hours,))] if by_hour else []),
            Section("Run times, sizes and gaps between submissions", pictures=pictures),
        ),
    )


def _arrivals(submit_s: Mapping[str, FloatArray]) -> Chart:
    """Jobs submitted in each hour, or in several where a line would have too many points."""
    since_h = {name: (at - at[0]) / _HOUR_S for name, at in submit_s.items()}
    width = math.ceil((max(at[-1] for at in since_h.values()) + 1) / (MOST_POINTS - 1))
    unit = "jobs per hour" if width == 1 else f"jobs per {width:,} hours"
    lines = {name: _steps(np.bincount((at // width).astype(np.int64)), width) for name, at in since_h.items()}
    return line_chart("Jobs submitted, by time since the first submission", unit, lines)


def _steps(values: np.ndarray, hours: int) -> Line:
    """A line with a step of so many hours for each value, the last one included."""
    begins_s = np.arange(len(values) + 1, dtype=np.float64) * hours * _HOUR_S
    return begins_s, np.append(values, values[-1]).astype(np.float64)
