"""Charts of policies for reports of sweeps, beside those over time: shares of jobs, boxes, intervals.

The script ``templates/charts.js`` reads the fields of their data. They share the legend of their section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray
from ray_sim.reports.page import STEPS, Chart
from ray_sim.reports.statistics import ConfidenceInterval

MOST_RANKS = 300
"""Jobs of each policy in a page, at evenly spaced ranks of the completion time."""

MOST_SEEDS = 100
"""Values of single seeds that are drawn for each policy."""

JOB_COLUMNS = ("job_id", "submit_s", "run_s", "queue_s", "seed")
"""Columns of the jobs that a chart of completion times lists."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def jct_chart(caption: str, jct_s: Mapping[str, FloatArray], jobs: Mapping[str, pl.DataFrame]) -> Chart:
    """Share of completed jobs by completion time; a click lists the jobs near a time.

    Parameters
    ----------
    jct_s : completion times by policy, in seconds, ascending
    jobs : completed jobs by policy in the same order, with `JOB_COLUMNS`, and columns of the numbers of their
        classes; none for a policy whose jobs are not known
    """
    series = []
    for policy, times in jct_s.items():
        ranks = np.unique(np.linspace(1, max(len(times), 1), min(len(times), MOST_RANKS)).round().astype(int))
        line: dict[str, object] = {"name": shown(policy), "x": _rounded(times[ranks - 1])}
        line["y"] = [round(share, 5) for share in (ranks / max(len(times), 1)).tolist()]
        if policy in jobs:
            known = jobs[policy][ranks - 1].with_columns(pl.col("submit_s", "run_s", "queue_s").round(1))
            ids = [shown(name) for name in known["job_id"]]
            line["jobs"] = {"id": ids, **known.drop("job_id").to_dict(as_series=False)}
        series.append(line)
    titles = {"x_title": "completion time", "y_title": "share of completed jobs"}
    note = "Click on a curve for its jobs near that time." if jobs else ""
    return Chart(caption, {**STEPS, "x": "log", "shared": True, "note": note, "series": series, **titles})


def box_chart(caption: str, groups: Mapping[str, Mapping[str, FloatArray]], by: str) -> Chart:
    """Boxes of completion times, a block per class and a box per policy: middle half, whiskers 5 and 95 %.

    Parameters
    ----------
    groups : JCTs in seconds by class and policy; an empty array has no box
    by : column of the class's number in the jobs of `jct_chart`, which a click lists
    """
    series = [
        {"name": shown(policy), "group": index, "box": _rounded(np.quantile(times, _QUANTILES))}
        for index, by_policy in enumerate(groups.values())
        for policy, times in by_policy.items()
        if len(times)
    ]
    titles = {"x_title": "completion time; whiskers: 5 and 95 %", "y_title": by}
    note = "Click on a box for its jobs near that time."
    data = {"kind": "rows", "x": "log", "shared": True, "note": note, "by": by, **titles}
    return Chart(caption, {**data, "groups": [shown(label) for label in groups], "series": series})


def interval_chart(
    caption: str,
    x_title: str,
    means: Mapping[str, tuple[float, ConfidenceInterval | None]],
    values: Mapping[str, Mapping[int | None, float]] | None = None,
    *,
    in_s: bool,
) -> Chart:
    """A row per policy with its mean, the 95 % interval where it has one, and the values of single seeds.

    Parameters
    ----------
    values : by policy and seed; of more than `MOST_SEEDS` the first
    in_s : whether the values are seconds, which are shown as hours and minutes
    """
    series = []
    for policy, (mean, interval) in means.items():
        row: dict[str, object] = {"name": shown(policy), "mean": _short(mean)}
        if interval is not None:
            row |= {"low": _short(interval.low), "high": _short(interval.high)}
        if values and policy in values:
            points = list(values[policy].items())[:MOST_SEEDS]
            row |= {"seeds": [seed for seed, _ in points], "values": [_short(value) for _, value in points]}
        series.append(row)
    titles = {"x_title": x_title, "y_title": "policy: mean (95 % interval)"}
    x = "span" if in_s else "number"
    return Chart(caption, {"kind": "rows", "x": x, "shared": True, "note": "", **titles, "series": series})


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _rounded(times: FloatArray | Sequence[float]) -> list[float]:
    return [float(each) for each in np.round(times, 1)]
