"""Logging of stored sweeps and runs to MLflow, each once however often it is logged."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ray_sim.experiments.mlflow_experiment import (
    DIRECTORY_TAG,
    PARENT_TAG,
    SCENARIO_TAG,
    SWEEP_RUN_TAG,
    SWEEP_TAG,
    Logged,
    MlflowExperiment,
)
from ray_sim.experiments.mlflow_records import final_metrics, run_params, timeline_metrics
from ray_sim.experiments.mlflow_views import (
    CONFIGURATION_TAG,
    SeedGroup,
    configuration_label,
    configuration_metrics,
    configurations,
)
from ray_sim.experiments.result_files import check_result, read_manifest, read_summary, read_table
from ray_sim.experiments.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_file import Detail, Entry
from ray_sim.reports.plots import JctCdfPngs, completed_jct_s, jct_cdf_png
from ray_sim.reports.tables import RunRow, place_title, sweep_table

_ERROR_TAG = "ray_sim.error"
_LOST_TAG = "ray_sim.lost_attempts"
_BOUND_TAG = "ray_sim.bound"
"""Largest bound of a run's certificate, with its resource and partition."""
_MEMBERS_TAG = "ray_sim.members"

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
    done = set()
    groups = configurations(entries)
    group_of = {entry.content_hash: group for group in groups for entry in group.entries}
    with experiment.errors_named():
        sweep_run, is_new = experiment.sweep_run(name)
        for outcome in outcomes:
            experiment.log_outcome(outcome, store, group_of[outcome.entry.content_hash], sweep_run, detail)
            if outcome.error is None:
                done.add(outcome.entry.content_hash)
        experiment.drop(sweep_run, entries, prune=prune)
        stale = experiment.stale_configurations(groups, done, damaged)
        if is_new or stale or experiment.created or experiment.dropped or not experiment.has_view():
            finished = [entry for entry in entries if entry.content_hash in done]
            rows = store.rows(finished)
            for group in stale:
                experiment.end_configuration(group, done, rows, store)
            experiment.log_table(sweep_run, rows)
            experiment.log_view({name for row in rows for name in row.summary.flat()})
            if detail == "full":
                experiment.log_curves(sweep_run, store, finished)
            experiment.end(sweep_run, whole=len(finished) == len(entries))
    return experiment.logged()


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
    experiment = _Results("ray_sim", directory.absolute().parent)
    with experiment.errors_named():
        experiment.log_run(directory)
        experiment.log_view(read_summary(directory).flat())
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

    def end_configuration(
        self, group: SeedGroup, done: Collection[str], rows: Iterable[RunRow], store: ResultStore
    ) -> None:
        """Log the means over a configuration's finished seeds, which are among the rows, to its run."""
        run_id, (status, members) = self.by_configuration[group.label].run_id, group.state(done)
        first = next((entry for entry in group.entries if entry.content_hash in done), None)
        if first is not None:
            manifest = read_manifest(store.run_directory(first.content_hash))
            params = [each for each in run_params(manifest, first) if each.key not in ("seed", "hash")]
            means = configuration_metrics([row for row in rows if configuration_label(row) == group.label])
            # Metrics cannot be removed, so an interval that no longer exists (one seed) becomes NaN.
            earlier = self.client.get_run(run_id).data.metrics
            means |= dict.fromkeys(earlier.keys() - means.keys(), math.nan)
            # Only the time distinguishes new means from earlier ones.
            metrics = final_metrics(means, round(time.time() * 1000))
            self.client.log_batch(run_id, metrics=metrics, params=params)
        self.client.set_terminated(run_id, status)
        # Last: if this tag is missing, the next call logs everything again.
        self.client.set_tag(run_id, _MEMBERS_TAG, members)

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
        located = {DIRECTORY_TAG: str(directory.absolute()), **(tags or {CONFIGURATION_TAG: name})}
        summary = read_summary(directory)
        if summary.certificate is not None and summary.certificate.binding_text is not None:
            located[_BOUND_TAG] = summary.certificate.binding_text
        run_id = self.begin(str(manifest["content_hash"]), name, "FINISHED", located)
        if run_id is None:
            return
        metrics = final_metrics(summary.flat())
        if detail == "full":
            metrics += timeline_metrics(read_table(directory, "timeline"))
        self.client.log_batch(run_id, metrics=metrics, params=run_params(manifest, entry))
        if detail == "full":
            self.client.log_artifacts(run_id, str(directory))
            jct_s = completed_jct_s(read_table(directory, "jobs"))
            self.log_bytes(run_id, "jct_cdf.png", self._pictures.draw(jct_s, f"JCT, {name}"))
        self.client.set_terminated(run_id, "FINISHED")

    def _log_failure(self, entry: Entry, error: str, tags: Mapping[str, str]) -> None:
        run_id = self.begin(
            entry.content_hash, entry.policy, "FAILED", {**tags, _ERROR_TAG: error[:_MAX_TEXT]}
        )
        if run_id is not None:
            self.client.set_terminated(run_id, "FAILED")

    def log_table(self, sweep_run: str, rows: Sequence[RunRow]) -> None:
        """Log the table of means over seeds to the run of the sweep."""
        self.client.log_text(sweep_run, sweep_table(rows).write_csv(), "comparison.csv")

    def log_curves(self, sweep_run: str, store: ResultStore, entries: Sequence[Entry]) -> None:
        """Log a picture per place, with a curve per policy, to the run of the sweep."""
        for index, (place, curves) in enumerate(store.jct_curves(entries)):
            self.log_bytes(sweep_run, f"jct_cdf_{index}.png", jct_cdf_png(curves, place_title(place)))

    def end(self, sweep_run: str, whole: bool) -> None:
        """End the run of the sweep, as finished if the sweep is `whole`."""
        self.client.set_terminated(sweep_run, "FINISHED" if whole else "FAILED")


def _run_name(manifest: Mapping[str, object]) -> str:
    seed = "" if manifest["seed"] is None else f" seed {manifest['seed']}"
    return f"{manifest['policy']}{seed}"
