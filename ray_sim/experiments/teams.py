"""Teams of a stored run, for `ray-sim teams`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ray_sim.experiments.results.result_files import read_result
from ray_sim.model.errors import InvalidInputError

_HOUR_S = 3600

COLUMNS: dict[str, pl.Expr] = {
    "team": pl.col("team"),
    "jobs": pl.col("jobs"),
    "completed": pl.col("completed"),
    "mean wait, h": pl.col("wait_s_mean") / _HOUR_S,
    "p95 wait, h": pl.col("wait_s_p95") / _HOUR_S,
    "within SLO": pl.col("within_slo"),
    "held, GPU-h": pl.col("held_gpu_h"),
    "of quota": pl.col("use"),
    "borrowed, GPU-h": pl.col("borrowed_gpu_h"),
    "unmet, GPU-h": pl.col("unmet_gpu_h"),
    "suffered": pl.col("suffered"),
    "caused": pl.col("caused"),
    "wasted, GPU-h": pl.col("wasted_gpu_h"),
    "mean rho": pl.col("rho_mean"),
}
"""Columns of the printed table, by title."""


def read_teams(run: Path) -> pl.DataFrame:
    """teams.parquet of a run.

    Raises
    ------
    InvalidInputError : no run, a damaged one, or one on a cluster without teams
    """
    table = read_result(run).teams
    if table is None:
        raise InvalidInputError(f"{run}: its cluster has no teams; declare some in the cluster file")
    return table
