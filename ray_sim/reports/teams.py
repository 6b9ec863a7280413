"""Teams of a run: columns for `ray-sim teams`, teams of jobs for `compare`, and a section of the report."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.teams import OTHERS
from ray_sim.model.units import US_PER_S
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import (
    Cell,
    Chart,
    Line,
    Section,
    Table,
    frame_table,
    line_chart,
    number_cell,
    without_constants,
)

_HOUR_S = 3600
_GPU = "gpu"

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
"""Columns of the table of teams, by title, from those of teams.parquet."""


def team_of(vc: pl.Series, teams: pl.Series) -> pl.Series:
    """Team of each job, by its virtual cluster: the team of that name, else `OTHERS`."""
    named = pl.when(vc.is_in(teams.implode())).then(vc).otherwise(pl.lit(OTHERS))
    return pl.select(team=named)["team"]


def held_by_team(explainer: RunExplainer, vc: pl.Series, teams: pl.Series) -> dict[str, Line]:
    """GPUs that each team holds over time; none for chunked jobs, whose servers tell no GPUs.

    Parameters
    ----------
    vc : virtual cluster of each job
    """
    facts, stays = explainer.facts, explainer.history.holdings
    if _GPU not in facts.resources:
        return {}
    quanta = stays.amounts(facts)[:, [*facts.resources].index(_GPU)]
    of = team_of(vc, teams).to_numpy()[stays.job]
    lines = {name: stays.over_time(np.where(of == name, quanta, 0)) for name in teams.to_list()}
    return {
        name: (time_us / US_PER_S, held / facts.resources[_GPU]) for name, (time_us, held) in lines.items()
    }


def team_section(
    teams: pl.DataFrame, vc: pl.Series, explainer: RunExplainer | None, no_reasons: str
) -> Section:
    """Table of the teams, waste by reason, and GPUs held over time.

    Without an explainer there are no charts; `no_reasons` says why there is none.

    Parameters
    ----------
    teams : columns of `TEAM_SCHEMA`
    vc : virtual cluster of each job
    """
    wasted = {name: json.loads(text or "{}") for name, text in teams["team", "wasted_by_reason"].rows()}
    table = without_constants(frame_table(teams.select(**COLUMNS), {title: title for title in COLUMNS}))
    left_out = (("left out: GPUs held over time", no_reasons),) if explainer is None else ()
    charts = () if explainer is None else _charts(explainer, vc, teams["team"])
    return Section("Teams", left_out, (table, *_waste(wasted)), charts=charts)


def _charts(explainer: RunExplainer, vc: pl.Series, teams: pl.Series) -> tuple[Chart, ...]:
    """GPUs held by each team, and what part of its quota that is, where it has one."""
    held = held_by_team(explainer, vc, teams)
    if not held:
        return ()
    quotas = {name: quota for name, quota in explainer.facts.quotas.items() if quota}
    used = {name: (held[name][0], held[name][1] / quota) for name, quota in quotas.items()}
    shares = line_chart("Use of quotas", "GPUs held / quota; above 1 is borrowed", used)
    return line_chart("GPUs held by teams", "GPUs", held), *([shares] if used else [])


def _waste(wasted: Mapping[str, Mapping[str, float]]) -> tuple[Table, ...]:
    """GPU-hours by reason, a column for each team; no table where nothing is wasted."""
    reasons = sorted({reason for each in wasted.values() for reason in each})
    rows = (
        (Cell(reason), *(number_cell(each.get(reason, 0.0)) for each in wasted.values()))
        for reason in reasons
    )
    return (Table(("wasted GPU-h", *wasted), tuple(rows)),) if reasons else ()
