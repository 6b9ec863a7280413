"""Data of pictures, of results in memory or on disk, and their axes: a new figure, names of lines, units."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ray_sim.experiments.capacity.report import PlanReport
from ray_sim.experiments.compare import labelled_runs
from ray_sim.experiments.results.result_files import MANIFEST, PLAN
from ray_sim.experiments.sweep import SweepReport
from ray_sim.experiments.sweep_results import SweepResults, read_results
from ray_sim.model.arguments import expect
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult, Summary
from ray_sim.model.units import FloatArray
from ray_sim.reports.page import timeline_to_end
from ray_sim.reports.plots import LEGEND, completed_jct_s, is_narrow, literal_text
from ray_sim.reports.sweep_report import PLACE_COLUMNS, PlaceData
from ray_sim.reports.tables import Place, place_title

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


Results = (
    RunResult
    | Mapping[str, RunResult | Sequence[RunResult]]
    | SweepResults
    | SweepReport
    | PlanReport
    | str
    | Path
)
"""Results in memory or on disk; see `ray_sim.plots`."""

_Runs = dict[str, list[RunResult]]

_EXPECTED = "a result, the directory of a run or a sweep, or a mapping {'fifo': a, 'las': b}"

_GAP_IN = 0.05
"""Least distance between names of ticks that are thinned, and of a legend below them."""

LINE = 26
"""Most characters of a line of a name, so that a picture has room beside its names."""


def summaries(results: Results) -> list[tuple[str, Summary]]:
    """Label and summary of each run. Labels are policies, with their place where there are several."""
    found = opened(results)
    if not isinstance(found, SweepResults):
        return [(label, run.summary) for label, runs in found.items() for run in runs]
    several = len({row.place for row in found.rows}) > 1
    return [(_label(row.policy, row.place, several), row.summary) for row in found.rows]


def runs_data(results: Results) -> PlaceData:
    """Jobs, completion times and the first timeline by label, over all seeds."""
    found = opened(results)
    if not isinstance(found, SweepResults):
        return _in_memory(found)
    places = list(found.places())
    jobs: list[pl.DataFrame] = []
    curves: dict[str, FloatArray] = {}
    timelines: dict[str, Mapping[int | None, pl.DataFrame]] = {}
    for place, data in places:
        names = {policy: _label(policy, place, len(places) > 1) for policy in data.jct_s}
        curves |= {names[policy]: jct_s for policy, jct_s in data.jct_s.items()}
        timelines |= {names[policy]: timeline for policy, timeline in data.timelines.items()}
        if data.jobs is not None:
            jobs.append(data.jobs.with_columns(pl.col("policy").replace(names)))
    if not jobs:
        raise InvalidInputError(
            f"{found.directory}: no results are there; a relative path counts from the current directory"
        )
    return PlaceData(curves, pl.concat(jobs), timelines)


def one_run(results: Results) -> RunResult:
    """The only run among the results.

    Raises
    ------
    InvalidInputError : there are several
    """
    found = opened(results)
    runs = [] if isinstance(found, SweepResults) else [run for each in found.values() for run in each]
    if len(runs) != 1:
        raise InvalidInputError(
            "expected one run: what `simulate` returned, the directory of a run, or "
            "`load(sweep).result(policy, seed)`"
        )
    return runs[0]


def opened(results: Results) -> SweepResults | _Runs:
    """The results of a sweep, or those in memory and of single runs by label."""
    if isinstance(results, SweepReport | PlanReport):
        results = results.directory
    if isinstance(results, str | Path):
        read = read_results(Path(results))
        if read is None:
            expected = f"neither a run ({MANIFEST}) nor a sweep ({PLAN})"
            raise InvalidInputError(f"{results}: holds {expected}; name a directory of results")
        results = read
    if isinstance(results, SweepResults):
        if not results.finished:
            raise InvalidInputError(
                f"{results.directory}: no run has finished; run the sweep with resume=True"
            )
        return results
    if isinstance(results, RunResult):
        return {"run": [results]}
    expect("results", results, Mapping, _EXPECTED)
    runs = labelled_runs(results)
    if not runs or not all(runs.values()):
        raise InvalidInputError("expected at least one result for each label, found none")
    return runs


def _label(policy: str, place: Place, several: bool) -> str:
    return f"{policy} ({place_title(place)})" if several else policy


def _in_memory(runs: _Runs) -> PlaceData:
    timelines: dict[str, Mapping[int | None, pl.DataFrame]] = {
        label: {None: timeline_to_end(each[0].timeline, each[0].jobs)} for label, each in runs.items()
    }
    jobs = [
        run.jobs.select(PLACE_COLUMNS).with_columns(policy=pl.lit(label))
        for label, each in runs.items()
        for run in each
    ]
    curves = {
        label: np.sort(np.concatenate([completed_jct_s(run.jobs) for run in each]))
        for label, each in runs.items()
    }
    return PlaceData(curves, pl.concat(jobs), timelines)


def axes_of(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    if ax is not None:
        expect("ax", ax, Axes, "the axes of one picture, such as `pyplot.subplots()[1]`")
        return ax

    return pyplot.subplots(layout="constrained")[1]


def draw_names(ax: Axes, handles: Sequence[Artist] | None = None) -> None:
    """Draw a legend of several handles, by default those of the axes, beside these or below narrow ones."""
    found = ax.get_legend_handles_labels()[0] if handles is None else handles
    if len(found) < 2:
        return
    names = [textwrap.fill(str(each.get_label()), LINE) for each in found]
    if not is_narrow(ax):
        ax.legend(found, names, loc="upper left", bbox_to_anchor=(1.02, 1), **LEGEND)
        return
    from matplotlib.transforms import ScaledTranslation

    labels = ax.xaxis.get_tightbbox()
    under_in = 0.0 if labels is None else (labels.y0 - ax.bbox.y0) / ax.figure.dpi
    under = ax.transAxes + ScaledTranslation(0, under_in - _GAP_IN, ax.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": under}
    for columns in range(len(found), 0, -1):
        legend = ax.legend(found, names, ncols=columns, handlelength=2.8, **place, **LEGEND)
        if legend.get_window_extent().width <= ax.bbox.width:
            return


def thin_ticks(ax: Axes) -> None:
    """Keep every second tick of the x axis, or every third and so on, where names would overlap."""
    places, names = ax.get_xticks(), [label.get_text() for label in ax.get_xticklabels()]
    step = 1
    while _names_overlap(ax, _GAP_IN):
        step += 1
        ax.set_xticks(places[::step], names[::step], fontsize="small")


def name_places(ax: Axes, names: Sequence[str]) -> None:
    """Name 0, 1 and so on of the x axis; upright where level names would overlap."""
    folded = [textwrap.fill(literal_text(name), LINE) for name in names]
    ax.set_xticks(range(len(names)), folded, fontsize="small")
    ax.set_xlim(-0.5, len(names) - 0.5)
    if _names_overlap(ax):
        ax.tick_params("x", rotation=90)


def _names_overlap(ax: Axes, gap_in: float = 0.0) -> bool:
    """Whether names of ticks of the x axis that are in view overlap, or are closer than a gap."""
    figure, (low, high) = ax.get_figure(root=True), ax.get_xlim()
    assert figure is not None, "the axes of a picture"
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high]
    return any(one.padded(gap_in * figure.dpi).overlaps(other) for one, other in pairwise(boxes))
