"""Record of a sweep as a whole in MLflow: table, inputs, lines over an axis, pages, description, report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ray_sim.experiments.report import page_bytes, results_page
from ray_sim.experiments.results.result_files import read_manifest
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import stored_scenario
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.experiments.tracking.axis import AxisLine, Settings, SweepAxis, find_axis, place_settings
from ray_sim.experiments.tracking.description import description
from ray_sim.experiments.tracking.experiment import MOST_AT_ONCE, SWEEP_RUN_TAG, MlflowExperiment
from ray_sim.experiments.tracking.records import input_datasets, line_metrics
from ray_sim.experiments.tracking.views import (
    CONFIGURATIONS_VIEW_TAG,
    INTERVAL_ENDS,
    LINE_TAG,
    TIME_CHARTS,
    SeedGroup,
    axis_view_state,
    charted_metrics,
    configuration_metrics,
    view_state,
)
from ray_sim.reports.findings import PlaceComparison, compare_places, sweep_findings
from ray_sim.reports.plots import jct_cdf_png
from ray_sim.reports.tables import Place, RunRow, place_title, sweep_table

if TYPE_CHECKING:
    from mlflow.entities import Metric

_POINTS_TAG = "ray_sim.points"
"""Tag of a line over an axis: digest of its points; missing until all points are logged."""


@dataclass(frozen=True, slots=True)
class LoggedSweep:
    """A sweep to log, with the results that it has so far."""

    name: str
    store: ResultStore
    entries: Sequence[Entry]
    """The whole sweep."""
    errors: Mapping[str, str | None]
    """Error by content hash of the runs that have ended; None for those that are done."""
    detail: Detail
    groups: Sequence[SeedGroup]
    """The configurations."""
    rows: Mapping[str, Sequence[RunRow]]
    """Finished runs by label of their configuration; configurations without any are left out."""

    def done(self, entries: Iterable[Entry]) -> list[Entry]:
        """The runs among these that are done, in order."""
        return [each for each in entries if self.errors.get(each.content_hash, "missing") is None]

    @property
    def all_rows(self) -> list[RunRow]:
        """The finished runs."""
        return [row for rows in self.rows.values() for row in rows]

    @property
    def state(self) -> str:
        """Text such as ``78 of 80 runs done, 2 failed``."""
        failed = sum(error is not None for error in self.errors.values())
        state = f"{len(self.done(self.entries)):,} of {len(self.entries):,} runs done"
        return f"{state}, {failed:,} failed" if failed else state

    @property
    def metrics(self) -> set[str]:
        """Names of the metrics of the finished runs."""
        return {name for row in self.all_rows for name in row.summary.flat()}


def log_overview(experiment: MlflowExperiment, sweep_run: str, results: LoggedSweep) -> None:
    """Log what concerns the sweep as a whole to its run and to the experiment, in place of what is there."""
    experiment.client.log_text(sweep_run, sweep_table(results.all_rows).write_csv(), "comparison.csv")
    first_runs = _first_runs(results.done(results.entries))
    _log_inputs(experiment, sweep_run, results.store, first_runs.values())
    axis = find_axis(results.groups, _settings(results.store, first_runs))
    _log_lines(experiment, sweep_run, axis, results)
    _log_views(experiment, axis, results)
    comparisons = compare_places(results.all_rows)
    experiment.log_note(
        description(
            results.name,
            experiment.experiment_id,
            results.state,
            sweep_findings(comparisons, results.all_rows),
            None if axis is None else axis.name,
        )
    )
    if results.detail == "full":
        _log_pages(experiment, sweep_run, results, comparisons)


def _first_runs(finished: Iterable[Entry]) -> dict[Place, Entry]:
    """The first finished run of each place."""
    first: dict[Place, Entry] = {}
    for entry in finished:
        first.setdefault((entry.workload, entry.cluster, entry.setting), entry)
    return first


def _log_inputs(
    experiment: MlflowExperiment, sweep_run: str, store: ResultStore, first_runs: Iterable[Entry]
) -> None:
    """Log the different inputs of the sweep as datasets of its run."""
    found = {}
    for entry in first_runs:
        manifest = read_manifest(store.run_directory(entry.content_hash))
        for each in input_datasets(entry.workload, manifest):
            found[each.dataset.name, each.dataset.digest] = each
    inputs = list(found.values())
    for start in range(0, len(inputs), MOST_AT_ONCE):
        experiment.client.log_inputs(sweep_run, inputs[start : start + MOST_AT_ONCE])


def _settings(store: ResultStore, first_runs: Mapping[Place, Entry]) -> dict[Place, Settings]:
    """Settings of the places; none are read of a single place, which has no axis."""
    if len(first_runs) < 2:
        return {}
    return {
        place: place_settings(entry, stored_scenario(store.run_directory(entry.content_hash)))
        for place, entry in first_runs.items()
    }


def _log_lines(
    experiment: MlflowExperiment, sweep_run: str, axis: SweepAxis | None, results: LoggedSweep
) -> None:
    """Log a run per line over the axis; runs of other lines, or with other points, are removed."""
    charted = charted_metrics(results.metrics)
    lines = {line.name: _line(axis.name, line, charted, results) for line in axis.lines} if axis else {}
    digests = {name: _digest(metrics) for name, metrics in lines.items() if metrics}
    there = set()
    for name, info in experiment.by_line.items():
        if experiment.tags[info.run_id].get(_POINTS_TAG, "") == digests.get(name):
            there.add(name)
        else:
            experiment.client.delete_run(info.run_id)
    for name in (each for each in digests if each not in there):
        tags = {LINE_TAG: name, SWEEP_RUN_TAG: sweep_run}
        run = experiment.client.create_run(experiment.experiment_id, tags=tags, run_name=name)
        experiment.log_metrics(run.info.run_id, lines[name])
        experiment.client.set_terminated(run.info.run_id, "FINISHED")
        experiment.client.set_tag(run.info.run_id, _POINTS_TAG, digests[name])


def _line(axis: str, line: AxisLine, charted: Sequence[str], results: LoggedSweep) -> list[Metric]:
    """The charted metrics of a line and their intervals; points without a result are left out."""
    names = {f"{name}{end}" for name in charted for end in ("", *INTERVAL_ENDS)}
    means = {
        x: configuration_metrics(results.rows[group.label])
        for x, group in line.points.items()
        if group.label in results.rows
    }
    return line_metrics(
        axis, {x: {name: value for name, value in each.items() if name in names} for x, each in means.items()}
    )


def _digest(metrics: Iterable[Metric]) -> str:
    content = [(each.key, each.step, each.value) for each in metrics]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _log_views(experiment: MlflowExperiment, axis: SweepAxis | None, results: LoggedSweep) -> None:
    """Log the prepared page, with lines if there is an axis; the page of bars is a second one then."""
    metrics = results.metrics | {*(TIME_CHARTS if results.detail == "full" else ())}
    bars = view_state(metrics)
    if axis is None:
        experiment.log_view(bars)
    else:
        experiment.log_view(axis_view_state(axis.name, metrics))
        experiment.log_view(bars, CONFIGURATIONS_VIEW_TAG)


def _log_pages(
    experiment: MlflowExperiment,
    sweep_run: str,
    results: LoggedSweep,
    comparisons: Mapping[Place, PlaceComparison],
) -> None:
    """Log the report of the sweep, and a picture per place with a curve per policy."""
    store = results.store
    for index, (place, curves) in enumerate(store.jct_curves(results.done(results.entries))):
        experiment.log_bytes(sweep_run, f"jct_cdf_{index}.png", jct_cdf_png(curves, place_title(place)))
    page, _ = results_page(results.name, store, results.entries, results.errors, comparisons)
    experiment.log_bytes(sweep_run, "report.html", page_bytes(page))
