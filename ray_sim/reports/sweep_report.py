"""Report of a sweep: policies side by side for each workload, cluster and setting.

`ray_sim.experiments.report` fills a table by `CONFIGURATIONS_SCHEMA` and writes the page from stored results.
Titles and order of the sections are free to change:
docs/reports.md describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ray_sim.model.readable import in_seconds
from ray_sim.model.result import JobStatus
from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray
from ray_sim.reports.charts import JOB_COLUMNS, box_chart, interval_chart, jct_chart
from ray_sim.reports.compare import PolicyComparison
from ray_sim.reports.findings import PlaceComparison, certificate_text, findings, percent_text
from ray_sim.reports.page import (
    MOST_POINTS,
    STEPS,
    Cell,
    Chart,
    Facts,
    Page,
    Section,
    Table,
    fact_texts,
    frame_table,
    line_points,
    number_cell,
    timeline_lines,
    without_constants,
)
from ray_sim.reports.statistics import interval_text, mean_interval, metric_range
from ray_sim.reports.tables import (
    KEYS,
    Place,
    RunRow,
    best_value,
    columns_in_use,
    first_warnings,
    legend,
    place_title,
    sweep_headings,
    sweep_table,
)

MOST_CLASSES = 6
"""Virtual clusters, and users, in the box plots; those with the most jobs."""

_SIZES = (1.0, 4.0, 8.0)
_SIZE = "size"
"""Column of the class of a job's number of GPUs."""
_SIZE_LABELS = ("1 GPU or less", "2 to 4 GPUs", "5 to 8 GPUs", "more than 8 GPUs")
OWNERS = ("vc", "user")
"""Columns of those to whom jobs belong, among whom a scheduler may be fair."""

PLACE_COLUMNS = (
    *("job_id", "vc", "user", "num_gpus", "submit_s", "duration_s"),
    *("jct_s", "queue_s", "run_s", "status"),
)
"""Columns of jobs.parquet that these parts use."""

MOST_TIMELINES = 3
"""Seeds of each policy whose timelines a page has."""


@dataclass(frozen=True, slots=True)
class PlaceData:
    """Results of the finished runs of one place."""

    jct_s: Mapping[str, FloatArray]
    """JCTs by policy, all seeds together, ascending, in seconds."""
    jobs: pl.DataFrame | None = None
    """Jobs of all runs: `PLACE_COLUMNS`, ``policy`` and ``seed``."""
    timelines: Mapping[str, Mapping[int | None, pl.DataFrame]] = field(default_factory=dict)
    """Timelines of the first seeds of each policy, at most `MOST_TIMELINES`, by policy and seed."""


Places = Iterable[tuple[Place, PlaceData]]
"""Results by place, read one after the other, so that memory holds those of one place."""

CONFIGURATIONS_SCHEMA = {
    **dict.fromkeys(KEYS, pl.String()),
    "seed": pl.Int64(),
    **dict.fromkeys(("state", "hash", "directory", "error"), pl.String()),
}
"""Columns of the table of a sweep's configurations; `state` is done, failed or missing.

`directory` is relative to the sweep's results; `error` is null unless failed.
"""

_CONFIGURATION = {**{key: key for key in KEYS}, "seed": "seed", "state": "state"}


def sweep_page(
    name: str,
    rows: Sequence[RunRow],
    comparisons: Mapping[Place, PlaceComparison],
    places: Places,
    configurations: pl.DataFrame,
    axes: Iterable[Section] = (),
    gantts: Callable[[Place], Chart | None] = lambda _: None,
    inputs: Facts = (),
) -> Page:
    """Build the report of a sweep.

    Parameters
    ----------
    comparisons : those of the finished runs, by `ray_sim.reports.findings.compare_places`
    configurations : table with the columns of `CONFIGURATIONS_SCHEMA`
    axes : by `ray_sim.reports.across`
    gantts : from a place to the chart of some runs' jobs on servers; None where there is none
    inputs : facts of the workloads and clusters
    """
    states = dict(configurations.group_by("state").len().iter_rows())
    counts = [f"{states[state]} {state}" for state in ("done", "failed", "missing") if state in states]
    means, warnings = sweep_table(rows), tuple(first_warnings(rows).items())
    listing = frame_table(configurations, {**_CONFIGURATION, "hash": "hash", "directory": "directory"})
    return Page(
        title=f"Sweep {name}",
        subtitle=f"{len(configurations)} configurations: {', '.join(counts)}",
        sections=(
            *_failures(configurations),
            *([Section("Warnings, the first of each policy", facts=warnings)] if warnings else []),
            *axes,
            *(_place(place, means, rows, comparisons[place], data, gantts(place)) for place, data in places),
            *([Section("What ran", facts=fact_texts(inputs))] if inputs else []),
            Section("Configurations", tables=(listing,), folded=True),
        ),
    )


def _failures(configurations: pl.DataFrame) -> tuple[Section, ...]:
    failed = configurations.filter(pl.col("state") == "failed")
    if failed.is_empty():
        return ()
    headings = {**_CONFIGURATION, "error": "error"}
    del headings["state"]
    return (Section("Failed configurations", tables=(frame_table(failed, headings),)),)


def _place(
    place: Place,
    means: pl.DataFrame,
    rows: Sequence[RunRow],
    compared: PlaceComparison,
    data: PlaceData,
    gantts: Chart | None,
) -> Section:
    here = means.filter(workload=place[0], cluster=place[1], setting=place[2])
    runs = [row for row in rows if row.place == place]
    ranked, headings = _same_seeds(runs), {"policy": "policy", **sweep_headings(here)}
    note = (
        "Means over seeds. The best of a column is marked where policies differ."
        if ranked
        else "Means over each policy's own seeds, which differ: no best is marked."
    )
    if words := legend(headings.values()):
        note += f" {words}."
    table = without_constants(
        frame_table(here, headings, best_value if ranked else lambda _: None, note=note)
    )
    jobs = data.jobs
    fairness = [] if jobs is None else [fairness_table(jobs, owner) for owner in OWNERS]
    tables = (verdict_table(compared), table, reject_table(runs), *fairness)
    return Section(
        place_title(place),
        text=tuple(filter(None, [" ".join(findings(compared)), certificate_text(here)])),
        tables=tuple(each for each in tables if each is not None),
        charts=(
            *summary_charts(compared, here, runs),
            *difference_charts(compared, runs),
            *jct_charts(data),
            *place_charts(data),
            *([] if gantts is None else [gantts]),
        ),
    )


def _same_seeds(runs: Sequence[RunRow]) -> bool:
    """Whether all policies whose runs depend on a seed have finished the same seeds."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        if run.seed is not None:
            seeds.setdefault(run.policy, set()).add(run.seed)
    return len(set(map(frozenset, seeds.values()))) < 2


def difference_charts(place: PlaceComparison, rows: Sequence[RunRow]) -> list[Chart]:
    """Differences to the best policy with intervals, and those of single seeds; none of one policy."""
    compared = place.comparison
    if compared is None or not compared.common_seeds:
        return []
    best, values = compared.baseline, _by_seed(rows, place.metric)
    pairs = [(each.policy, each.difference, each.interval) for each in compared.policies]
    means = {policy: (mean, interval) for policy, mean, interval in pairs if mean is not None}
    paired = {policy: _minus(values[policy], values[best]) for policy in means}
    caption, title = f"Difference to {best}, paired by seed", f"{place.name} minus that of {best}"
    return [interval_chart(caption, title, means, paired, in_s=in_seconds(place.metric))]


def _by_seed(rows: Sequence[RunRow], metric: str) -> dict[str, dict[int | None, float]]:
    values: dict[str, dict[int | None, float]] = {}
    for row in rows:
        if (value := row.summary.flat().get(metric)) is not None:
            values.setdefault(row.policy, {})[row.seed] = float(value)
    return values


def _minus(values: Mapping[int | None, float], best: Mapping[int | None, float]) -> dict[int | None, float]:
    """Differences by seed; a run that depends on no seed is paired with each."""
    seeds = list(values if None not in values else best)
    pairs = {seed: (values.get(seed, values.get(None)), best.get(seed, best.get(None))) for seed in seeds}
    return {seed: a - b for seed, (a, b) in pairs.items() if a is not None and b is not None}


def summary_charts(place: PlaceComparison, means: pl.DataFrame, rows: Sequence[RunRow]) -> list[Chart]:
    """The metric that compares, mean queueing delay and utilisations by policy, with intervals over seeds."""
    titles = {place.metric: place.name, "queue_s.mean": "mean queueing delay"}
    used = columns_in_use(means, "utilisation.")
    titles |= {column: f"utilisation, used over offered {resource}" for column, resource in used.items()}
    charts = []
    for column, title in titles.items():
        found = {}
        for policy, by_seed in _by_seed(rows, column).items():
            values = np.array([*by_seed.values()])
            found[policy] = float(values.mean()), mean_interval(values, metric_range(column))
        charts.append(
            interval_chart(f"{title[:1].upper()}{title[1:]}", title, found, in_s=in_seconds(column))
        )
    return charts


def verdict_table(place: PlaceComparison, heading: str = "policy", *, is_best: bool = True) -> Table | None:
    """Means with intervals, and paired differences to the baseline; None with fewer than two policies.

    Parameters
    ----------
    heading : what is compared
    is_best : whether the baseline is the best, if all have common seeds
    """
    compared, text = place.comparison, place.text
    if compared is None:
        return None
    best = compared.baseline
    is_best = is_best and compared.common_seeds > 0
    title = "best mean" if is_best else "baseline"
    changes = {best: ("-", "-", title)} | {each.policy: _change(each, text) for each in compared.policies}
    marked = best if is_best else None
    lines = []
    for policy, change in changes.items():
        values = place.values[policy]
        mean = number_cell(text(float(np.mean(values))), best=policy == marked)
        cells = map(number_cell, (place.interval(policy), *change[:2], len(values)))
        lines.append((Cell(policy), Cell(change[2]), mean, *cells))
    return Table(
        columns=(heading, "verdict", place.name, "95 % interval", f"minus {best}", "in %", "seeds"),
        rows=tuple(lines),
        note=f"Differences to {best} are paired over seeds, in brackets their 95 % intervals; verdicts at "
        "5 % after Holm's correction over these differences, as by ray-sim compare.",
    )


def _change(each: PolicyComparison, text: Callable[[float], str]) -> tuple[str, str, str]:
    """Difference to the baseline, the same in percent, and the verdict."""
    if each.difference is None or each.relative_percent is None:
        return "-", "-", str(each.verdict)
    difference = f"{text(each.difference)} ({interval_text(each.interval, each.pairs, text)})"
    return difference, percent_text(each), str(each.verdict)


def reject_table(rows: Sequence[RunRow]) -> Table | None:
    """Jobs that did not complete by policy and reason, as means over seeds; None if all completed."""
    counts: dict[str, list[Mapping[str, int]]] = {}
    for row in rows:
        counts.setdefault(row.policy, []).append(row.summary.reasons)
    reasons = list(dict.fromkeys(reason for each in counts.values() for found in each for reason in found))
    if not reasons:
        return None
    lines = []
    for policy, found in counts.items():
        means = [float(np.mean([each.get(reason, 0) for each in found])) for reason in reasons]
        lines.append((Cell(policy), *map(number_cell, means)))
    note = "Jobs that did not complete, by reason: means over seeds."
    return Table(("policy", *reasons), tuple(lines), note)


def jct_charts(data: PlaceData) -> list[Chart]:
    """Completion times over all seeds, and boxes by number of GPUs, by vc and by user where there are any."""
    if data.jobs is None:
        return [jct_chart("Job completion times", data.jct_s, {})]
    done = _with_sizes(data.jobs).sort("jct_s", maintain_order=True)
    classes, captions = {_SIZE: _sizes(done)}, {_SIZE: "JCT by size of job"}
    for owner in OWNERS:
        counts = done.drop_nulls(owner).group_by(owner).len()
        most = counts.sort(["len", owner], descending=[True, False])
        if most.height > 1:
            classes[owner] = most[owner].head(MOST_CLASSES).to_list()
            the_most = f", the {MOST_CLASSES} with most jobs" if most.height > MOST_CLASSES else ""
            captions[owner] = f"JCT by {owner}{the_most}"
    boxes = [box_chart(captions[by], _groups(done, by, labels), by) for by, labels in classes.items()]
    numbers = [
        pl.col(by).replace_strict(labels, range(len(labels)), default=None) for by, labels in classes.items()
    ]
    known = done.select("policy", *JOB_COLUMNS, *numbers).partition_by(
        "policy", as_dict=True, include_key=False
    )
    jobs = {policy: known[(policy,)] for policy in data.jct_s if (policy,) in known}
    return [jct_chart("Job completion times", data.jct_s, jobs), *boxes]


def _with_sizes(jobs: pl.DataFrame) -> pl.DataFrame:
    """The completed jobs with the class of their number of GPUs."""
    done = jobs.filter(pl.col("status") == JobStatus.COMPLETED)
    index = np.searchsorted(_SIZES, done["num_gpus"].to_numpy(), side="left")
    return done.with_columns(pl.Series(_SIZE, np.array(_SIZE_LABELS)[index], dtype=pl.String))


def jct_by_size(jobs: pl.DataFrame) -> dict[str, dict[str, FloatArray]]:
    """JCTs in seconds of the completed jobs by number of GPUs and policy; sizes without jobs are left out."""
    done = _with_sizes(jobs)
    return _groups(done, _SIZE, _sizes(done))


def _sizes(done: pl.DataFrame) -> list[str]:
    return [label for label in _SIZE_LABELS if label in set(done[_SIZE])]


def _groups(jobs: pl.DataFrame, by: str, labels: Sequence[str]) -> dict[str, dict[str, FloatArray]]:
    """JCTs by class and policy, in the order of appearance of the policies."""
    policies = jobs["policy"].unique(maintain_order=True).to_list()
    parts = {key: part["jct_s"].to_numpy() for key, part in jobs.group_by(by, "policy")}
    empty = np.zeros(0)
    return {label: {policy: parts.get((label, policy), empty) for policy in policies} for label in labels}


def fairness_table(jobs: pl.DataFrame, owner: str) -> Table | None:
    """Fairness among virtual clusters or users by policy; None with fewer than two of them.

    The progress of an owner is the mean of run time / JCT of the completed jobs. Jain's index of n numbers x
    is (sum x)^2 / (n sum x^2): 1 if all are equal, 1 / n if one has everything.
    """
    done = jobs.filter((pl.col("status") == JobStatus.COMPLETED) & (pl.col("jct_s") > 0)).drop_nulls(owner)
    if done[owner].n_unique() < 2:
        return None
    progress = pl.col("duration_s") / pl.col("jct_s")
    by_owner = done.group_by("policy", owner, maintain_order=True).agg(progress.mean().alias("progress"))
    lines = []
    for (policy,), part in by_owner.group_by("policy", maintain_order=True):
        x = part["progress"].to_numpy()
        worst = part.sort("progress", owner).row(0, named=True)
        squares = len(x) * float((x**2).sum())
        index = float(x.sum()) ** 2 / squares if squares else None
        slowest = Cell(str(worst[owner])), number_cell(float(worst["progress"]))
        lines.append((Cell(str(policy)), number_cell(len(x)), number_cell(index), *slowest))
    return Table(
        ("policy", f"{owner}s", "Jain's index", f"slowest {owner}", "its progress"),
        tuple(lines),
        f"Progress of a {owner}: mean of run time / JCT of the completed jobs. "
        "Jain's index is 1 if all are equal.",
    )


def place_charts(data: PlaceData) -> list[Chart]:
    """Queue length and use of each resource over time by policy, of the first seeds."""
    runs = [(policy, *run) for policy, timelines in data.timelines.items() for run in timelines.items()]
    focus_s = None if data.jobs is None else float(str(data.jobs["submit_s"].max() or 0.0))
    columns = {"waiting": ("Jobs waiting", "jobs")}
    names = dict.fromkeys(name for _, _, each in runs for name in each.columns if name.startswith("used_"))
    columns |= {name: (f"{name[5:]} in use", name[5:]) for name in names}
    most = MOST_POINTS // max(map(len, data.timelines.values()), default=1)
    charts = []
    for column, (caption, unit) in columns.items():
        series = []
        for policy, seed, timeline in runs:
            if column in timeline.columns and timeline[column].sum():
                line = line_points(timeline_lines(timeline, {column: policy})[policy], most)
                series.append({"name": shown(policy), **({} if seed is None else {"seed": seed}), **line})
        if series:
            axes = {"x": "time", "y_title": unit, "focus_s": focus_s, "shared": True}
            charts.append(Chart(caption, {**STEPS, **axes, "series": series}))
    return charts
