"""Parameters and metrics of a run in MLflow's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ray_sim.experiments.sweep_file import Entry

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param

MAX_TIMELINE_POINTS = 100
"""Largest number of points of a run over all series; the whole timeline is an artifact."""


_MOST_PARAM = 500
"""Characters of a parameter that every version of MLflow takes."""


def run_params(manifest: Mapping[str, object], entry: Entry | None) -> list[Param]:
    """Parameters of a run from its manifest; the workload's label comes from the entry, if given."""
    from mlflow.entities import Param

    inputs = manifest["inputs"]
    assert isinstance(inputs, dict)
    values: dict[str, object] = {
        "policy": manifest["policy"],
        "workload": entry.workload if entry else inputs["workload"],
        "cluster": inputs["cluster"],
        "partition": manifest["partition"],
        "seed": "none" if manifest["seed"] is None else manifest["seed"],
        "hash": manifest["content_hash"],
    }
    for group in ("parameters", "world", "trim"):
        chosen = manifest[group] or {}
        assert isinstance(chosen, dict)
        values |= {f"{group}.{key}": value for key, value in chosen.items()}
    return [Param(key, str(value)) for key, value in values.items()]


def final_metrics(flat: Mapping[str, float], timestamp_ms: int = 0) -> list[Metric]:
    """Metrics of a summary at one instant; MLflow shows the latest value of each."""
    from mlflow.entities import Metric

    return [Metric(key, value, timestamp=timestamp_ms, step=0) for key, value in flat.items()]


def timeline_metrics(timeline: pl.DataFrame) -> list[Metric]:
    """At most `MAX_TIMELINE_POINTS` points of all columns together.

    Births of announced jobs may be before the trace's zero. MLflow takes no negative times, so times count
    from the first point then.
    """
    from mlflow.entities import Metric

    series = [column for column in timeline.columns if column != "time_s"]
    # A policy's estimate holds until it reports another.
    points = thin_timeline(
        timeline.with_columns(pl.all().forward_fill()), MAX_TIMELINE_POINTS // max(1, len(series))
    )
    zero_s = min(0.0, points["time_s"].min() or 0.0) if points.height else 0.0
    return [
        Metric(
            f"timeline.{column}",
            float(row[column]),
            timestamp=round((row["time_s"] - zero_s) * 1000),
            step=round(row["time_s"] - zero_s),
        )
        for row in points.iter_rows(named=True)
        for column in series
        if row[column] is not None
    ]


def curve_metrics(curves: pl.DataFrame) -> list[Metric]:
    """Points of the curves of a training, by round; a round without a figure has no point."""
    from mlflow.entities import Metric

    names = [name for name in curves.columns if name not in ("round", "phase")]
    return [
        Metric(name, float(row[name]), timestamp=row["round"], step=row["round"])
        for row in curves.iter_rows(named=True)
        for name in names
        if row[name] is not None
    ]


def training_params(facts: Mapping[str, object]) -> list[Param]:
    """Parameters of a training: the entries of its plan, by dotted key."""
    from mlflow.entities import Param

    found: dict[str, object] = {}

    def add(prefix: str, content: object) -> None:
        if isinstance(content, dict):
            for key, value in content.items():
                add(f"{prefix}.{key}" if prefix else str(key), value)
        elif content is not None:
            found[prefix] = content

    add("", facts["plan"])
    return [Param(key, str(value)[:_MOST_PARAM]) for key, value in found.items()]


def thin_timeline(timeline: pl.DataFrame, points: int) -> pl.DataFrame:
    """At most `points` rows, evenly spaced in time, each with the values that hold at its `time_s`."""
    if timeline.height <= points:
        return timeline
    times = np.linspace(timeline["time_s"][0], timeline["time_s"][-1], points)
    rows = np.searchsorted(timeline["time_s"].to_numpy(), times, side="right") - 1
    return timeline[rows].with_columns(time_s=times)
