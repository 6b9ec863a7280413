"""Charts of workloads by name: arrivals, run times, sizes and gaps between submissions.

`ray_sim.experiments` puts those of one workload on the page of `ray-sim convert --html`, and those of two on
that of `ray-sim info --compare A B -o FILE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray
from ray_sim.reports.page import MOST_POINTS, Chart, Line, Picture, Section, line_chart
from ray_sim.reports.plots import TICKS_S, size_cdf_svg, time_cdf_svg

_HOUR_S = TICKS_S["1 h"]


def workload_sections(
    jobs: Mapping[str, pl.LazyFrame], by_hour: Mapping[str, Sequence[int]]
) -> tuple[Section, ...]:
    """Sections of a page; a picture holds one column of all jobs in memory.

    Parameters
    ----------
    jobs : columns submit_s, duration_s and num_gpus, at least one row; rows in any order
    by_hour : jobs submitted in each hour of the local day, 24, of the workloads whose days are known
    """
    submit_s = _ascending(jobs, "submit_s")
    gaps_s = {name: np.sort(np.diff(at)) for name, at in submit_s.items()}
    pictures = (
        Picture(time_cdf_svg(_ascending(jobs, "duration_s"), "run time", "jobs", "runs"), "Run times"),
        Picture(size_cdf_svg(_ascending(jobs, "num_gpus"), "sizes"), "Sizes"),
        Picture(time_cdf_svg(gaps_s, "time between submissions", "gaps", "gaps"), "Gaps"),
    )
    days = {name: _steps(np.array(counts) / sum(counts), _HOUR_S) for name, counts in by_hour.items()}
    hours = line_chart("Jobs by hour of the local day", "share of jobs per hour", days)
    return (
        Section("Arrivals", charts=(_arrivals(submit_s),)),
        *([Section("Hours of the day", charts=(hours,))] if by_hour else []),
        Section("Run times, sizes and gaps between submissions", pictures=pictures),
    )


def _ascending(jobs: Mapping[str, pl.LazyFrame], column: str) -> dict[str, FloatArray]:
    chosen = {name: each.select(column).collect(engine="streaming") for name, each in jobs.items()}
    return {name: np.sort(each.to_series().to_numpy()) for name, each in chosen.items()}


def _arrivals(submit_s: Mapping[str, FloatArray]) -> Chart:
    """Jobs submitted in intervals of the shortest round length that gives a line few enough points."""
    since_s = {name: at - at[0] for name, at in submit_s.items()}
    span_s = max(at[-1] for at in since_s.values())
    few = (tick for tick in TICKS_S.items() if span_s < (MOST_POINTS - 1) * tick[1])
    length, width_s = next(few, [*TICKS_S.items()][-1])
    lines = {
        name: _steps(np.bincount((at // width_s).astype(np.int64)), width_s) for name, at in since_s.items()
    }
    return line_chart("Jobs submitted, by time since the first submission", f"jobs in {length}", lines)


def _steps(values: np.ndarray, width_s: int) -> Line:
    """A line with a step of this length for each value, the last one included."""
    begins_s = np.arange(len(values) + 1, dtype=np.float64) * width_s
    return begins_s, np.append(values, values[-1]).astype(np.float64)
