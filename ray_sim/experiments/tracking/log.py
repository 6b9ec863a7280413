"""Logging of stored sweeps, runs and trainings to MLflow, each once however often it is logged."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ray_sim.experiments.results.result_files import check_result, read_manifest, read_summary, read_table
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.results.store_union import StoreUnion
from ray_sim.experiments.results.stored_runs import SOURCE, other_versions, read_run_manifest
from ray_sim.experiments.results.training_files import CURVES, read_training_directory
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.experiments.tracking.experiment import (
    DIRECTORY_TAG,
    PARENT_TAG,
    SCENARIO_TAG,
    SWEEP_RUN_TAG,
    SWEEP_TAG,
    Logged,
    MlflowExperiment,
)
from ray_sim.experiments.tracking.overview import LoggedSweep, log_overview
from ray_sim.experiments.tracking.records import (
    TIMELINE,
    curve_metrics,
    final_metrics,
    input_datasets,
    run_params,
    timeline_metrics,
    training_params,
)
from ray_sim.experiments.tracking.views import (
    CONFIGURATION_TAG,
    TIME_CHARTS,
    SeedGroup,
    configuration_label,
    configuration_metrics,
    configurations,
    view_state,
)
from ray_sim.model.errors import InvalidInputError
from ray_sim.reports.plots import JctCdfPngs, completed_jct_s
from ray_sim.reports.tables import RunRow
from workloads.progress import Progress, silent

_ERROR_TAG = "ray_sim.error"
_LOST_TAG = "ray_sim.lost_attempts"
_BOUND_TAG = "ray_sim.bound"
"""Largest bound of a run's certificate, with its resource and partition."""
_SOURCE_TAG = "ray_sim.source"
"""First digits of the SHA-256 of the code that made a run."""
_MEMBERS_TAG = "ray_sim.members"
_LINES_TAG = "ray_sim.lines_of"
"""Content hash of the run whose lines over simulated time a configuration of several seeds has."""

_MOST_SEEDS = 50_000
"""Runs that MLflow finds at a time."""

_MAX_TEXT = 4000
"""Largest number of characters of an error in a tag."""


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
    experiment = _Results(name, store.root)
    errors: dict[str, str | None] = {}
    groups = configurations(entries)
    group_of = {entry.content_hash: group for group in groups for entry in group.entries}
    with experiment.errors_named():
        sweep_run, is_new = experiment.sweep_run(name)
        for outcome in outcomes:
            experiment.log_outcome(outcome, store, group_of[outcome.entry.content_hash], sweep_run, detail)
            errors[outcome.entry.content_hash] = outcome.error
        experiment.drop(sweep_run, entries, prune=prune)
        done = {content_hash for content_hash, error in errors.items() if error is None}
        stale = experiment.stale_configurations(groups, done, damaged)
        if is_new or stale or experiment.created or experiment.dropped or not experiment.is_described():
            rows = _by_configuration(store.rows(entry for entry in entries if entry.content_hash in done))
            results = LoggedSweep(name, store, entries, errors, detail, groups, rows)
            for group in stale:
                experiment.end_configuration(group, results, sweep_run)
            log_overview(experiment, sweep_run, results)
            whole = len(done) == len(entries)
            experiment.client.set_terminated(sweep_run, "FINISHED" if whole else "FAILED")
    return experiment.logged()


def _by_configuration(rows: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    """Finished runs by label of their configuration."""
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        found.setdefault(configuration_label(row), []).append(row)
    return found


def log_stores(
    directories: Sequence[Path], experiment: str | None = None, progress: Progress = silent
) -> Logged:
    """Log the stored results of sweeps to one experiment, except damaged ones; see `log_sweep`.

    Parameters
    ----------
    directories : at least one; without a server the first has MLflow's database
    experiment : name of the experiment; by default that of the only sweep
    progress : called before each run
    """
    if experiment is None and len(directories) > 1:
        raise InvalidInputError(
            f"{', '.join(map(str, directories))}: {len(directories)} sweeps for one experiment; name it "
            "with --experiment"
        )
    store = StoreUnion(directories)
    sweep, entries = store.read_plan()
    with store.writing(sweep):
        damaged = store.damaged(entries)
        left_out = {outcome.entry.content_hash for outcome in damaged}
        outcomes = store.outcomes(entry for entry in entries if entry.content_hash not in left_out)
        name, told = experiment or sweep, _told(outcomes, progress)
        logged = log_sweep(name, store, entries, told, store.read_detail(), damaged=left_out)
    finished = [outcome.entry for outcome in outcomes if outcome.error is None]
    return replace(
        logged,
        damaged=tuple(str(outcome.error) for outcome in damaged),
        other_versions=tuple(other_versions(store, finished)),
    )


def _told(outcomes: Sequence[ConfigurationOutcome], progress: Progress) -> Iterator[ConfigurationOutcome]:
    for done, outcome in enumerate(outcomes):
        progress(done, len(outcomes), "")
        yield outcome


def log_run(directory: Path) -> Logged:
    """Log a single result directory, in the experiment `ray_sim`; see `log_sweep`."""
    check_result(directory)
    experiment = _Results("ray_sim", directory.absolute().parent)
    with experiment.errors_named():
        experiment.log_run(directory)
        experiment.log_view(view_state({*read_summary(directory).flat(), *TIME_CHARTS}))
    return experiment.logged()


class _Results(MlflowExperiment):
    """An experiment with the results of runs and sweeps."""

    def __init__(self, experiment: str, directory: Path) -> None:
        """See `MlflowExperiment`."""
        super().__init__(experiment, directory)
        self._pictures = JctCdfPngs()

    def drop(self, sweep_run: str, entries: Sequence[Entry], *, prune: bool) -> None:
        """Count the sweep's runs of scenarios that no entry has, and remove them with `prune`."""
        planned = {entry.content_hash for entry in entries}
        for entry in entries:
            planned |= self.of_scenario.get((sweep_run, entry.scenario_hash), set())
        runs = self.of_sweep.get(sweep_run, {})
        gone = [info for content_hash, info in runs.items() if content_hash not in planned]
        self.dropped = len(gone)
        if prune:
            labels = {configuration_label(entry) for entry in entries}
            gone += [info for label, info in self.by_configuration.items() if label not in labels]
            for info in gone:
                self.client.delete_run(info.run_id)

    def sweep_run(self, name: str) -> tuple[str, bool]:
        """MLflow run id of the sweep of this name, and whether the run is new or unfinished."""
        known = self.by_sweep.get(name)
        if known is None:
            tags = {SWEEP_TAG: name}
            known = self.client.create_run(self.experiment_id, tags=tags, run_name=name).info
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
            tags[PARENT_TAG] = self._configuration(group, sweep_run)
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
        known = self.by_configuration.get(group.label)
        if known is None:
            tags = {CONFIGURATION_TAG: group.label, SWEEP_RUN_TAG: sweep_run}
            known = self.client.create_run(self.experiment_id, tags=tags, run_name=group.name).info
            self.by_configuration[group.label] = known
        return str(known.run_id)

    def stale_configurations(
        self, groups: Iterable[SeedGroup], done: Collection[str], damaged: Collection[str]
    ) -> list[SeedGroup]:
        """Configurations of several seeds whose run has no means, or not those over the finished seeds.

        Means over a result that is damaged now were correct when it was logged, so they are not stale.
        """
        found = []
        for group in groups:
            known = self.by_configuration.get(group.label)
            if len(group.entries) == 1 or known is None:
                continue
            members = self.tags.get(known.run_id, {}).get(_MEMBERS_TAG)
            keeps = members is not None and any(entry.content_hash in damaged for entry in group.entries)
            if not keeps and (known.status, members) != group.state(done):
                found.append(group)
        return found

    def end_configuration(self, group: SeedGroup, results: LoggedSweep, sweep_run: str) -> None:
        """Log the means over a configuration's finished seeds to its run.

        In full detail it also gets its inputs, and lines over simulated time of its first finished seed.
        """
        finished, store = results.done(group.entries), results.store
        done = {entry.content_hash for entry in finished}
        status, members = group.state(done)
        run_id = self._without_old_lines(group, done, sweep_run)
        if finished:
            first = finished[0]
            manifest = read_manifest(store.run_directory(first.content_hash))
            params = [each for each in run_params(manifest, first) if each.key not in ("seed", "hash")]
            means = configuration_metrics(results.rows[group.label])
            # Metrics cannot be removed, so an interval that no longer exists (too few seeds) becomes NaN.
            earlier = self.client.get_run(run_id).data.metrics.keys() - means.keys()
            means |= dict.fromkeys((each for each in earlier if not each.startswith(TIMELINE)), math.nan)
            # Only the time distinguishes new means from earlier ones.
            metrics = final_metrics(means, round(time.time() * 1000))
            self.client.log_batch(run_id, metrics=metrics, params=params)
            if results.detail == "full" and _LINES_TAG not in self.tags.get(run_id, {}):
                self._log_lines(run_id, first, store.run_directory(first.content_hash), manifest)
        self.client.set_terminated(run_id, status)
        # Last: if this tag is missing, the next call logs everything again.
        self.client.set_tag(run_id, _MEMBERS_TAG, members)

    def _log_lines(self, run_id: str, entry: Entry, directory: Path, manifest: Mapping[str, object]) -> None:
        """Log inputs, and lines over simulated time, of one run of a configuration."""
        self.client.log_inputs(run_id, input_datasets(entry.workload, manifest))
        lines = timeline_metrics(read_table(directory, "timeline"), read_table(directory, "jobs"))
        self.log_metrics(run_id, lines)
        self.client.set_tag(run_id, _LINES_TAG, entry.content_hash)

    def _without_old_lines(self, group: SeedGroup, done: Collection[str], sweep_run: str) -> str:
        """MLflow run id of a configuration; a new one if its lines are of a run that is gone.

        Points of a line cannot be removed.
        """
        known = str(self.by_configuration[group.label].run_id)
        drawn = self.tags.get(known, {}).get(_LINES_TAG)
        if drawn is None or drawn in done:
            return known
        del self.by_configuration[group.label]
        run_id = self._configuration(group, sweep_run)
        below = f"tags.`{PARENT_TAG}` = '{known}'"
        for seed in self.client.search_runs([self.experiment_id], below, max_results=_MOST_SEEDS):
            self.client.set_tag(seed.info.run_id, PARENT_TAG, run_id)
        self.client.delete_run(known)
        return run_id

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
        name : name of the run; by default the label or the policy, and its seed
        """
        manifest = read_manifest(directory)
        seed = "" if manifest["seed"] is None else f" seed {manifest['seed']}"
        name = name or f"{manifest.get('label') or manifest['policy']}{seed}"
        located = {DIRECTORY_TAG: str(directory.absolute()), **(tags or {CONFIGURATION_TAG: name})}
        located[_SOURCE_TAG] = read_run_manifest(directory).made_with[SOURCE]
        summary = read_summary(directory)
        if summary.certificate is not None and summary.certificate.binding_text is not None:
            located[_BOUND_TAG] = summary.certificate.binding_text
        run_id = self.begin(str(manifest["content_hash"]), name, "FINISHED", located)
        if run_id is None:
            return
        metrics, params = final_metrics(summary.flat()), run_params(manifest, entry)
        if detail == "full":
            self.client.log_artifacts(run_id, str(directory))
            # A picture takes as long as all else of a run; of several seeds the sweep's run has one.
            if CONFIGURATION_TAG in located:
                jobs = read_table(directory, "jobs")
                metrics += timeline_metrics(read_table(directory, "timeline"), jobs)
                workload = next(each.value for each in params if each.key == "workload")
                self.client.log_inputs(run_id, input_datasets(workload, manifest))
                picture = self._pictures.draw(completed_jct_s(jobs), f"JCT, {name}")
                self.log_bytes(run_id, "jct_cdf.png", picture)
        self.client.log_batch(run_id, metrics=metrics, params=params)
        self.client.set_terminated(run_id, "FINISHED")

    def _log_failure(self, entry: Entry, error: str, tags: Mapping[str, str]) -> None:
        run_id = self.begin(
            entry.content_hash, entry.policy, "FAILED", {**tags, _ERROR_TAG: error[:_MAX_TEXT]}
        )
        if run_id is not None:
            self.client.set_terminated(run_id, "FAILED")


TRAININGS = "ray_sim trainings"
"""Experiment of trainings."""


def log_training(directory: Path) -> Logged:
    """Log a training: its curves by round, its parameters, and its files as artifacts.

    A training that is logged already is logged anew where it went on since.
    """
    training = read_training_directory(directory)
    experiment = MlflowExperiment(TRAININGS, directory.absolute())
    digests = training.facts["files"]
    assert isinstance(digests, dict)
    with experiment.errors_named():
        tags = {DIRECTORY_TAG: str(directory.absolute())}
        run_id = experiment.begin(str(digests[CURVES]), str(training.facts["name"]), "FINISHED", tags)
        if run_id is not None:
            experiment.log_metrics(run_id, curve_metrics(training.curves))
            experiment.client.log_batch(run_id, params=training_params(training.facts))
            for file in training.files:
                experiment.client.log_artifact(run_id, str(file))
            experiment.client.set_terminated(run_id, "FINISHED")
    return experiment.logged()
