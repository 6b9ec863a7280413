"""Stored results in MLflow: a parent run per sweep, a child per configuration, nothing twice."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ray_sim.experiments.mlflow_template import new_database
from ray_sim.experiments.result_files import check_result, read_jobs, read_manifest, read_summary
from ray_sim.experiments.store import Outcome, ResultStore
from ray_sim.experiments.sweep_file import Detail, Entry
from ray_sim.model.errors import RunFailedError
from ray_sim.reports.plots import JctCdfPngs, completed_jct_s, jct_cdf_png
from ray_sim.reports.tables import place_title, sweep_table

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunInfo

HASH_TAG = "ray_sim.hash"
SWEEP_TAG = "ray_sim.sweep"
_ERROR_TAG = "ray_sim.error"
_LOST_TAG = "ray_sim.lost_attempts"
_DIRECTORY_TAG = "ray_sim.directory"
_PARENT_TAG = "mlflow.parentRunId"

MAX_TIMELINE_POINTS = 100
"""Of a run, all its series together; the whole timeline is an artifact."""

_PATIENCE = {
    # Read when MLflow is first imported, which is why it is imported here and nowhere else.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # Read with every request: a server that does not answer is given up after some 10 s, not 4 min.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""Settings of MLflow's, unless the user has made others."""

_MAX_TEXT = 4000
"""Characters of an error in a tag."""


@dataclass(frozen=True, slots=True)
class Logged:
    """What was logged, and where."""

    tracking_uri: str
    experiment: str
    created: int
    present: int
    """Runs that were there from an earlier call."""
    damaged: tuple[str, ...] = ()
    """What is wrong with results that could not be logged."""

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return asdict(self)


def log_sweep(
    name: str,
    store: ResultStore,
    entries: Sequence[Entry],
    outcomes: Iterable[Outcome],
    detail: Detail = "full",
) -> Logged:
    """Log the outcomes of a sweep as they come: a parent run, and a child for each.

    Parameters
    ----------
    entries : the whole sweep; those with a result among the outcomes make the parent's table and pictures
    detail : ``numbers`` leaves out timelines, files and pictures, which take most of the time

    Raises
    ------
    RunFailedError : the tracking store cannot be used
    """
    tracker = _Tracker(name, store.root)
    done = set()
    with tracker.errors_named():
        parent, is_new = tracker.parent(name)
        for outcome in outcomes:
            tracker.log_outcome(outcome, store, parent, detail)
            if outcome.error is None:
                done.add(outcome.entry.content_hash)
        if is_new or tracker.created:
            finished = [entry for entry in entries if entry.content_hash in done]
            tracker.log_table(parent, store, finished)
            if detail == "full":
                tracker.log_curves(parent, store, finished)
            tracker.end(parent, whole=len(finished) == len(entries))
    return tracker.logged()


def log_store(directory: Path) -> Logged:
    """Log what the store of a sweep has, apart from damaged results; see `log_sweep`."""
    store = ResultStore(directory)
    name, entries = store.read_plan()
    with store.writing(name):
        damaged = store.damaged(entries)
        left_out = {outcome.entry.content_hash for outcome in damaged}
        outcomes = [each for each in store.outcomes(entries) if each.entry.content_hash not in left_out]
        logged = log_sweep(name, store, entries, outcomes, store.read_detail())
    return replace(logged, damaged=tuple(str(outcome.error) for outcome in damaged))


def log_run(directory: Path) -> Logged:
    """Log a single result directory, in the experiment `ray_sim`; see `log_sweep`."""
    check_result(directory)
    tracker = _Tracker("ray_sim", directory.absolute().parent)
    with tracker.errors_named():
        tracker.log_run(directory)
    return tracker.logged()


class _Tracker:
    """The runs of one MLflow experiment, by content hash."""

    def __init__(self, experiment: str, directory: Path) -> None:
        """Connect to MLFLOW_TRACKING_URI, else to ``mlflow.db`` in the directory."""
        self._uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{directory / 'mlflow.db'}"
        self._experiment = experiment
        for setting, value in _PATIENCE.items():
            os.environ.setdefault(setting, value)
        with self.errors_named():
            from mlflow import MlflowClient

            if (database := _sqlite_file(self._uri)) is not None:
                new_database(database, schema_revision(), migrate)
            self._client = MlflowClient(tracking_uri=self._uri)
            self._experiment_id = _experiment_id(self._client, experiment, directory)
        self._by_hash: dict[str, RunInfo] = {}
        self._by_sweep: dict[str, RunInfo] = {}
        with self.errors_named():
            self._look_up()
        self._pictures = JctCdfPngs()
        self.created = 0
        self._present = 0

    def _look_up(self) -> None:
        """Find what the experiment has, a page at a time: the numbers of all its runs may be many."""
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], max_results=1000, page_token=token)
            for run in page:
                tags = run.data.tags
                if HASH_TAG in tags:
                    self._by_hash[tags[HASH_TAG]] = run.info
                if SWEEP_TAG in tags:
                    self._by_sweep[tags[SWEEP_TAG]] = run.info
            token = page.token
            if not token:
                return

    def logged(self) -> Logged:
        """The account so far."""
        return Logged(self._uri, self._experiment, self.created, self._present)

    def parent(self, name: str) -> tuple[str, bool]:
        """MLflow run id of the sweep of this name, and whether it is new or was left unfinished."""
        known = self._by_sweep.get(name)
        if known is None:
            tags = {SWEEP_TAG: name}
            known = self._client.create_run(self._experiment_id, tags=tags, run_name=name).info
        return str(known.run_id), known.status != "FINISHED"

    def log_outcome(self, outcome: Outcome, store: ResultStore, parent: str, detail: Detail) -> None:
        """Log how a configuration ended, unless that is logged already."""
        entry = outcome.entry
        if outcome.error is not None:
            self._log_failure(entry, outcome.error, parent)
        else:
            tags = {_LOST_TAG: "\n".join(outcome.lost)[:_MAX_TEXT]} if outcome.lost else {}
            directory = store.run_directory(entry.content_hash)
            self.log_run(directory, entry, {_PARENT_TAG: parent} | tags, detail)

    def log_run(
        self,
        directory: Path,
        entry: Entry | None = None,
        tags: Mapping[str, str] | None = None,
        detail: Detail = "full",
    ) -> None:
        """Log a result directory, unless its hash is logged already.

        Parameters
        ----------
        entry : gives the workload the label it has in the sweep's tables
        """
        manifest = read_manifest(directory)
        name = _run_name(manifest)
        located = {_DIRECTORY_TAG: str(directory.absolute()), **(tags or {})}
        run_id = self._begin(str(manifest["content_hash"]), name, "FINISHED", located)
        if run_id is None:
            return
        metrics = _final(read_summary(directory).flat())
        if detail == "full":
            metrics += timeline_metrics(pl.read_parquet(directory / "timeline.parquet"))
        self._client.log_batch(run_id, metrics=metrics, params=_params(manifest, entry))
        if detail == "full":
            self._client.log_artifacts(run_id, str(directory))
            jct_s = completed_jct_s(read_jobs(directory))
            self._log_bytes(run_id, "jct_cdf.png", self._pictures.draw(jct_s, f"JCT, {name}"))
        self._client.set_terminated(run_id, "FINISHED")

    def _log_failure(self, entry: Entry, error: str, parent: str) -> None:
        tags = {_PARENT_TAG: parent, _ERROR_TAG: error[:_MAX_TEXT]}
        run_id = self._begin(entry.content_hash, entry.policy, "FAILED", tags)
        if run_id is not None:
            self._client.set_terminated(run_id, "FAILED")

    def log_table(self, parent: str, store: ResultStore, entries: Sequence[Entry]) -> None:
        """Give the parent the table of means over seeds."""
        self._client.log_text(parent, sweep_table(store.rows(entries)).write_csv(), "comparison.csv")

    def log_curves(self, parent: str, store: ResultStore, entries: Sequence[Entry]) -> None:
        """Give the parent a picture per place, with a curve per policy."""
        for index, (place, curves) in enumerate(store.jct_curves(entries)):
            self._log_bytes(parent, f"jct_cdf_{index}.png", jct_cdf_png(curves, place_title(place)))

    def end(self, parent: str, whole: bool) -> None:
        """End the parent, as finished if the sweep is `whole`."""
        self._client.set_terminated(parent, "FINISHED" if whole else "FAILED")

    def _begin(self, content_hash: str, name: str, status: str, tags: Mapping[str, str]) -> str | None:
        """Open a run; None where one with this hash has ended with this status before."""
        known = self._by_hash.get(content_hash)
        if known is not None and known.status == status:
            self._present += 1
            return None
        if known is not None:  # cut off while it was logged, or it failed then and is finished now
            self._client.delete_run(known.run_id)
        hashed = {HASH_TAG: content_hash, **tags}
        run = self._client.create_run(self._experiment_id, tags=hashed, run_name=name)
        self.created += 1
        return str(run.info.run_id)

    def _log_bytes(self, run_id: str, name: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / name).write_bytes(content)
            self._client.log_artifact(run_id, str(Path(directory) / name))

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """MLflow's and its database's errors as one of ours."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RunFailedError(
                f"MLflow store {self._uri}: {reason}; the results are kept, log them later with `ray-sim log`"
            ) from error


def _sqlite_file(uri: str) -> Path | None:
    """The file of a plain SQLite URI."""
    path = uri.removeprefix("sqlite:///")
    return Path(path) if path not in (uri, "", ":memory:") and "?" not in path else None


def schema_revision() -> str | None:
    """The schema that this version of MLflow wants."""
    from alembic.script import ScriptDirectory
    from mlflow.store import db_migrations

    return ScriptDirectory(str(Path(db_migrations.__file__).parent)).get_current_head()


def migrate(database: Path) -> None:
    """Make a new store as MLflow does, by all its migrations."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{database}").search_experiments(max_results=1)


def _experiment_id(client: MlflowClient, name: str, directory: Path) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        return str(experiment.experiment_id)
    ours = "MLFLOW_TRACKING_URI" not in os.environ
    location = (directory.absolute() / "mlartifacts").as_uri() if ours else None
    return str(client.create_experiment(name, artifact_location=location))


def _run_name(manifest: Mapping[str, object]) -> str:
    seed = "" if manifest["seed"] is None else f" seed {manifest['seed']}"
    return f"{manifest['policy']}{seed}"


def _params(manifest: Mapping[str, object], entry: Entry | None) -> list[Param]:
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


def _final(flat: Mapping[str, float]) -> list[Metric]:
    from mlflow.entities import Metric

    return [Metric(key, value, timestamp=0, step=0) for key, value in flat.items()]


def timeline_metrics(timeline: pl.DataFrame) -> list[Metric]:
    """At most `MAX_TIMELINE_POINTS` points of all columns together."""
    from mlflow.entities import Metric

    series = [column for column in timeline.columns if column != "time_s"]
    # What was told at an instant is believed until something else is told.
    points = thin_timeline(
        timeline.with_columns(pl.all().forward_fill()), MAX_TIMELINE_POINTS // max(1, len(series))
    )
    return [
        Metric(
            f"timeline.{column}",
            float(row[column]),
            timestamp=round(row["time_s"] * 1000),
            step=round(row["time_s"]),
        )
        for row in points.iter_rows(named=True)
        for column in series
        if row[column] is not None
    ]


def thin_timeline(timeline: pl.DataFrame, points: int) -> pl.DataFrame:
    """At most so many rows, evenly spaced in time, each with the values that hold at its `time_s`."""
    if timeline.height <= points:
        return timeline
    times = np.linspace(timeline["time_s"][0], timeline["time_s"][-1], points)
    rows = np.searchsorted(timeline["time_s"].to_numpy(), times, side="right") - 1
    return timeline[rows].with_columns(time_s=times)
