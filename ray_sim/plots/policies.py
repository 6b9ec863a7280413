"""Pictures of policies side by side: completion times, means with intervals, boxes by size, an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ray_sim.experiments.axis import sweep_scale
from ray_sim.experiments.sweep_results import SweepResults
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.readable import in_seconds, time_unit
from ray_sim.plots.sources import (
    Results,
    axes_of,
    draw_names,
    name_places,
    opened,
    runs_data,
    summaries,
    thin_ticks,
)
from ray_sim.reports.across import axis_lines, axis_of, line_curves
from ray_sim.reports.box_plots import draw_boxes, policy_patches
from ray_sim.reports.compare import JCT, no_value
from ray_sim.reports.curves import draw_curves
from ray_sim.reports.plots import colour, draw_cdf, literal_text
from ray_sim.reports.statistics import mean_interval, metric_range
from ray_sim.reports.sweep_report import jct_by_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SAMPLES = {"jct_s": "JCT", "group_jct_s": "JCT of groups", "queue_s": "queueing delay"}
"""Readable names of samples of a summary."""


def cdf(results: Results, ax: Axes | None = None) -> Axes:
    """Share of the completed jobs by completion time, a curve for each policy over all of its seeds."""
    data = runs_data(results)
    ax = axes_of(ax)
    draw_cdf(ax, data.jct_s)
    draw_names(ax)
    thin_ticks(ax)
    return ax


def means(results: Results, ax: Axes | None = None, *, metric: str = JCT) -> Axes:
    """Mean of a metric over the seeds of each policy, with a 95 % interval unless the seeds are too few.

    Parameters
    ----------
    metric : a key of `Summary.flat`, such as ``jct_s.p99`` or ``utilisation.gpu``

    Raises
    ------
    InvalidInputError : no run has such a metric, or a value of it
    """
    values: dict[str, list[float]] = {}
    known: set[str] = set()
    for label, summary in summaries(results):
        flat = summary.flat()
        known |= flat.keys()
        if metric in flat:
            values.setdefault(label, []).append(flat[metric])
    if not values:
        raise no_value(metric, known)
    largest = max(max(map(abs, each)) for each in values.values())
    unit, factor = time_unit(largest) if in_seconds(metric) else ("", 1.0)
    ax = axes_of(ax)
    for place, (label, each) in enumerate(values.items()):
        sample = np.array(each) / factor
        mean = float(sample.mean())
        interval = mean_interval(sample, metric_range(metric))
        ends = None
        if interval is not None:
            ends = [[max(0.0, mean - interval.low)], [max(0.0, interval.high - mean)]]
        ax.errorbar(
            [place], [mean], yerr=ends, fmt="o", capsize=4, color=colour(place), label=literal_text(label)
        )
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    name, _, statistic = metric.rpartition(".")
    title = f"{statistic} {_SAMPLES[name]}" if name in _SAMPLES else metric
    ax.set_ylabel(f"{title}, {unit}" if unit else title)
    name_places(ax, list(values))
    return ax


def across(results: Results, axis: str = "cluster", ax: Axes | None = None, *, metric: str = JCT) -> Axes:
    """Mean of a metric of each policy over an axis of a sweep, with 95 % intervals from five seeds on.

    Parameters
    ----------
    axis : ``cluster``, ``workload``, ``world`` or ``params``
    metric : a key of `Summary.flat`, such as ``queue_s.mean``

    Raises
    ------
    InvalidInputError : the results are not those of a sweep, or no policy has two values of the axis
    """
    found = opened(results)
    if not isinstance(found, SweepResults):
        raise InvalidInputError("expected the results of a sweep: its directory, or what `sweep` returned")
    scale = sweep_scale(axis_of(axis), found.store, found.finished)
    lines = {} if scale is None else axis_lines(found.rows, scale, metric)
    if scale is None or not lines:
        raise InvalidInputError(f"{found.directory}: no policy has {metric} at two values of '{axis}'")
    ax = axes_of(ax)
    curves = line_curves(lines, scale, metric)
    draw_curves(ax, curves)
    draw_names(ax)
    if not scale.numeric:
        name_places(ax, list(map(str, curves.xs)))
        draw_names(ax)  # again, as names may stand upright now
    return ax


def by_size(results: Results, ax: Axes | None = None) -> Axes:
    """Boxes of completion times by number of GPUs and policy: the middle half, whiskers at 5 and 95 %."""
    data = runs_data(results)
    assert data.jobs is not None, "`runs_data` reads the jobs"
    ax = axes_of(ax)
    policies = list(data.jct_s)
    draw_boxes(ax, jct_by_size(data.jobs), policies)
    draw_names(ax, policy_patches(policies))
    thin_ticks(ax)
    return ax
