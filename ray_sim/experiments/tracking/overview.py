"""Record of a sweep as a whole in MLflow: table, inputs, lines over an axis, pages, description, report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ray_sim.experiments.axis import Settings, place_settings
from ray_sim.experiments.report import page_bytes, results_page
from ray_sim.experiments.results.result_files import read_manifest
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import read_run_manifest
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.experiments.tracking.axis import AxisLine, SweepAxis, find_axis
from ray_sim.experiments.tracking.experiment import MOST_AT_ONCE, SWEEP_RUN_TAG, MlflowExperiment
from ray_sim.experiments.tracking.records import input_datasets, line_metrics
from ray_sim.experiments.tracking.views import (
    CONFIGURATIONS_VIEW_TAG,
    INTERVAL_ENDS,
    LINE_TAG,
    TIME_CHARTS,
    VIEW_TAG,
    SeedGroup,
    axis_view_state,
    charted_metrics,
    charts_path,
    configuration_metrics,
    view_state,
)
from ray_sim.model.text import markdown_text
from ray_sim.reports.findings import PlaceComparison, compare_places, sweep_findings
from ray_sim.reports.plots import jct_cdf_png
from ray_sim.reports.tables import Place, RunRow, place_title, sweep_table

if TYPE_CHECKING:
    from mlflow.entities import Metric


MOST_CHARACTERS = 4500
"""Largest length of a description; MLflow from 3.1 on takes 5,000 characters."""


_MORE = "\n\nMore findings: `ray-sim report`."


def description(
    name: str,
    experiment_id: str,
    state: str,
    findings: Mapping[Place, Sequence[str]],
    axis: str | None,
) -> str:
    """Description in Markdown; names from files and traces are text in it, never markup.

    Parameters
    ----------
    state : numbers of runs, such as ``1 of 2 runs done, 1 failed``
    findings : sentences by place; the text ends before the first one that would make it too long
    axis : name of the axis over which the first page has lines; None for bars
    """
    bold = f"**{markdown_text(name)}**"
    end = (
        "\n\nIn brackets: 95 % intervals over seeds. Verdicts as by `ray-sim compare`, at 5 % after Holm's "
        f"correction. The run {bold} has the table (comparison.csv); a sweep with log: full also has the "
        "pictures and the report there (report.html)."
    )
    # MLflow shows the first line only, until a reader unfolds the rest.
    text = f"Sweep {bold}: {state}. {_first(findings)}\n\n{_pages(experiment_id, axis)}"
    room = MOST_CHARACTERS - len(end) - len(_MORE)
    for line in (line for place, sentences in findings.items() for line in _place(place, sentences)):
        if len(text) + len(line) > room:
            return text + _MORE + end
        text += line
    return text + end


def _first(findings: Mapping[Place, Sequence[str]]) -> str:
    """The first finding, with its place if there are several."""
    for place, sentences in findings.items():
        where = f"{place_title(place)}: " if len(findings) > 1 else ""
        if sentences:
            return markdown_text(f"{where}{sentences[0]}")
    return ""


def _pages(experiment_id: str, axis: str | None) -> str:
    """Links to the prepared pages, as MLflow's pages have them."""
    if axis is None:
        return f"[Charts]({charts_path(experiment_id, VIEW_TAG)}): configurations, best first."
    return (
        f"[Lines over {markdown_text(axis)}]({charts_path(experiment_id, VIEW_TAG)}), "
        f"[configurations as bars]({charts_path(experiment_id, CONFIGURATIONS_VIEW_TAG)})."
    )


def _place(place: Place, sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences as lines of a list, the first with the heading."""
    heading = f"\n\n**{markdown_text(place_title(place))}**\n"
    for each in sentences:
        yield f"{heading}\n- {markdown_text(each)}"
        heading = ""


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
        first.setdefault(entry.place, entry)
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
        place: place_settings(entry, read_run_manifest(store.run_directory(entry.content_hash)).scenario)
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
    for index, (place, data) in enumerate(store.places(results.done(results.entries))):
        experiment.log_bytes(sweep_run, f"jct_cdf_{index}.png", jct_cdf_png(data.jct_s, place_title(place)))
    page, _ = results_page(results.name, store, results.entries, results.errors, comparisons)
    experiment.log_bytes(sweep_run, "report.html", page_bytes(page))
