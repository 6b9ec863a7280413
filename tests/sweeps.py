"""Sweep files of the desk, and the runs that sweeps leave in MLflow."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Sweep
from ray_sim.experiments.tracking.experiment import HASH_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

RESAMPLED = {"path": "week.parquet", "resample": "days"}


def sweep_file(directory: Path, name: str, **changes: object) -> Path:
    content = {"workloads": ["week.parquet"], "clusters": ["small.yaml"], "policies": ["fifo", "sjf"]}
    path = directory / "sweep.yaml"
    path.write_text(yaml.safe_dump({"name": name, **content, **changes}, sort_keys=False))
    return path


def run_here(sweep: Sweep, root: Path) -> ResultStore:
    """Results of a sweep whose runs are done in this process, one after the other."""
    store = ResultStore(root)
    with store.writing(sweep.name):
        store.write_plan(sweep.name, [each.entry for each in sweep.configurations], sweep.log)
        for each in sweep.configurations:
            finished = prepare(each.identity.scenario, sweep.inputs).run()
            store.put(each.entry.content_hash, finished.files())
    return store


def logged_experiment(client: MlflowClient, name: str) -> Experiment:
    found = client.get_experiment_by_name(name)
    assert found is not None
    return found


def logged_runs(client: MlflowClient, experiment: str, filter_string: str = "") -> list[Run]:
    """All runs of an experiment of MLflow's."""
    number = logged_experiment(client, experiment).experiment_id
    return list(client.search_runs([number], filter_string))


def children(experiment: str, client: MlflowClient | None = None) -> list[Run]:
    """Those that are results, one of each seed."""
    if client is None:
        from mlflow import MlflowClient  # takes seconds

        client = MlflowClient()
    runs = logged_runs(client, experiment)
    return [run for run in runs if HASH_TAG in run.data.tags]


def prepared_page(tag: str) -> dict[str, object]:
    """State of a page of charts, from its tag of the experiment."""
    content = json.loads(zlib.decompress(base64.b64decode(tag.removeprefix("deflate;"))))
    assert isinstance(content, dict)
    return content
