"""The runs of one MLflow experiment, each there once however often it is logged."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ray_sim.experiments.tracking.database import (
    ARTIFACTS,
    migrate,
    new_database,
    relocate,
    schema_revision,
    sqlite_file,
    write_without_waiting,
)
from ray_sim.experiments.tracking.views import CONFIGURATION_TAG, LINE_TAG, VIEW_TAG, charts_path
from ray_sim.model.errors import RunFailedError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, RunInfo

HASH_TAG = "ray_sim.hash"
SCENARIO_TAG = "ray_sim.scenario_hash"
SWEEP_TAG = "ray_sim.sweep"
SWEEP_RUN_TAG = "ray_sim.sweep_run"
"""Tag of a sweep's runs: the id of the run that has `SWEEP_TAG`."""
NOTE_TAG = "mlflow.note.content"
"""Tag of an experiment that MLflow shows as its description, in Markdown."""
_NOTE_DIGEST_TAG = "ray_sim.note_sha256"
"""Tag of an experiment: digest of the last description that ray_sim wrote."""
PARENT_TAG = "mlflow.parentRunId"
DIRECTORY_TAG = "ray_sim.directory"

MOST_AT_ONCE = 1000
"""Metrics or datasets that MLflow takes with one call."""

_HOST, _PORT = "127.0.0.1", 5000
"""Address of the MLflow server that the printed command starts."""
_PATIENCE = {
    # MLflow reads this when it is first imported, so a tracker sets it first.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # MLflow reads these with every request: it gives up a silent server after some 10 s, not 4 min.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""Default settings of MLflow; the user's own settings override them."""


@dataclass(frozen=True, slots=True)
class Logged:
    """Counts and place of the logged runs."""

    tracking_uri: str
    experiment: str
    created: int
    present: int
    """Number of runs that an earlier call logged."""
    dropped: int = 0
    """Number of runs that the sweep no longer has; `prune` removes them."""
    damaged: tuple[str, ...] = ()
    """Problems of results that could not be logged."""
    other_versions: tuple[str, ...] = ()
    """Packages, and our code, of which logged results have other versions than runs would have now."""
    charts: str = ""
    """Address of the prepared page of charts."""
    serve: str | None = None
    """Command that starts a server at that address; None if the runs are on a server already."""
    moved_from: str | None = None
    """Earlier location of the files, which the database now has where its folder is; None if it was right."""

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return asdict(self)


class MlflowExperiment:
    """The runs of one experiment by content hash, and a client to add to them.

    `tracking.log` logs runs, sweeps and trainings with it. Call `client` in a block of `errors_named` only.

    Attributes
    ----------
    client, experiment_id : of MLflow
    by_sweep, by_configuration, by_line : runs of sweeps by name, of configurations by label, of lines over an
        axis by name
    of_sweep : runs by content hash, by the MLflow run id of their sweep
    of_scenario : content hashes by the MLflow run id of a sweep and the hash of a scenario
    tags : tags by MLflow run id
    created, dropped : counts of this call, for `logged`
    """

    def __init__(self, experiment: str, directory: Path) -> None:
        """Connect to MLFLOW_TRACKING_URI, else to ``mlflow.db`` in the directory."""
        self._uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{directory / 'mlflow.db'}"
        self._experiment = experiment
        for setting, value in _PATIENCE.items():
            os.environ.setdefault(setting, value)
        with self.errors_named():
            from mlflow import MlflowClient

            # It shows the traceback of an error that `errors_named` tells in a line.
            logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
            if (database := sqlite_file(self._uri)) is not None:
                if database.exists() and not database.is_file():  # MLflow would try for two minutes
                    raise OSError(f"{database} is not a file")
                new_database(database, schema_revision(), migrate)
                if "MLFLOW_TRACKING_URI" not in os.environ:
                    write_without_waiting(database)
            self.client = MlflowClient(tracking_uri=self._uri)
            self.experiment_id = _experiment_id(self.client, experiment, directory)
            self._moved_from = None if database is None else relocate(database, self.experiment_id)
        self._by_hash: dict[str, RunInfo] = {}
        self.by_configuration: dict[str, RunInfo] = {}
        self.by_line: dict[str, RunInfo] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.of_sweep: dict[str, dict[str, RunInfo]] = {}
        self.of_scenario: dict[tuple[str, str], set[str]] = {}
        self.by_sweep: dict[str, RunInfo] = {}
        with self.errors_named():
            self._look_up()
        self.created = 0
        self.dropped = 0
        self._present = 0

    def _look_up(self) -> None:
        """Read the runs of the experiment page by page, to bound memory."""
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], max_results=1000, page_token=token)
            for run in page:
                tags = self.tags[run.info.run_id] = run.data.tags
                if HASH_TAG in tags:
                    self._note(run.info, tags)
                elif CONFIGURATION_TAG in tags:
                    self.by_configuration[tags[CONFIGURATION_TAG]] = run.info
                elif LINE_TAG in tags:
                    self.by_line[tags[LINE_TAG]] = run.info
                if SWEEP_TAG in tags:
                    self.by_sweep[tags[SWEEP_TAG]] = run.info
            token = page.token
            if not token:
                return

    def _note(self, info: RunInfo, tags: Mapping[str, str]) -> None:
        """Index a run by its hash, its sweep and its scenario, if it has them."""
        # In experiments of earlier versions the run of the sweep is the parent.
        content_hash, sweep_run = tags[HASH_TAG], tags.get(SWEEP_RUN_TAG, tags.get(PARENT_TAG))
        self._by_hash[content_hash] = info
        if sweep_run is not None:
            self.of_sweep.setdefault(sweep_run, {})[content_hash] = info
            if SCENARIO_TAG in tags:
                self.of_scenario.setdefault((sweep_run, tags[SCENARIO_TAG]), set()).add(content_hash)

    def logged(self) -> Logged:
        """Counts so far."""
        on_server = self._uri.startswith(("http://", "https://"))
        server = self._uri.rstrip("/") if on_server else f"http://{_HOST}:{_PORT}"
        command = f"mlflow server --host {_HOST} --port {_PORT} --backend-store-uri {self._uri}"
        return Logged(
            self._uri,
            self._experiment,
            self.created,
            self._present,
            self.dropped,
            charts=f"{server}/{charts_path(self.experiment_id)}",
            serve=None if on_server else command,
            moved_from=self._moved_from,
        )

    def is_described(self) -> bool:
        """Whether the experiment has its prepared page and a description."""
        return {VIEW_TAG, NOTE_TAG} <= self.client.get_experiment(self.experiment_id).tags.keys()

    def log_view(self, state: str, tag: str = VIEW_TAG) -> None:
        """Log a prepared page of the experiment, see `tracking.views`."""
        self.client.set_experiment_tag(self.experiment_id, tag, state)

    def log_note(self, text: str) -> None:
        """Log the description of the experiment, in Markdown; one that a user has edited stays."""
        tags = self.client.get_experiment(self.experiment_id).tags
        there = tags.get(NOTE_TAG, "")
        if not there or tags.get(_NOTE_DIGEST_TAG) == _sha256(there):
            self.client.set_experiment_tag(self.experiment_id, NOTE_TAG, text)
            self.client.set_experiment_tag(self.experiment_id, _NOTE_DIGEST_TAG, _sha256(text))

    def log_metrics(self, run_id: str, metrics: Sequence[Metric]) -> None:
        """Log any number of metrics to a run."""
        for start in range(0, len(metrics), MOST_AT_ONCE):
            self.client.log_batch(run_id, metrics=metrics[start : start + MOST_AT_ONCE])

    def begin(self, content_hash: str, name: str, status: str, tags: Mapping[str, str]) -> str | None:
        """Open a run; None if a run with this hash has already ended with this status."""
        self._remove_other_code(content_hash, tags)
        known = self._by_hash.get(content_hash)
        if known is not None and known.status == status:
            self._present += 1
            self._move(known.run_id, tags)
            return None
        if known is not None:  # logging was interrupted, or the run failed then and is finished now
            self.client.delete_run(known.run_id)
        hashed = {HASH_TAG: content_hash, **tags}
        run = self.client.create_run(self.experiment_id, tags=hashed, run_name=name)
        self.created += 1
        return str(run.info.run_id)

    def _move(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Move an existing run to its place in the sweep, which may have more seeds now."""
        for key in (SWEEP_RUN_TAG, SCENARIO_TAG, PARENT_TAG, CONFIGURATION_TAG, DIRECTORY_TAG):
            present, wanted = self.tags.get(run_id, {}).get(key), tags.get(key)
            if wanted is not None and wanted != present:
                self.client.set_tag(run_id, key, wanted)
            elif wanted is None and present is not None:
                self.client.delete_tag(run_id, key)

    def _remove_other_code(self, content_hash: str, tags: Mapping[str, str]) -> None:
        """Remove the sweep's runs of the same scenario by other code."""
        sweep_run = tags.get(SWEEP_RUN_TAG, "")
        for other in self.of_scenario.get((sweep_run, tags.get(SCENARIO_TAG, "")), set()) - {content_hash}:
            if (info := self.of_sweep[sweep_run].pop(other, None)) is not None:
                self.client.delete_run(info.run_id)

    def log_bytes(self, run_id: str, name: str, content: bytes) -> None:
        """Log a file with this content to a run."""
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / name).write_bytes(content)
            self.client.log_artifact(run_id, str(Path(directory) / name))

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Convert errors of MLflow and its database to `RunFailedError`."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = next((line for line in lines if line.startswith("(sqlite3.")), lines[0])
            raise RunFailedError(
                f"MLflow store {self._uri}: {reason}; the results are kept, log them later with `ray-sim log`"
            ) from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _experiment_id(client: MlflowClient, name: str, directory: Path) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        return str(experiment.experiment_id)
    ours = "MLFLOW_TRACKING_URI" not in os.environ
    location = (directory.absolute() / ARTIFACTS).as_uri() if ours else None
    return str(client.create_experiment(name, artifact_location=location))
