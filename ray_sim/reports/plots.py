"""Pictures of runs, drawn without a display; the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray

_MAX_STEPS = 400
"""Steps drawn per curve; finer ones are below a pixel."""

_TICKS_S = {
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


def completed_jct_s(jobs: pl.DataFrame) -> FloatArray:
    """JCT of the completed jobs of jobs.parquet, ascending, in seconds."""
    completed = jobs.filter(pl.col("status") == "completed")["jct_s"]
    return np.sort(completed.to_numpy().astype(np.float64))


def jct_cdf_png(curves: Mapping[str, FloatArray], title: str) -> bytes:
    """Share of completed jobs by JCT, one curve per name, as a PNG of 640 x 400 pixels.

    Parameters
    ----------
    curves : name to shape (J,) JCTs in seconds, ascending; an empty one gets no curve
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), dpi=100)
    FigureCanvasAgg(figure)
    # Fixed frame and ticks: a sweep draws hundreds of these, and finding a layout takes far longer.
    axes = figure.add_axes((0.11, 0.13, 0.86, 0.79))
    for name, jct_s in curves.items():
        if len(jct_s):
            axes.step(*_cdf_points(jct_s), where="post", label=name, linewidth=1.5)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(list(_TICKS_S.values()), list(_TICKS_S))
    axes.set_xlim(*_range_s(curves.values()))
    axes.set_xlabel("job completion time (shorter ones drawn at 1 s)")
    axes.set_ylabel("share of completed jobs")
    axes.set_ylim(0, 1.02)
    axes.set_title(title, y=1.01)
    axes.grid(visible=True, linewidth=0.4)
    if len(curves) > 1 and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _range_s(curves: Iterable[FloatArray]) -> tuple[float, float]:
    """The ticks around all values."""
    ends = [max(float(jct_s[end]), 1.0) for jct_s in curves if len(jct_s) for end in (0, -1)] or [1.0]
    ticks = list(_TICKS_S.values())
    low = max(tick for tick in ticks if tick <= min(ends))
    above = (tick for tick in ticks if tick > max(ends))
    return low, next(above, max(ends))


def _cdf_points(jct_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    # Drawn at evenly spaced ranks: 400 steps look like a million and cost nothing.
    ranks = np.unique(np.linspace(1, len(jct_s), min(len(jct_s), _MAX_STEPS)).round().astype(np.int64))
    return np.maximum(jct_s[ranks - 1], 1.0), ranks / len(jct_s)
