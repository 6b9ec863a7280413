"""Reproduction of published figures: all of their runs as one sweep, verdicts on their shapes, and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Unpack

from ray_sim.experiments.figures.cells import ARRIVED_LOAD, Cell, flat_entries, without_folders
from ray_sim.experiments.figures.file import Figure, places_of
from ray_sim.experiments.packing import packing_of
from ray_sim.experiments.report import write_page
from ray_sim.experiments.results.result_files import read_summary, read_timing
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep import SweepOptions, SweepReport, run_sweep
from ray_sim.experiments.sweep_entries import Configuration, Sweep
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.reports.compare import completion_notes, lower_is_better
from ray_sim.reports.curves import Axis, Point
from ray_sim.reports.figure_page import FigureChoice, FigureResult, figures_page
from ray_sim.reports.packing_curve import SHARES
from ray_sim.reports.shape_samples import Comparison, Samples, X
from ray_sim.reports.shapes import JudgedCheck, judge
from ray_sim.reports.statements import Check
from ray_sim.reports.statistics import mean_interval, metric_range

TIMING = "timing."
"""Beginning of the metrics that are wall-clock figures, from timing.json."""

PACKING = "packing."
"""Beginning of the percentages of a packing curve, such as ``packing.alloc.100`` at load 100."""


def figure_samples(cells: Sequence[Cell], xs: Sequence[X], metric: str, store: ResultStore) -> Samples:
    """Values of a metric in the finished runs; runs without the metric are left out.

    Parameters
    ----------
    xs : all values of x of the figure; a run that belongs to every x counts at each
    """
    values: dict[tuple[str, X], dict[int | None, float]] = {}
    known: set[str] = set()
    nulls: set[str] = set()
    # Once for all loads of a run.
    read = cache(partial(_entries, store, HashedInputs(), metric.partition(".")[0]))
    for cell in cells:
        content_hash = cell.configuration.entry.content_hash
        if not store.has(content_hash):
            continue
        entries = read(content_hash)
        numbers = {key: float(each) for key, each in entries.items() if isinstance(each, int | float)}
        known |= numbers.keys()
        nulls |= {key for key, each in entries.items() if each is None}
        # The summary omits a reason that no job has; it counts as 0.
        value = numbers.get(_metric_at(cell, metric), 0.0 if metric.startswith("reasons.") else None)
        if value is None:
            continue
        for x in xs if cell.everywhere else [cell.x]:
            values.setdefault((cell.series, x), {})[cell.seed] = value
    if not values and any(key == metric or metric.startswith(f"{key}.") for key in nulls):
        raise InvalidInputError(f"metric '{metric}' is null in all runs")
    if known and not values:
        raise UnknownNameError("metric", metric, known)
    return Samples(values, metric_range(metric))


def _metric_at(cell: Cell, metric: str) -> str:
    """The metric of the run that the cell shows: of a packing curve at the load of the cell."""
    along = metric.startswith(PACKING) and ARRIVED_LOAD in cell.coordinates
    return f"{metric}.{cell.coordinates[ARRIVED_LOAD]}" if along else metric


def _entries(store: ResultStore, inputs: HashedInputs, group: str, content_hash: str) -> dict[str, object]:
    """Entries of the summary by metric, with nulls; or of timing.json or the packing curve, by `group`."""
    directory = store.run_directory(content_hash)
    if f"{group}." == TIMING:
        return flat_entries(group, read_timing(directory))
    if f"{group}." == PACKING:
        curve = packing_of(directory, inputs).to_dict()
        return flat_entries(group, {name: dict(enumerate(curve[name])) for name in SHARES})
    parts = read_summary(directory).to_dict()
    return {name: each for key, part in parts.items() for name, each in flat_entries(key, part).items()}


NAME = "reproduce"
"""Name of the sweep of all figures, and of the folder of its results."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of figures."""

    sweep: SweepReport | None
    """None if no figure has runs."""
    page: Path | None
    results: tuple[FigureResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every run is done and logged; figures whose data is missing have none."""
        return self.sweep is None or self.sweep.ok

    @property
    def errors(self) -> list[str]:
        """Why figures could not be judged."""
        return [result.error for result in self.results if result.error is not None]

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return {
            "sweep": None if self.sweep is None else {**self.sweep.to_dict(), "table": []},
            "page": None if self.page is None else str(self.page),
            "figures": [result.to_dict() for result in self.results],
        }


def reproduce(
    figures: Sequence[Figure],
    inputs: HashedInputs,
    directory: Path | None = None,
    *,
    verdicts: bool = True,
    **options: Unpack[SweepOptions],
) -> Reproduction:
    """Run figures, judge their shapes and write the page; other arguments and errors as `run_sweep`.

    Parameters
    ----------
    inputs : those with which the figures were read
    verdicts : whether to judge shapes; of quick figures they would mean nothing
    """
    sweep = merged(figures, inputs)
    if not sweep.configurations:
        return Reproduction(None, None, tuple(_not_run(figure) for figure in figures))
    ended = run_sweep(sweep, directory, **options)
    if "announce" in options:
        options["announce"]("judging")
    store = ResultStore(ended.directory)
    results = tuple(
        _result_or_error(figure, store, verdicts=verdicts) if figure.cells else _not_run(figure)
        for figure in figures
    )
    page = ended.directory / page_name(figures)
    write_page(figures_page(results), page)
    return Reproduction(ended, page, results)


def page_name(figures: Sequence[Figure]) -> str:
    """File of the page: of one figure its name, of several `reproduce.html`."""
    return f"{figures[0].name.replace('/', '-') if len(figures) == 1 else NAME}.html"


def merged(figures: Sequence[Figure], inputs: HashedInputs) -> Sweep:
    """The runs of figures as one sweep, each once, labelled by the first figure that has it."""
    configurations: dict[str, Configuration] = {}
    for figure in figures:
        named = [
            (figure.name, figure.cells),
            *((f"{figure.name}, {each.choice} {each.name}", each.cells) for each in figure.alternatives),
        ]
        for name, cells in named:
            for cell in cells:
                labelled = _labelled(name, figure.folders, cell)
                configurations.setdefault(labelled.entry.content_hash, labelled)
    return Sweep(NAME, tuple(configurations.values()), 0, inputs, "numbers")


def _labelled(name: str, folders: Sequence[str], cell: Cell) -> Configuration:
    """The run with a name before its label, and names of files without their folders."""
    entry = cell.configuration.entry
    workload, cluster, setting, policy = (
        str(without_folders(label, folders))
        for label in (entry.workload, entry.cluster, entry.setting, entry.policy)
    )
    labelled = replace(entry, workload=f"{name}: {workload}", cluster=cluster, setting=setting, policy=policy)
    return replace(cell.configuration, entry=labelled)


def _result_or_error(figure: Figure, store: ResultStore, *, verdicts: bool) -> FigureResult:
    """The result, or the error in its place, so that other figures are still judged."""
    try:
        return figure_result(figure, store, verdicts=verdicts)
    except InvalidInputError as error:
        return replace(_not_run(figure), done=_done(figure, store), error=str(error))


def _done(figure: Figure, store: ResultStore) -> int:
    return sum(store.has(content_hash) for content_hash in figure.configurations)


def figure_result(figure: Figure, store: ResultStore, *, verdicts: bool = True) -> FigureResult:
    """Points and verdicts of a figure from the finished runs in a store.

    Raises
    ------
    InvalidInputError : no finished run has a value of a metric; the message names the file and the check
    """
    xs, metric = places_of(figure.cells), figure.spec.metric
    metrics = _metrics(figure, figure.checks if verdicts else ())

    def samples(cells: Sequence[Cell], prefix: str = "") -> dict[str, Samples]:
        found = {}
        for each, where in metrics.items():
            try:
                found[each] = figure_samples(cells, xs, each, store)
            except InvalidInputError as error:
                raise InvalidInputError(f"{figure.path}: {prefix}{where}: {error}") from error
        return found

    own = samples(figure.cells)
    alternatives = {
        (each.choice, each.name): samples(each.cells, f"choices.{each.choice}, ")
        for each in (figure.alternatives if verdicts else ())
    }

    def judged(check: Check) -> JudgedCheck:
        return judge(
            check,
            _compared(figure, check, own),
            {name: _compared(figure, check, samples) for name, samples in alternatives.items()},
        )

    return replace(
        _not_run(figure),
        xs=tuple(xs),
        points=tuple(_points(figure, xs, own[metric])),
        checks=tuple(_with_reasons([judged(check) for check in figure.checks])) if verdicts else (),
        done=_done(figure, store),
        completions=_completions(figure, xs, store) if metric.startswith("jct_s.") else None,
    )


def _with_reasons(checks: Sequence[JudgedCheck]) -> Iterator[JudgedCheck]:
    """Yield the checks with the verdicts of those that they name as reasons."""
    verdicts = {check.name: check.verdict for check in checks}
    for check in checks:
        reason = check.because
        yield replace(check, because=None if reason is None else f"{reason}: {verdicts[reason]}")


def _completions(figure: Figure, xs: Sequence[X], store: ResultStore) -> str | None:
    """Remark on the first x at which series complete different numbers of jobs, and the number of others."""
    completed = figure_samples(figure.cells, xs, "completed", store).values
    notes = completion_notes(
        (x, series, seed, jobs)
        for (series, x), by_seed in completed.items()
        for seed, jobs in by_seed.items()
    )
    if not notes:
        return None
    first, more = next(iter(notes)), f" and {len(notes) - 1} more" if len(notes) > 1 else ""
    return f"At x = {first}{more}: {notes[first]}"


def _metrics(figure: Figure, checks: Sequence[Check]) -> dict[str, str]:
    """The metrics, each with the place in the file that names it first."""
    found = {figure.spec.metric: "figure.metric"}
    for index, check in enumerate(checks):
        if check.metric is not None:
            found.setdefault(check.metric, f"shape[{index}].metric, check '{check.name}'")
    return found


def _compared(figure: Figure, check: Check, samples: Mapping[str, Samples]) -> list[Comparison]:
    """Comparisons of a check on samples by metric."""
    metric = check.metric or figure.spec.metric
    lower = metric.startswith(TIMING) or lower_is_better(metric)
    if figure.spec.better is not None and metric == figure.spec.metric:  # the figure says so of its own
        lower = figure.spec.better == "lower"
    return check.compare(samples[metric], figure.series, places_of(figure.cells), lower=lower)


def _points(figure: Figure, xs: Sequence[X], samples: Samples) -> list[Point]:
    published = figure.spec.published.values
    points = []
    for series in figure.series:
        for x in xs:
            (values,) = samples.paired((series, (x,)))
            if len(values):
                printed = published.get(series, {}).get(x)
                mean = float(values.mean())
                interval = mean_interval(values, samples.range)
                points.append(Point(series, x, len(values), mean, interval, printed))
    return points


def _not_run(figure: Figure) -> FigureResult:
    """The result without points and verdicts."""
    spec = figure.spec
    return FigureResult(
        name=figure.name,
        given=figure.given,
        title=spec.title,
        source=spec.source,
        x=Axis(spec.x.label, spec.x.unit, spec.x.log),
        y=Axis(spec.y.label, spec.y.unit, spec.y.log),
        xs=(),
        series=figure.series,
        points=(),
        checks=(),
        facts=tuple(spec.published.facts),
        planned=len(figure.configurations),
        done=0,
        missing={name: spec.data[name] for name in figure.missing},
        choices=tuple(
            FigureChoice(each.id, each.ours, each.source, tuple(each.alternatives)) for each in figure.choices
        ),
    )
