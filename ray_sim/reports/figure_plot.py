"""Plot of a published figure: its series with 95 % intervals in the paper's axes, and the paper's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ray_sim.reports.figure_result import FigureResult, Point
from ray_sim.reports.plots import SVG_IN, axes_with_legend, colour, draw_legend, literal_text, svg_element
from ray_sim.reports.statistics import ConfidenceInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^v<>Ph*"
"""Markers of the series, so that they differ without colour."""


def figure_svg(result: FigureResult, name: str) -> str:
    """Plot a figure as an SVG element; `name` is unique among the pictures of its page.

    Numbers as x make lines, names make groups of points side by side. Hollow markers are the paper's numbers.
    """
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for x in result.xs)
    figure, axes = axes_with_legend(SVG_IN, "", list(result.series))
    for index, series in enumerate(result.series):
        points = [point for point in result.points if point.series == series]
        shift = 0.0 if numeric else 0.5 * ((index + 0.5) / len(result.series) - 0.5)
        places = [_place(point, result, numeric=numeric) + shift for point in points]
        _draw(axes, places, points, index, series, joined=numeric)
    if numeric:
        axes.set_xscale("log" if result.x.log else "linear")
    else:
        axes.set_xticks(range(len(result.xs)), [literal_text(str(x)) for x in result.xs], fontsize="small")
        axes.set_xlim(-0.5, len(result.xs) - 0.5)
    if result.y.log:
        axes.set_yscale("log")
    else:
        _from_zero(axes)
    axes.set_xlabel(literal_text(result.x.title))
    axes.set_ylabel(literal_text(result.y.title))
    draw_legend(figure, axes)
    return svg_element(figure, name)


def _from_zero(axes: Axes) -> None:
    """Let y begin at 0 or below, with room above, and short numbers, such as 250k, beside the frame."""
    from matplotlib.ticker import EngFormatter

    low, high = axes.get_ylim()
    low = min(0.0, low)
    axes.set_ylim(low, high + 0.05 * (high - low))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))


def _place(point: Point, result: FigureResult, *, numeric: bool) -> float:
    if numeric and isinstance(point.x, int | float):
        return float(point.x)
    return float(result.xs.index(point.x))


def _draw(
    axes: Axes, places: list[float], points: list[Point], index: int, series: str, *, joined: bool
) -> None:
    means = np.array([point.mean for point in points])
    intervals = [point.interval or ConfidenceInterval(np.nan, np.nan) for point in points]
    ends = [means - [each.low for each in intervals], [each.high for each in intervals] - means]
    marker = _MARKERS[index % len(_MARKERS)]
    axes.errorbar(
        places,
        means,
        yerr=np.maximum(0.0, ends),
        label=literal_text(series),
        color=colour(index),
        marker=marker,
        markersize=4,
        linestyle="-" if joined else "none",
        linewidth=1.2,
        capsize=2,
    )
    printed = [
        (place, point.published)
        for place, point in zip(places, points, strict=True)
        if point.published is not None
    ]
    if printed:
        xs, ys = zip(*printed, strict=True)
        axes.plot(
            xs, ys, color=colour(index), marker=marker, markersize=8, markerfacecolor="none", linestyle="none"
        )
