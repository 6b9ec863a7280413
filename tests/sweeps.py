"""Sweep files of the desk, and the runs that sweeps leave in MLflow."""

from __future__ import annotations

from pathlib import Path

import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from ray_sim.experiments.tracking.experiment import HASH_TAG

RESAMPLED = {"path": "week.parquet", "resample": "days"}


def sweep_file(directory: Path, name: str, **changes: object) -> Path:
    content = {"workloads": ["week.parquet"], "clusters": ["small.yaml"], "policies": ["fifo", "sjf"]}
    path = directory / "sweep.yaml"
    path.write_text(yaml.safe_dump({"name": name, **content, **changes}, sort_keys=False))
    return path


def children(experiment: str, client: MlflowClient | None = None) -> list[Run]:
    client = client or MlflowClient()
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    return [run for run in client.search_runs([found.experiment_id]) if HASH_TAG in run.data.tags]
