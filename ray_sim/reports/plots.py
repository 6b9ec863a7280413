"""Pictures of runs, drawn without a display; the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray

_MAX_STEPS = 400
"""Steps drawn per curve; finer ones are below a pixel."""


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
    # A fixed frame and no minor ticks: a tenth of a second less than an automatic layout per picture.
    axes = figure.add_axes((0.11, 0.13, 0.86, 0.79))
    for name, jct_s in curves.items():
        if len(jct_s):
            axes.step(*_cdf_points(jct_s), where="post", label=name, linewidth=1.5)
    axes.set_xscale("log", subs=[])
    axes.set_xlabel("job completion time (s, at least 1)")
    axes.set_ylabel("share of completed jobs")
    axes.set_ylim(0, 1.02)
    axes.set_title(title)
    axes.grid(visible=True, linewidth=0.4)
    if len(curves) > 1 and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _cdf_points(jct_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    # Drawn at evenly spaced ranks: 400 steps look like a million and cost nothing.
    ranks = np.unique(np.linspace(1, len(jct_s), min(len(jct_s), _MAX_STEPS)).round().astype(np.int64))
    return np.maximum(jct_s[ranks - 1], 1.0), ranks / len(jct_s)
