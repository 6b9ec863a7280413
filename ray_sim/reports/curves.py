"""Curves of a metric over an axis, a point for each value of x with its 95 % interval, as a picture.

Pages of figures, reports of sweeps and notebooks draw them.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ray_sim.reports.plots import SVG_IN, axes_with_legend, colour, draw_legend, literal_text, svg_element
from ray_sim.reports.shape_samples import X
from ray_sim.reports.statistics import ConfidenceInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a figure."""

    label: str
    unit: str | None = None
    log: bool = False

    @property
    def title(self) -> str:
        """Label with its unit."""
        return self.label if self.unit is None else f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True)
class Point:
    """Mean of a series at one x over its seeds."""

    series: str
    x: X
    seeds: int
    mean: float
    interval: ConfidenceInterval | None
    published: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """What a picture of curves shows: values of x in order, and series in that of their colours."""

    x: Axis
    y: Axis
    xs: tuple[X, ...]
    series: tuple[str, ...]
    points: tuple[Point, ...]


_MARKERS = "osD^v<>Ph*"
"""Markers of the series, so that they differ without colour."""


def curves_svg(curves: Curves, name: str) -> str:
    """Draw curves as an SVG element; `name` is unique among the pictures of its page."""
    figure, axes = axes_with_legend(SVG_IN, "", list(curves.series))
    draw_curves(axes, curves)
    draw_legend(figure, axes)
    return svg_element(figure, name)


def draw_curves(axes: Axes, curves: Curves) -> None:
    """Draw curves into axes, without a legend.

    Numbers as x make lines, names make groups of points side by side. Hollow markers are the paper's numbers.
    """
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for x in curves.xs)
    at = {x: float(str(x)) if numeric else float(place) for place, x in enumerate(curves.xs)}
    for index, series in enumerate(curves.series):
        points = [point for point in curves.points if point.series == series]
        shift = 0.0 if numeric else 0.5 * ((index + 0.5) / len(curves.series) - 0.5)
        _draw(axes, [at[point.x] + shift for point in points], points, index, series, joined=numeric)
    axes.set_xlabel(literal_text(curves.x.title))
    axes.set_ylabel(literal_text(curves.y.title))
    if numeric:
        axes.set_xscale("log" if curves.x.log else "linear")
        if not curves.x.log and all(float(str(x)).is_integer() for x in curves.xs):
            axes.locator_params("x", integer=True)
    else:
        names = [textwrap.fill(str(x), max(8, 56 // len(curves.xs))) for x in curves.xs]
        axes.set_xticks(range(len(names)), list(map(literal_text, names)), fontsize="small")
        axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_yscale("log") if curves.y.log else _from_zero(axes)


def _from_zero(axes: Axes) -> None:
    """Let y begin at 0 or below, with room above, and short numbers, such as 250k, beside the frame."""
    from matplotlib.ticker import EngFormatter

    low, high = axes.get_ylim()
    low = min(0.0, low)
    axes.set_ylim(low, high + 0.05 * (high - low))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))


def _draw(
    axes: Axes, places: list[float], points: list[Point], index: int, series: str, *, joined: bool
) -> None:
    means = np.array([point.mean for point in points])
    intervals = [point.interval or ConfidenceInterval(np.nan, np.nan) for point in points]
    ends = [means - [each.low for each in intervals], [each.high for each in intervals] - means]
    marker = _MARKERS[index % len(_MARKERS)]
    style: dict[str, Any] = {"color": colour(index), "marker": marker}
    axes.errorbar(
        places, means, yerr=np.maximum(0.0, ends), label=literal_text(series), markersize=4,
        linestyle="-" if joined else "none", linewidth=1.2, capsize=2, **style,
    )  # fmt: skip
    shown = [each for each in zip(places, points, strict=True) if each[1].published is not None]
    if shown:
        xs, ys = zip(*((place, point.published) for place, point in shown), strict=True)
        axes.plot(xs, ys, markersize=8, markerfacecolor="none", linestyle="none", **style)
