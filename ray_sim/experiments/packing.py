"""Packing curves of stored runs, as `ray-sim packing` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from ray_sim.experiments.report import require_replaceable_page, write_page
from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.stored_runs import read_run_manifest
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.errors import InvalidInputError
from ray_sim.reports.packing_curve import SHARES, PackingCurve, packing_curve
from ray_sim.reports.page import Page, Picture, Section
from ray_sim.reports.plots import lines_svg

LOADS = (50, 80, 90, 95, 100, 130)
"""Loads of the printed table, in percent."""

_COLUMNS = ("arrived_gpu", "frag_gpu", "used_gpu")


def packing_of(directory: Path, inputs: HashedInputs | None = None) -> PackingCurve:
    """Curve of a stored run from the lines of its timeline at which jobs come.

    Parameters
    ----------
    inputs : shared by runs, so that each cluster file is read once

    Raises
    ------
    InvalidInputError : the run has no fragments, or is no stored run
    """
    result = read_result(directory)
    timeline = result.timeline.filter(pl.col("time_s").is_in(result.jobs["submit_s"].implode()))
    if missing := [name for name in _COLUMNS if name not in timeline.columns]:
        raise InvalidInputError(
            f"{directory}: its timeline has no {missing[0]}; run it with a placement rule that scores "
            "servers, such as -p placement=fgd or best_fit"
        )
    scenario = read_run_manifest(directory).scenario
    cluster = (inputs or HashedInputs()).servers(scenario.cluster, scenario.world)
    capacity = float(cluster.capacity[:, cluster.resources.index("gpu")].sum()) / 1000
    arrived, fragments, used = (timeline[name].to_numpy() for name in _COLUMNS)
    return packing_curve(arrived, used, fragments, capacity - used, capacity)


def write_packing_page(curves: Mapping[str, PackingCurve], out: Path) -> None:
    """Write the curves as one HTML page."""
    require_replaceable_page(out)
    pictures = []
    for name, title in SHARES.items():
        lines = {run: (curve.load, getattr(curve, name)) for run, curve in curves.items()}
        labels = "GPUs asked for, % of all", title
        pictures.append(Picture(lines_svg(lines, labels, name), title))
    write_page(Page("Packing", ", ".join(curves), (Section("Curves", pictures=tuple(pictures)),)), out)
