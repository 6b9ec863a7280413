"""Logging of stored sweeps, runs and trainings to MLflow, each once however often it is logged."""

from __future__ import annotations

import math
import os
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ray_sim.experiments.mlflow_database import migrate, schema_revision, sqlite_file
from ray_sim.experiments.mlflow_records import (
    curve_metrics,
    final_metrics,
    run_params,
    timeline_metrics,
    training_params,
)
from ray_sim.experiments.mlflow_template import new_database
from ray_sim.experiments.mlflow_views import (
    CONFIGURATION_TAG,
    VIEW_TAG,
    SeedGroup,
    charts_path,
    configuration_label,
    configuration_metrics,
    configurations,
    view_state,
)
from ray_sim.experiments.result_files import check_result, read_manifest, read_summary, read_table
from ray_sim.experiments.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_file import Detail, Entry
from ray_sim.experiments.training_files import CURVES, StoredTraining, read_training_directory
from ray_sim.model.errors import RunFailedError
from ray_sim.reports.plots import JctCdfPngs, completed_jct_s, jct_cdf_png
from ray_sim.reports.tables import RunRow, place_title, sweep_table

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import RunInfo

HASH_TAG = "ray_sim.hash"
SCENARIO_TAG = "ray_sim.scenario_hash"
SWEEP_TAG = "ray_sim.sweep"
SWEEP_RUN_TAG = "ray_sim.sweep_run"
"""Tag of a sweep's runs: the id of the run that has `SWEEP_TAG`."""
_ERROR_TAG = "ray_sim.error"
_LOST_TAG = "ray_sim.lost_attempts"
_BOUND_TAG = "ray_sim.bound"
"""Largest bound of a run's certificate, with its resource and partition."""
_DIRECTORY_TAG = "ray_sim.directory"
_MEMBERS_TAG = "ray_sim.members"
_PARENT_TAG = "mlflow.parentRunId"

_PATIENCE = {
    # MLflow reads this when it is first imported, so a tracker sets it first.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # MLflow reads these with every request: it gives up a silent server after some 10 s, not 4 min.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""Default settings of MLflow; the user's own settings override them."""

TRAININGS = "ray_sim trainings"
"""Experiment of trainings."""

_MOST_METRICS = 1000
"""Points that MLflow takes at a time."""

_MAX_TEXT = 4000
"""Largest number of characters of an error in a tag."""


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
    charts: str = ""
    """Address of the prepared page of charts."""
    serve: str | None = None
    """Command that starts a server at that address; None if the runs are on a server already."""

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return asdict(self)


def log_sweep(
    name: str,
    store: ResultStore,
    entries: Sequence[Entry],
    outcomes: Iterable[ConfigurationOutcome],
    detail: Detail = "full",
    prune: bool = False,
    damaged: Collection[str] = (),
) -> Logged:
    """Log the outcomes of a sweep as they arrive: a run for the sweep, for each configuration and each seed.

    Configurations are top-level runs with means and intervals, and their seeds are child runs. A
    configuration with a single run is that run itself.

    Logging a configuration again removes its run of other code.

    Parameters
    ----------
    entries : the whole sweep; the table, pictures and means cover those with a result among the outcomes
    detail : ``numbers`` leaves out timelines, files and pictures, which take most of the time
    prune : remove the runs that belong to no entry
    damaged : content hashes of results that cannot be read; logged means over them stay unchanged

    Raises
    ------
    RunFailedError : the tracking store cannot be used
    """
    tracker = _Tracker(name, store.root)
    done = set()
    groups = configurations(entries)
    group_of = {entry.content_hash: group for group in groups for entry in group.entries}
    with tracker.errors_named():
        sweep_run, is_new = tracker.sweep_run(name)
        for outcome in outcomes:
            tracker.log_outcome(outcome, store, group_of[outcome.entry.content_hash], sweep_run, detail)
            if outcome.error is None:
                done.add(outcome.entry.content_hash)
        tracker.drop(sweep_run, entries, prune=prune)
        stale = tracker.stale_configurations(groups, done, damaged)
        if is_new or stale or tracker.created or tracker.dropped or not tracker.has_view():
            finished = [entry for entry in entries if entry.content_hash in done]
            rows = store.rows(finished)
            for group in stale:
                tracker.end_configuration(group, done, rows, store)
            tracker.log_table(sweep_run, rows)
            tracker.log_view({name for row in rows for name in row.summary.flat()})
            if detail == "full":
                tracker.log_curves(sweep_run, store, finished)
            tracker.end(sweep_run, whole=len(finished) == len(entries))
    return tracker.logged()


def log_store(directory: Path) -> Logged:
    """Log the stored results of a sweep, except damaged ones; see `log_sweep`."""
    store = ResultStore(directory)
    name, entries = store.read_plan()
    with store.writing(name):
        damaged = store.damaged(entries)
        left_out = {outcome.entry.content_hash for outcome in damaged}
        outcomes = store.outcomes(entry for entry in entries if entry.content_hash not in left_out)
        logged = log_sweep(name, store, entries, outcomes, store.read_detail(), damaged=left_out)
    return replace(logged, damaged=tuple(str(outcome.error) for outcome in damaged))


def log_run(directory: Path) -> Logged:
    """Log a single result directory, in the experiment `ray_sim`; see `log_sweep`."""
    check_result(directory)
    tracker = _Tracker("ray_sim", directory.absolute().parent)
    with tracker.errors_named():
        tracker.log_run(directory)
        tracker.log_view(read_summary(directory).flat())
    return tracker.logged()


def log_training(directory: Path) -> Logged:
    """Log a training: its curves by round, its parameters, and its files as artifacts.

    A training that is logged already is logged anew where it went on since.

    Raises
    ------
    InvalidInputError : the directory has no training, or a file has changed
    RunFailedError : the tracking store cannot be used
    """
    training = read_training_directory(directory)
    tracker = _Tracker(TRAININGS, directory.absolute())
    with tracker.errors_named():
        tracker.log_training(directory, training)
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

            if (database := sqlite_file(self._uri)) is not None:
                new_database(database, schema_revision(), migrate)
            self._client = MlflowClient(tracking_uri=self._uri)
            self._experiment_id = _experiment_id(self._client, experiment, directory)
        self._by_hash: dict[str, RunInfo] = {}
        self._by_configuration: dict[str, RunInfo] = {}
        self._tags: dict[str, dict[str, str]] = {}
        self._of_sweep: dict[str, dict[str, RunInfo]] = {}
        self._of_scenario: dict[tuple[str, str], set[str]] = {}
        self._by_sweep: dict[str, RunInfo] = {}
        with self.errors_named():
            self._look_up()
        self._pictures = JctCdfPngs()
        self.created = 0
        self.dropped = 0
        self._present = 0

    def _look_up(self) -> None:
        """Read the runs of the experiment page by page, to bound memory."""
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], max_results=1000, page_token=token)
            for run in page:
                tags = self._tags[run.info.run_id] = run.data.tags
                if HASH_TAG in tags:
                    self._note(run.info, tags)
                elif CONFIGURATION_TAG in tags:
                    self._by_configuration[tags[CONFIGURATION_TAG]] = run.info
                if SWEEP_TAG in tags:
                    self._by_sweep[tags[SWEEP_TAG]] = run.info
            token = page.token
            if not token:
                return

    def _note(self, info: RunInfo, tags: Mapping[str, str]) -> None:
        """Index a run by its hash, its sweep and its scenario, if it has them."""
        # In experiments of earlier versions the run of the sweep is the parent.
        content_hash, sweep_run = tags[HASH_TAG], tags.get(SWEEP_RUN_TAG, tags.get(_PARENT_TAG))
        self._by_hash[content_hash] = info
        if sweep_run is not None:
            self._of_sweep.setdefault(sweep_run, {})[content_hash] = info
            if SCENARIO_TAG in tags:
                self._of_scenario.setdefault((sweep_run, tags[SCENARIO_TAG]), set()).add(content_hash)

    def logged(self) -> Logged:
        """Counts so far."""
        on_server = self._uri.startswith(("http://", "https://"))
        server = self._uri.rstrip("/") if on_server else "http://127.0.0.1:5000"
        return Logged(
            self._uri,
            self._experiment,
            self.created,
            self._present,
            self.dropped,
            charts=f"{server}/{charts_path(self._experiment_id)}",
            serve=None if on_server else f"mlflow server --backend-store-uri {self._uri}",
        )

    def drop(self, sweep_run: str, entries: Sequence[Entry], *, prune: bool) -> None:
        """Count the sweep's runs of scenarios that no entry has, and remove them with `prune`."""
        planned = {entry.content_hash for entry in entries}
        for entry in entries:
            planned |= self._of_scenario.get((sweep_run, entry.scenario_hash), set())
        runs = self._of_sweep.get(sweep_run, {})
        gone = [info for content_hash, info in runs.items() if content_hash not in planned]
        self.dropped = len(gone)
        if prune:
            labels = {configuration_label(entry) for entry in entries}
            gone += [info for label, info in self._by_configuration.items() if label not in labels]
            for info in gone:
                self._client.delete_run(info.run_id)

    def sweep_run(self, name: str) -> tuple[str, bool]:
        """MLflow run id of the sweep of this name, and whether the run is new or unfinished."""
        known = self._by_sweep.get(name)
        if known is None:
            tags = {SWEEP_TAG: name}
            known = self._client.create_run(self._experiment_id, tags=tags, run_name=name).info
        return str(known.run_id), known.status != "FINISHED"

    def log_outcome(
        self,
        outcome: ConfigurationOutcome,
        store: ResultStore,
        group: SeedGroup,
        sweep_run: str,
        detail: Detail,
    ) -> None:
        """Log the outcome of a configuration with one seed, unless it is logged already."""
        entry = outcome.entry
        tags = {SWEEP_RUN_TAG: sweep_run, SCENARIO_TAG: entry.scenario_hash}
        if len(group.entries) > 1:
            tags[_PARENT_TAG] = self._configuration(group, sweep_run)
        else:
            tags[CONFIGURATION_TAG] = group.label
        if outcome.error is not None:
            self._log_failure(entry, outcome.error, tags)
        else:
            tags |= {_LOST_TAG: "\n".join(outcome.lost)[:_MAX_TEXT]} if outcome.lost else {}
            name = group.name if len(group.entries) == 1 else None
            self.log_run(store.run_directory(entry.content_hash), entry, tags, detail, name)

    def _configuration(self, group: SeedGroup, sweep_run: str) -> str:
        """MLflow run id of a configuration of several seeds."""
        known = self._by_configuration.get(group.label)
        if known is None:
            tags = {CONFIGURATION_TAG: group.label, SWEEP_RUN_TAG: sweep_run}
            known = self._client.create_run(self._experiment_id, tags=tags, run_name=group.name).info
            self._by_configuration[group.label] = known
        return str(known.run_id)

    def stale_configurations(
        self, groups: Iterable[SeedGroup], done: Collection[str], damaged: Collection[str]
    ) -> list[SeedGroup]:
        """Configurations of several seeds whose run has no means, or not those over the finished seeds.

        Means over a result that is damaged now were correct when it was logged, so they are not stale.
        """
        found = []
        for group in groups:
            known = self._by_configuration.get(group.label)
            if len(group.entries) == 1 or known is None:
                continue
            members = self._tags.get(known.run_id, {}).get(_MEMBERS_TAG)
            keeps = members is not None and any(entry.content_hash in damaged for entry in group.entries)
            if not keeps and (known.status, members) != group.state(done):
                found.append(group)
        return found

    def end_configuration(
        self, group: SeedGroup, done: Collection[str], rows: Iterable[RunRow], store: ResultStore
    ) -> None:
        """Log the means over a configuration's finished seeds, which are among the rows, to its run."""
        run_id, (status, members) = self._by_configuration[group.label].run_id, group.state(done)
        first = next((entry for entry in group.entries if entry.content_hash in done), None)
        if first is not None:
            manifest = read_manifest(store.run_directory(first.content_hash))
            params = [each for each in run_params(manifest, first) if each.key not in ("seed", "hash")]
            means = configuration_metrics([row for row in rows if configuration_label(row) == group.label])
            # Metrics cannot be removed, so an interval that no longer exists (one seed) becomes NaN.
            earlier = self._client.get_run(run_id).data.metrics
            means |= dict.fromkeys(earlier.keys() - means.keys(), math.nan)
            # Only the time distinguishes new means from earlier ones.
            metrics = final_metrics(means, round(time.time() * 1000))
            self._client.log_batch(run_id, metrics=metrics, params=params)
        self._client.set_terminated(run_id, status)
        # Last: if this tag is missing, the next call logs everything again.
        self._client.set_tag(run_id, _MEMBERS_TAG, members)

    def has_view(self) -> bool:
        """Whether the experiment has its prepared page."""
        return VIEW_TAG in self._client.get_experiment(self._experiment_id).tags

    def log_view(self, metrics: Collection[str]) -> None:
        """Log the prepared page of the experiment, for runs with these metrics."""
        self._client.set_experiment_tag(self._experiment_id, VIEW_TAG, view_state(metrics))

    def log_run(
        self,
        directory: Path,
        entry: Entry | None = None,
        tags: Mapping[str, str] | None = None,
        detail: Detail = "full",
        name: str | None = None,
    ) -> None:
        """Log a result directory, unless its hash is logged already.

        Parameters
        ----------
        entry : source of the workload's label in the sweep's tables
        tags : tags of the run; by default those of a configuration with a single run
        name : name of the run; by default the policy and its seed
        """
        manifest = read_manifest(directory)
        name = name or _run_name(manifest)
        located = {_DIRECTORY_TAG: str(directory.absolute()), **(tags or {CONFIGURATION_TAG: name})}
        summary = read_summary(directory)
        if summary.certificate is not None and summary.certificate.binding_text is not None:
            located[_BOUND_TAG] = summary.certificate.binding_text
        run_id = self._begin(str(manifest["content_hash"]), name, "FINISHED", located)
        if run_id is None:
            return
        metrics = final_metrics(summary.flat())
        if detail == "full":
            metrics += timeline_metrics(read_table(directory, "timeline"))
        self._client.log_batch(run_id, metrics=metrics, params=run_params(manifest, entry))
        if detail == "full":
            self._client.log_artifacts(run_id, str(directory))
            jct_s = completed_jct_s(read_table(directory, "jobs"))
            self._log_bytes(run_id, "jct_cdf.png", self._pictures.draw(jct_s, f"JCT, {name}"))
        self._client.set_terminated(run_id, "FINISHED")

    def log_training(self, directory: Path, training: StoredTraining) -> None:
        """Log a training, unless it is logged already as it is now."""
        facts = training.facts
        digests = facts["files"]
        assert isinstance(digests, dict)
        tags = {_DIRECTORY_TAG: str(directory.absolute())}
        run_id = self._begin(str(digests[CURVES]), str(facts["name"]), "FINISHED", tags)
        if run_id is None:
            return
        metrics = curve_metrics(training.curves)
        for start in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(run_id, metrics=metrics[start : start + _MOST_METRICS])
        self._client.log_batch(run_id, params=training_params(facts))
        for file in training.files:
            self._client.log_artifact(run_id, str(file))
        self._client.set_terminated(run_id, "FINISHED")

    def _log_failure(self, entry: Entry, error: str, tags: Mapping[str, str]) -> None:
        run_id = self._begin(
            entry.content_hash, entry.policy, "FAILED", {**tags, _ERROR_TAG: error[:_MAX_TEXT]}
        )
        if run_id is not None:
            self._client.set_terminated(run_id, "FAILED")

    def log_table(self, sweep_run: str, rows: Sequence[RunRow]) -> None:
        """Log the table of means over seeds to the run of the sweep."""
        self._client.log_text(sweep_run, sweep_table(rows).write_csv(), "comparison.csv")

    def log_curves(self, sweep_run: str, store: ResultStore, entries: Sequence[Entry]) -> None:
        """Log a picture per place, with a curve per policy, to the run of the sweep."""
        for index, (place, curves) in enumerate(store.jct_curves(entries)):
            self._log_bytes(sweep_run, f"jct_cdf_{index}.png", jct_cdf_png(curves, place_title(place)))

    def end(self, sweep_run: str, whole: bool) -> None:
        """End the run of the sweep, as finished if the sweep is `whole`."""
        self._client.set_terminated(sweep_run, "FINISHED" if whole else "FAILED")

    def _begin(self, content_hash: str, name: str, status: str, tags: Mapping[str, str]) -> str | None:
        """Open a run; None if a run with this hash has already ended with this status."""
        self._remove_other_code(content_hash, tags)
        known = self._by_hash.get(content_hash)
        if known is not None and known.status == status:
            self._present += 1
            self._move(known.run_id, tags)
            return None
        if known is not None:  # logging was interrupted, or the run failed then and is finished now
            self._client.delete_run(known.run_id)
        hashed = {HASH_TAG: content_hash, **tags}
        run = self._client.create_run(self._experiment_id, tags=hashed, run_name=name)
        self.created += 1
        return str(run.info.run_id)

    def _move(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Move an existing run to its place in the sweep, which may have more seeds now."""
        for key in (SWEEP_RUN_TAG, SCENARIO_TAG, _PARENT_TAG, CONFIGURATION_TAG):
            present, wanted = self._tags.get(run_id, {}).get(key), tags.get(key)
            if wanted is not None and wanted != present:
                self._client.set_tag(run_id, key, wanted)
            elif wanted is None and present is not None:
                self._client.delete_tag(run_id, key)

    def _remove_other_code(self, content_hash: str, tags: Mapping[str, str]) -> None:
        """Remove the sweep's runs of the same scenario by other code."""
        sweep_run = tags.get(SWEEP_RUN_TAG, "")
        for other in self._of_scenario.get((sweep_run, tags.get(SCENARIO_TAG, "")), set()) - {content_hash}:
            if (info := self._of_sweep[sweep_run].pop(other, None)) is not None:
                self._client.delete_run(info.run_id)

    def _log_bytes(self, run_id: str, name: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / name).write_bytes(content)
            self._client.log_artifact(run_id, str(Path(directory) / name))

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Convert errors of MLflow and its database to `RunFailedError`."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RunFailedError(
                f"MLflow store {self._uri}: {reason}; the results are kept, log them later with `ray-sim log`"
            ) from error


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
