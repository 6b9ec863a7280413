"""Parameters and metrics of a run in MLflow's form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ray_sim.experiments.figures.cells import flat_entries
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.tracking.views import TIME_CHARTS
from ray_sim.model.result import JobStatus
from ray_sim.model.text import without_secrets
from workloads.sources import is_url

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Param

TIMELINE = "timeline."
"""Begin of the names of metrics over simulated time."""

MAX_TIMELINE_POINTS = 100
"""Largest number of points of a run over all series without a chart; the whole timeline is an artifact."""

MAX_CHART_POINTS = 66
"""Largest number of points of each of the three series of `TIME_CHARTS`, so that these have at most 200."""

_MOST_PARAM = 500
"""Characters of a parameter, or of the name of a dataset, that every version of MLflow takes."""

_MOST_DIGEST = 36
"""Characters of the digest of a dataset that MLflow takes."""

_PROFILE_DIGESTS = ("training_sha256", "announcement_sha256", "layers_sha256")
"""Inputs of a manifest of which at most one is there: the digest of what columns or jobs are drawn from."""


def run_params(manifest: Mapping[str, object], entry: Entry | None) -> list[Param]:
    """Parameters of a run from its manifest; labels come from the entry, if given."""
    from mlflow.entities import Param

    inputs = manifest["inputs"]
    assert isinstance(inputs, dict)
    label = entry.labelled and entry.policy if entry else manifest.get("label")
    values: dict[str, object] = {
        "policy": manifest["policy"],
        **({"label": label} if label else {}),
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


def timeline_metrics(timeline: pl.DataFrame, jobs: pl.DataFrame) -> list[Metric]:
    """Points of a run over simulated time; steps are minutes.

    At most `MAX_CHART_POINTS` points of each series of `TIME_CHARTS`, which include the number of completed
    jobs, and at most `MAX_TIMELINE_POINTS` of all other columns together. Few long jobs may go on for ten
    times as long as all others, so series end when 95 % of the completed jobs have ended.
    """
    ends_s = np.sort(jobs.filter(pl.col("status") == JobStatus.COMPLETED)["finish_s"].to_numpy())
    if len(ends_s):
        timeline = timeline.filter(pl.col("time_s") <= np.quantile(ends_s, 0.95, method="higher"))
    charted = [name for name in timeline.columns if f"{TIMELINE}{name}" in TIME_CHARTS]
    points = thin_timeline(timeline.select("time_s", *charted), MAX_CHART_POINTS)
    completed = np.searchsorted(ends_s, points["time_s"].to_numpy(), side="right")
    others = timeline.drop(charted).with_columns(pl.all().forward_fill())  # an estimate holds until the next
    thinned = thin_timeline(others, MAX_TIMELINE_POINTS // max(1, others.width - 1))
    return [*_series_metrics(points.with_columns(completed=pl.Series(completed))), *_series_metrics(thinned)]


def _series_metrics(points: pl.DataFrame) -> list[Metric]:
    """Metrics named `TIMELINE` and the column, of all columns but `time_s`; a null has no point.

    Births of announced jobs may be before the trace's zero. MLflow takes no negative times, so times count
    from the first point then.
    """
    from mlflow.entities import Metric

    zero_s = min(0.0, points["time_s"].min() or 0.0) if points.height else 0.0
    return [
        Metric(
            f"{TIMELINE}{column}",
            float(row[column]),
            timestamp=round((row["time_s"] - zero_s) * 1000),
            step=round((row["time_s"] - zero_s) / 60),
        )
        for row in points.iter_rows(named=True)
        for column in points.columns
        if column != "time_s" and row[column] is not None
    ]


def line_metrics(axis: str, points: Mapping[float, Mapping[str, float]]) -> list[Metric]:
    """Points of a line over an axis of numbers.

    Parameters
    ----------
    axis : name of the metric with the values of the axis
    points : metrics by value of the axis; the n-th value has step n, which joins the metrics of a point
    """
    from mlflow.entities import Metric

    return [
        Metric(name, value, timestamp=step, step=step)
        for step, (x, metrics) in enumerate(points.items())
        for name, value in {axis: x, **metrics}.items()
    ]


def input_datasets(workload: str, manifest: Mapping[str, object]) -> list[DatasetInput]:
    """Workload, drawn profiles and cluster of a run as datasets of MLflow, without their data."""
    inputs = manifest["inputs"]
    assert isinstance(inputs, dict)
    spec = inputs["workload"]
    synth = spec.get("synth", {})
    file = spec.get("path") or synth.get("like")
    profiles = next((inputs[key] for key in _PROFILE_DIGESTS if inputs.get(key)), None)
    found = [_dataset("workload", workload, spec, inputs.get("workload_sha256"), file)]
    if profiles is not None:
        found.append(_dataset("profile", f"profile of {workload}", spec.get("enrich", synth), profiles))
    return [*found, _dataset("cluster", inputs["cluster"], inputs["cluster"], inputs["cluster_sha256"])]


def _dataset(context: str, name: str, facts: object, sha256: object, file: str | None = None) -> DatasetInput:
    """A dataset of MLflow.

    Parameters
    ----------
    facts : of the input, as JSON
    sha256 : of the content, as text or a list of these; None: the digest is that of the facts
    file : path or URL of the content, if it is a file
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    described = json.dumps(sha256 or facts, sort_keys=True).encode()
    known = sha256 if isinstance(sha256, str) else hashlib.sha256(described).hexdigest()
    source, kind = {"sha256": known}, "ray_sim"
    if file is not None:
        source["uri"] = without_secrets(file)
        kind = file.partition("://")[0].replace("https", "http") if is_url(file) else "local"
    dataset = Dataset(
        name=name[:_MOST_PARAM],
        digest=known[:_MOST_DIGEST],
        source_type=kind,
        source=json.dumps(source),
        profile=without_secrets(json.dumps(facts, sort_keys=True)),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


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

    plan = facts["plan"]
    assert isinstance(plan, dict)
    found = [pair for key, part in plan.items() for pair in flat_entries(key, part).items()]
    return [Param(key, str(value)[:_MOST_PARAM]) for key, value in found if value is not None]


def thin_timeline(timeline: pl.DataFrame, points: int) -> pl.DataFrame:
    """At most `points` rows, evenly spaced in time, each with the values that hold at its `time_s`."""
    if timeline.height <= points:
        return timeline
    times = np.linspace(timeline["time_s"][0], timeline["time_s"][-1], points)
    rows = np.searchsorted(timeline["time_s"].to_numpy(), times, side="right") - 1
    return timeline[rows].with_columns(time_s=times)
