"""Pictures of runs, drawn without a display; the same numbers give the same bytes.

A PNG has a white background. An SVG is part of an HTML page: its text and axes have the colour of the
surrounding text, so that it is readable on a light and on a dark page.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_STEPS = 400
"""Number of steps drawn per CDF; finer steps are below a pixel."""

_PNG_IN = (6.4, 4.0)
SVG_IN = (4.8, 3.0)
"""Width and height without legend. Text of the narrow size is also readable on a phone."""

_LEFT_IN, _RIGHT_IN, _BOTTOM_IN, _TITLE_IN, _TOP_IN = 0.7, 0.19, 0.52, 0.32, 0.1
_LINE_IN, _HANDLE_IN, _CHARACTER_IN = 0.18, 0.55, 0.075
"""Height of a line of small text, and widths of a legend entry and of each of its characters."""

LEGEND: Mapping[str, Any] = {"fontsize": "small", "frameon": False, "borderaxespad": 0.0, "labelspacing": 0.3}
"""Style of a legend below its picture."""

_FULL_COLOUR, _DARK = 10.0, 0.5
"""Ratio at which a cell of a heat map has the full colour, and depth of colour above which text is white."""

_JCT = "job completion time", "completed jobs"
"""Quantity of a CDF, and what it counts."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a7a7a")
"""Colours that readers with any kind of colour vision tell apart.

Source: Okabe and Ito, Color universal design (2008), without yellow and black, which vanish on a light or a
dark page, and with grey.
"""

_STYLES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (9, 3)), (0, (1, 3)))
"""Styles of lines, for black and white in narrow axes; those of wide axes change when the colours repeat."""

TICKS_S = {
    "1 s": 1,
    "10 s": 10,
    "1 min": 60,
    "10 min": 600,
    "1 h": 3600,
    "1 d": 86_400,
    "10 d": 864_000,
    "100 d": 8_640_000,
    "1000 d": 86_400_000,
}
"""Ticks of logarithmic axes of time, in seconds."""


def completed_jct_s(jobs: pl.DataFrame) -> FloatArray:
    """JCT of the completed jobs of jobs.parquet, ascending, in seconds."""
    completed = jobs.filter(pl.col("status") == "completed")["jct_s"]
    return np.sort(completed.to_numpy().astype(np.float64))


def jct_cdf_png(curves: Mapping[str, FloatArray], title: str) -> bytes:
    """Share of completed jobs by JCT as a PNG, 640 pixels wide, 400 plus the legend's lines high.

    Curves are JCTs by name, (J,), in seconds, ascending; an empty array has no curve.
    """
    picture = io.BytesIO()
    _time_cdf(curves, title, _PNG_IN, *_JCT).savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


class JctCdfPngs:
    """Pictures like those of `jct_cdf_png` with one curve each, for the many runs of a sweep.

    Axes and ticks take most of the time of a picture. This class draws them once for all runs whose times
    lie between the same ticks.
    """

    def __init__(self) -> None:
        self._frames: dict[tuple[float, float], _Frame] = {}

    def draw(self, jct_s: FloatArray, title: str) -> bytes:
        """Draw the PNG of a run; `jct_s` has shape (J,), in seconds, ascending."""
        limits = _ticks_around(jct_s)
        if limits not in self._frames:
            self._frames[limits] = _Frame(limits)
        return self._frames[limits].draw(jct_s, title)


class _Frame:
    """Canvas with empty axes, for a curve and a title."""

    def __init__(self, limits_s: tuple[float, float]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure, self._axes = axes_with_legend(_PNG_IN, " ", [""])
        (self._curve,) = self._axes.step(limits_s, (0, 0), where="post", linewidth=1.5, animated=True)
        _time_axes(self._axes, limits_s, *_JCT)
        self._axes.title.set_animated(True)
        self._canvas = cast("Any", FigureCanvasAgg(figure))  # the methods that copy pixels are not typed
        self._canvas.draw()
        self._empty = self._canvas.copy_from_bbox(figure.bbox)

    def draw(self, jct_s: FloatArray, title: str) -> bytes:
        from matplotlib.image import imsave

        self._canvas.restore_region(self._empty)
        self._axes.title.set_text(literal_text(title))
        self._axes.draw_artist(self._axes.title)
        if len(jct_s):
            self._curve.set_data(*_cdf_points(jct_s))
            self._axes.draw_artist(self._curve)
        picture, pixels = io.BytesIO(), np.asarray(self._canvas.buffer_rgba())
        imsave(picture, pixels, format="png", metadata={"Software": "ray_sim"})
        return picture.getvalue()


def jct_cdf_svg(curves: Mapping[str, FloatArray], name: str) -> str:
    """Share of completed jobs by JCT as an SVG element; `name` is unique among the pictures of its page."""
    return svg_element(_time_cdf(curves, "", SVG_IN, *_JCT), name)


def time_cdf_svg(curves: Mapping[str, FloatArray], quantity: str, counted: str, name: str) -> str:
    """Share of what is counted by a time as an SVG element; times in seconds, ascending, in shape (J,)."""
    return svg_element(_time_cdf(curves, "", SVG_IN, quantity, counted), name)


def size_cdf_svg(curves: Mapping[str, FloatArray], name: str) -> str:
    """Share of jobs by number of GPUs as an SVG element; sizes ascending, in shape (J,), J >= 1."""
    figure, axes = axes_with_legend(SVG_IN, "", list(curves))
    _draw_steps(axes, curves, SVG_IN[0])
    most = math.ceil(math.log2(max(2.0, *(sizes[-1] for sizes in curves.values()))))
    ticks = [2**power for power in range(0, most + 1, 1 + most // 8)]
    axes.set(xscale="log", xlabel="GPUs (at least 1)", ylabel="share of jobs")
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks], fontsize="small")
    axes.set_xticks([], minor=True)
    axes.set(xlim=(0.9, 2**most * 1.1), ylim=(0, 1.02))
    draw_legend(figure, axes)
    return svg_element(figure, name)


def hexagons_svg(x_s: FloatArray, y_s: FloatArray, labels: tuple[str, str], name: str) -> str:
    """Pairs of times counted in hexagons on logarithmic axes, as an SVG element.

    The J >= 1 times are in seconds; one below 1 s is drawn at 1 s. `labels` are those of the axes.
    """
    figure, axes = axes_with_legend(SVG_IN, "", [""])
    times = [np.maximum(each, 1.0) for each in (x_s, y_s)]
    scale: dict[str, Any] = {"xscale": "log", "yscale": "log", "bins": "log", "cmap": "cividis_r"}
    # An extent beyond one point, as all delays may be equal.
    limits = [(0.0, max(1.0, math.log10(each.max()) * 1.02)) for each in times]
    axes.hexbin(*times, gridsize=(36, 20), mincnt=1, extent=(*limits[0], *limits[1]), linewidths=0.1, **scale)
    axes.set_xticks(list(TICKS_S.values()), list(TICKS_S), fontsize="small")
    axes.set_yticks(list(TICKS_S.values()), list(TICKS_S), fontsize="small")
    axes.minorticks_off()
    axes.set_xlim(0.8, 10 ** limits[0][1])
    axes.set_ylim(0.8, 10 ** limits[1][1])
    axes.set_xlabel(f"{labels[0]} (at least 1 s)")
    axes.set_ylabel(f"{labels[1]} (at least 1 s)")
    return svg_element(figure, name)


def lines_svg(lines: Mapping[str, tuple[np.ndarray, FloatArray]], labels: tuple[str, str], name: str) -> str:
    """A line for each name, (x, y), as an SVG element; `labels` are those of the axes."""
    figure, axes = axes_with_legend(SVG_IN, "", list(lines))
    wrapped = _wrapped(list(lines), SVG_IN[0])
    for index, (label, (x, y)) in enumerate(zip(wrapped, lines.values(), strict=True)):
        axes.plot(x, y, label=literal_text(label), color=colour(index), linewidth=1.2)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    draw_legend(figure, axes)
    return svg_element(figure, name)


def heat_map_svg(ratios: Mapping[str, Sequence[float | None]], columns: Sequence[str], name: str) -> str:
    """Ratios of at least 1 as coloured cells with their number, as an SVG element; a null has no cell."""
    import matplotlib as mpl

    left_in, top_in, cell_in = 0.09 * max(map(len, ratios), default=1) + 0.1, 1.9, (0.52, 0.22)
    size_in = left_in + cell_in[0] * len(columns) + 0.1, top_in + cell_in[1] * len(ratios) + 0.1
    figure, axes = _framed(size_in, left_in, 0.1, 0.1, top_in)
    colours, scale = mpl.colormaps["cividis_r"], math.log(_FULL_COLOUR)
    for y, row in enumerate(ratios.values()):
        for x, ratio in enumerate(row):
            if ratio is None:
                continue
            depth = min(math.log(ratio) / scale, 1.0)
            axes.add_patch(mpl.patches.Rectangle((x, y), 1, 1, facecolor=colours(depth), edgecolor="none"))
            ink = "white" if depth > _DARK else "#1c1e21"
            text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" if ratio < 1000 else ">999"
            axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize="x-small", color=ink)
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(ratios), 0)
    axes.set_yticks(np.arange(len(ratios)) + 0.5, [literal_text(label) for label in ratios], fontsize="small")
    axes.xaxis.tick_top()
    places = [literal_text(label) for label in columns]
    axes.set_xticks(np.arange(len(columns)) + 0.5, places, fontsize="small", rotation=60, ha="left")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return svg_element(figure, name)


def thin_steps(time_s: FloatArray, values: FloatArray, points: int) -> np.ndarray:
    """Indices of at most `points` (>= 3) points of a step line that preserve its shape, among them both ends.

    Intervals of time keep their first highest point, and their last point, whose value continues. Half of
    the intervals are equally long and half have equally many points: a line of few hours before a long quiet
    time keeps its shape.
    """
    if len(values) <= points:
        return np.arange(len(values))
    half = (points + 1) // 4
    by_time = np.linspace(time_s[0], time_s[-1], half + 1)[1:-1]
    by_count = time_s[np.linspace(0, len(time_s) - 1, half + 1).astype(np.int64)[1:-1]]
    edges = np.union1d(by_time, by_count)
    stretch = np.searchsorted(edges, time_s, side="right")
    last = np.flatnonzero(np.append(np.diff(stretch) > 0, True))
    by_height = np.lexsort((-values, stretch))
    highest = by_height[np.append(0, last[:-1] + 1)]
    return np.unique(np.concatenate([[0], highest, last]))


def _time_cdf(
    curves: Mapping[str, FloatArray], title: str, size_in: tuple[float, float], quantity: str, counted: str
) -> Figure:
    figure, axes = axes_with_legend(size_in, title, list(curves))
    draw_cdf(axes, curves, quantity, counted, size_in[0])
    draw_legend(figure, axes)
    return figure


def draw_cdf(
    axes: Axes,
    curves: Mapping[str, FloatArray],
    quantity: str = _JCT[0],
    counted: str = _JCT[1],
    width_in: float = SVG_IN[0],
) -> None:
    """Draw the share of jobs by time into axes.

    Curves as in `jct_cdf_png`; `quantity` and `counted` say what the times are, and what the share is of.
    Lines of names break at the width of the figure.
    """
    _draw_steps(axes, curves, width_in)
    axes.set_xscale("log")  # before reading the limits
    _time_axes(axes, axes.get_xlim(), quantity, counted)


def _draw_steps(axes: Axes, curves: Mapping[str, FloatArray], width_in: float) -> None:
    """Draw the share of the values at or below each; values below 1 are drawn at 1."""
    each = 1 if is_narrow(axes) else len(COLOURS)
    for index, (name, values) in enumerate(curves.items()):
        if len(values):
            axes.step(
                *_cdf_points(values),
                where="post",
                label=_wrapped([literal_text(name)], width_in)[0],
                linewidth=1.5,
                color=colour(index),
                linestyle=_STYLES[index // each % len(_STYLES)],
            )


def _time_axes(axes: Axes, limits_s: tuple[float, float], quantity: str, counted: str) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(TICKS_S.values()), list(TICKS_S), fontsize="small")
    axes.set_xticks([], minor=True)
    axes.set_xlim(limits_s)
    axes.set_xlabel(f"{quantity} (at least 1 s)")
    axes.set_ylabel(f"share of {counted}")
    axes.set_ylim(0, 1.02)


def _ticks_around(jct_s: FloatArray) -> tuple[float, float]:
    """The nearest ticks below and above all values; values below 1 s count as 1 s."""
    low, high = (max(1.0, jct_s[0]), max(1.0, jct_s[-1])) if len(jct_s) else (1.0, 1.0)
    ticks = list(TICKS_S.values())
    return max(tick for tick in ticks if tick <= low), min((t for t in ticks if t > high), default=high)


def _cdf_points(jct_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    # Drawn at evenly spaced ranks: 400 steps look like a million.
    ranks = np.unique(np.linspace(1, len(jct_s), min(len(jct_s), _MAX_STEPS)).round().astype(np.int64))
    return np.maximum(jct_s[ranks - 1], 1.0), ranks / len(jct_s)


def axes_with_legend(size_in: tuple[float, float], title: str, labels: Sequence[str]) -> tuple[Figure, Axes]:
    """Axes of a figure with room below for a legend of these labels."""
    width, height = size_in
    lines = sum(label.count("\n") + 1 for label in _wrapped(labels, width))
    legend_in = math.ceil(lines / _legend_columns(labels, width)) * _LINE_IN if len(labels) > 1 else 0.0
    top_in = _TITLE_IN if title else _TOP_IN
    figure, axes = _framed((width, height + legend_in), _LEFT_IN, _RIGHT_IN, _BOTTOM_IN + legend_in, top_in)
    axes.set_title(literal_text(title))
    axes.grid(visible=True, linewidth=0.4, color="black", alpha=0.3)
    return figure, axes


def _framed(
    size_in: tuple[float, float], left_in: float, right_in: float, bottom_in: float, top_in: float
) -> tuple[Figure, Axes]:
    """Axes of a figure with these margins; a fixed frame saves 0.1 s per picture over an automatic layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = size_in
    figure = Figure(figsize=size_in, dpi=100)
    FigureCanvasAgg(figure)
    body = 1 - (left_in + right_in) / width, 1 - (bottom_in + top_in) / height
    return figure, figure.add_axes((left_in / width, bottom_in / height, *body))


def is_narrow(axes: Axes) -> bool:
    """Whether axes are narrow, as in one column of a paper: below 3 inches."""
    return bool(axes.bbox.width < 3.0 * axes.figure.dpi)


def draw_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        columns = _legend_columns(labels, figure.get_figwidth())
        below = axes.get_position().y0 - _BOTTOM_IN / figure.get_figheight()
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, below), "ncols": columns}
        figure.legend(handles, labels, **place, **LEGEND)


def _legend_columns(labels: Sequence[str], width_in: float) -> int:
    longest = max(map(len, labels), default=0)
    return max(1, min(len(labels), int(width_in / (_HANDLE_IN + _CHARACTER_IN * longest))))


def _wrapped(labels: Sequence[str], width_in: float) -> list[str]:
    characters = int((width_in - _HANDLE_IN) / _CHARACTER_IN)
    return [textwrap.fill(label, characters) for label in labels]


def literal_text(text: str) -> str:
    """Escape text: a dollar must not start a formula, a leading underscore must not hide a legend entry."""
    return text.replace("$", r"\$").replace("_", " _", 1 if text.startswith("_") else 0)


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def svg_element(figure: Figure, name: str) -> str:
    """The figure as an element of a page with other figures; it keeps only ids that it refers to."""
    import matplotlib as mpl

    written = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        about = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=about)
    document = written.getvalue()
    element = re.sub(r'<g id="[^"]*"', "<g", document[document.index("<svg") :])
    return element.replace("stroke: #000000", "stroke: currentColor").replace(
        "<svg ", '<svg fill="currentColor" ', 1
    )
