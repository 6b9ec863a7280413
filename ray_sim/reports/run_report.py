"""Report of one run: inputs, outcome, charts over time and tables by kind of job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from ray_sim.model.result import JobStatus, RunResult
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.reports.findings import bound_text
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.history.explanation_text import MOST_IN_PAGE, explanation_sections
from ray_sim.reports.history.gantt import Gantt, gantt
from ray_sim.reports.history.holdings import FreeCapacity, History, RunFacts, read_history
from ray_sim.reports.history.reasons import Waits
from ray_sim.reports.page import (
    Chart,
    Facts,
    Page,
    Picture,
    Section,
    Table,
    fact_texts,
    frame_table,
    line_chart,
    timeline_lines,
    timeline_to_end,
)
from ray_sim.reports.plots import completed_jct_s, jct_cdf_svg
from ray_sim.reports.submission_times import after_first_text, first_submission_s, utc_text
from ray_sim.reports.tables import columns_in_use, in_human_units, legend, summary_rows
from ray_sim.reports.teams import team_section

SLOWEST = 10
"""Number of jobs in the table of the slowest."""

MOST_OWNERS = 25
"""Virtual clusters or users in a table; those with the most jobs are shown."""

_JCT = {
    "jobs": "jobs",
    "completed": "completed",
    "jct_s.mean": "mean JCT",
    "jct_s.median": "median",
    "jct_s.p90": "p90",
    "queue_s.mean": "mean queue",
}
_SLOWEST = {
    "job_id": "job",
    "vc": "vc",
    "num_gpus": "GPUs",
    "submitted": "submitted",
    "submitted_utc": "date, UTC",
    "jct_s": "JCT",
    "queue_s": "queue",
    "run_s": "run",
    "preemptions": "preemptions",
    "restarts": "restarts",
}


def run_page(
    title: str,
    subtitle: str,
    facts: Facts,
    provenance: Facts,
    result: RunResult,
    explainer: RunExplainer | None = None,
    no_reasons: str = "",
) -> Page:
    """Build the report of a run.

    `provenance` is in a collapsed section. Without an explainer the page lacks reasons, utilisation and
    fragmentation; `no_reasons` says why there is none.
    """
    left_out = (("left out: reasons of waits, fragmentation", no_reasons),) if no_reasons else ()
    summary, found, teams = result.summary, result.summary.certificate, result.teams
    warnings = tuple(("policy", text) for text in summary.policy_warnings or ())
    outcome = fact_texts(in_human_units(summary_rows(summary)))
    bound: tuple[str, ...] = ()
    if found is not None and found.gap is not None:
        words = legend(text for row in outcome for text in row)
        bound = bound_text("this run", found.bound_s, found.gap), f"{words}."
    times = Picture(jct_cdf_svg({"": completed_jct_s(result.jobs)}, "jct"), "Job completion times")
    by_size = frame_table(
        jct_by_size(result.jobs), {"gpus": "GPUs, up to", **_JCT},
        note="Times are over completed jobs.",
    )  # fmt: skip
    return Page(
        title,
        subtitle,
        (
            *([Section("Warnings", facts=warnings)] if warnings else []),
            Section("Summary", text=bound, facts=outcome),
            Section("Over the run", facts=left_out, charts=run_charts(result, explainer)),
            *([] if teams is None else [team_section(teams, result.jobs["vc"], explainer, no_reasons)]),
            Section("Completion times", pictures=(times,)),
            Section("Completion times by job size", tables=(by_size,)),
            *_by_owner(result.jobs, "vc", "virtual cluster"),
            *_by_owner(result.jobs, "user", "user"),
            Section("Slowest jobs", tables=(_slowest(result.jobs, explainer),)),
            Section("What ran", facts=fact_texts(facts)),
            Section("Hashes and versions", facts=fact_texts(provenance), folded=True),
        ),
    )


def _by_owner(jobs: pl.DataFrame, column: str, name: str) -> tuple[Section, ...]:
    by_owner = jct_by_owner(jobs, column)
    if by_owner.is_empty():
        return ()
    hidden = len(by_owner) - MOST_OWNERS
    note = f"{hidden} more with fewer jobs are left out." if hidden > 0 else ""
    table = frame_table(by_owner.head(MOST_OWNERS), {column: column, **_JCT}, note=note)
    return (Section(f"Completion times by {name}", tables=(table,)),)


def _slowest(jobs: pl.DataFrame, explainer: RunExplainer | None) -> Table:
    first_s = first_submission_s(jobs)
    epoch_utc = None if explainer is None else explainer.facts.epoch_utc
    slowest = slowest_jobs(jobs, SLOWEST)
    submit_s = slowest["submit_s"].to_list()
    slowest = slowest.with_columns(
        submitted=pl.Series([after_first_text(each - first_s) for each in submit_s], dtype=pl.String),
        submitted_utc=pl.Series([utc_text(epoch_utc, each) for each in submit_s], dtype=pl.String),
    )
    headings = {key: text for key, text in _SLOWEST.items() if slowest[key].count()}
    note = "Submissions count from the first of the run."
    return frame_table(slowest, headings, note=note)


def slowest_jobs(jobs: pl.DataFrame, count: int) -> pl.DataFrame:
    """The completed jobs of jobs.parquet with the longest JCT; ties by job order."""
    done = jobs.filter(pl.col("status") == JobStatus.COMPLETED)
    return done.sort("jct_s", descending=True, maintain_order=True).head(count)


def jct_by_size(jobs: pl.DataFrame) -> pl.DataFrame:
    """JCT by number of GPUs, in classes (0, 1], (1, 2], (2, 4] and so on, and 0 alone.

    Columns: ``gpus``, the class's upper end; jobs, completed; mean, median and p90 of jct_s, mean
    of queue_s, over completed jobs.
    """
    return _jct_by(jobs, size_class(pl.col("num_gpus")).alias("gpus")).sort("gpus")


def size_class(gpus: pl.Expr) -> pl.Expr:
    """Upper end of the class of a number of GPUs: 0, or a power of two."""
    # Rounded, since the computed logarithm of a power of two may exceed its exponent in the last digit.
    exponent = gpus.clip(lower_bound=1).log(2).round(9).ceil()
    return pl.when(gpus > 0).then(2.0**exponent).otherwise(0.0)


def jct_by_owner(jobs: pl.DataFrame, owner: str) -> pl.DataFrame:
    """JCT by ``vc`` or ``user``, columns as in `jct_by_size`, most jobs first; empty if the column is."""
    if jobs[owner].null_count() == len(jobs):
        return _jct_by(jobs.clear(), pl.col(owner))
    return _jct_by(jobs, pl.col(owner)).sort("jobs", descending=True, maintain_order=True)


def _jct_by(jobs: pl.DataFrame, key: pl.Expr) -> pl.DataFrame:
    done = pl.col("status") == JobStatus.COMPLETED
    jct_s = pl.col("jct_s")  # null unless completed
    return jobs.group_by(key, maintain_order=True).agg(
        pl.len().alias("jobs"),
        done.sum().alias("completed"),
        jct_s.mean().alias("jct_s.mean"),
        jct_s.median().alias("jct_s.median"),
        jct_s.quantile(0.9, interpolation="linear").alias("jct_s.p90"),
        pl.col("queue_s").filter(done).mean().alias("queue_s.mean"),
    )


MOST_EXPLAINED = 100
"""Jobs whose reasons are in the page: those that waited longest."""

_OWN_COLUMNS = {
    "beta": "beta, a dual variable of the policy",
    "primal": "primal objective of the policy",
    "dual": "dual objective of the policy",
    "welfare": "welfare so far",
    "revenue": "revenue so far",
    "speed_error": "error of estimated speeds",
    "convergence_error": "error of estimated remaining samples",
}
"""Captions of columns of the timeline that only some kinds of jobs and policies have."""
_COMMON = ("time_s", "waiting", "running")


def run_charts(result: RunResult, explainer: RunExplainer | None) -> tuple[Chart, ...]:
    """Charts of a run; without an explainer those that need neither demands nor capacities."""
    bars = run_gantt(result, explainer)
    timeline = timeline_to_end(result.timeline, result.jobs)
    note = f"{bars.left_out:,} shorter stays are left out." if bars.left_out else ""
    jobs = {"waiting": "waiting", "running": "running"}
    return (
        Chart("Jobs on servers", bars.data, note),
        line_chart("Jobs waiting and running", "jobs", timeline_lines(timeline, jobs)),
        *_utilisation(timeline, explainer),
        *([] if explainer is None else _placement_charts(explainer)),
        *_own(timeline),
    )


def run_gantt(
    result: RunResult, explainer: RunExplainer | None, most_explained: int = MOST_EXPLAINED
) -> Gantt:
    """Jobs on servers, with reasons for so many jobs that waited longest; without an explainer for none."""
    if explainer is None:
        names = tuple(result.events["server"].drop_nulls().unique(maintain_order=True).to_list())
        return gantt(read_history(result.events, result.jobs, names), names, result.jobs)
    bars = gantt(explainer.history, explainer.facts.servers, result.jobs, explainer.facts.there)
    told = _explanations(result.jobs, explainer, most_explained)
    return replace(bars, data={**bars.data, "explanations": told})


def _explanations(jobs: pl.DataFrame, explainer: RunExplainer, most: int) -> dict[str, object]:
    """Sections of text by job index, of the jobs that waited longest."""
    longest = longest_waits(jobs, most)["job"].to_list()
    return {str(job): explanation_sections(explainer.explain(job, MOST_IN_PAGE)) for job in longest}


def longest_waits(jobs: pl.DataFrame, most: int) -> pl.DataFrame:
    """The jobs that waited longest, with their index as `job`; ties by job order."""
    order = jobs.with_row_index("job").filter(pl.col("queue_s") > 0)
    return order.sort("queue_s", "job", descending=[True, False]).head(most)


def _utilisation(timeline: pl.DataFrame, explainer: RunExplainer | None) -> list[Chart]:
    used = columns_in_use(timeline, "used_")
    if not used:
        return []
    lines = timeline_lines(timeline, used)
    if explainer is None:
        return [line_chart(f"Use of {name}", name, {name: line}) for name, line in lines.items()]
    facts = explainer.facts
    counted = ~facts.cloud if facts.chunked else np.ones(len(facts.servers), dtype=np.bool_)
    totals = dict(zip(facts.resources, facts.arrays.capacity[counted].sum(axis=0).tolist(), strict=True))
    shares = {
        name: (time_s, values / (totals[name] / facts.resources[name]))
        for name, (time_s, values) in lines.items()
        if totals[name]
    }
    return [line_chart("Utilisation", "used over all servers, available or not", shares)]


def _placement_charts(explainer: RunExplainer) -> list[Chart]:
    facts, history = explainer.facts, explainer.history
    charts = []
    if not facts.chunked:
        pieces = fragmentation(facts, explainer.free, explainer.waits, np.unique(history.time_us))
        unit = "share of free capacity in too small pieces"
        lines = timeline_lines(pieces, {"fragmentation": "fragmentation"})
        charts.append(line_chart("Fragmentation", unit, lines))
    if facts.cloud.any() and not facts.cloud.all():
        places = {"edge and plain servers": ~facts.cloud, "cloud": facts.cloud}
        lines = _by_place(history, places)
        charts.append(line_chart("Tasks by place", "tasks, or chunks in progress", lines))
    return charts


def _by_place(history: History, places: Mapping[str, BoolArray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Tasks held on each set of servers over time."""
    stays = history.holdings
    lines = {}
    for name, servers in places.items():
        time_us, tasks = stays.over_time(np.where(servers[stays.server], stays.tasks, 0))
        lines[name] = (time_us / US_PER_S, tasks)
    return lines


def _own(timeline: pl.DataFrame) -> list[Chart]:
    """A chart for each column that the policy or the kind of jobs adds."""
    charts = []
    for name in timeline.columns:
        if name not in _COMMON and not name.startswith("used_") and timeline[name].count():
            caption = _OWN_COLUMNS.get(name, f"{name}, of the policy")
            charts.append(line_chart(caption, name, timeline_lines(timeline, {name: name})))
    return charts


MOST_INSTANTS = 500
"""Instants at which fragmentation is computed."""


def fragmentation(facts: RunFacts, free: FreeCapacity, waits: Waits, times_us: IntArray) -> pl.DataFrame:
    """Share of free capacity that the job that waits longest cannot use, at up to `MOST_INSTANTS` instants.

    At an instant, take the waiting job with the earliest submission and the servers of its partition. What is
    free on one server is a piece; it is too small if it holds neither the whole gang nor, where the gang is
    larger, the largest server's worth of it. Fragmentation is the share of free capacity in pieces that are
    too small, of the resource with the largest share: 0 if no job waits or nothing is free.
    """
    evenly = np.linspace(0, len(times_us) - 1, min(len(times_us), MOST_INSTANTS)).round()
    instants = times_us[np.unique(evenly.astype(np.int64))]
    by_time = np.argsort(free.time_us, kind="stable")
    state = np.zeros_like(facts.arrays.capacity)
    ends = np.searchsorted(free.time_us[by_time], instants, side="right")
    shares, begin = [], 0
    for time_us, end in zip(instants.tolist(), ends.tolist(), strict=True):
        rows = by_time[begin:end]
        state[free.server[rows]] = free.free[rows]
        begin = end
        now = (waits.begin_us <= time_us) & (time_us < waits.end_us)
        shares.append(_share(facts, state, waits.job[now]))
    return pl.DataFrame({"time_s": instants / US_PER_S, "fragmentation": np.array(shares)})


def _share(facts: RunFacts, free: IntArray, waiting: IntArray) -> float:
    """Fragmentation of free quanta, (S, R), for the first of the jobs that wait."""
    if not len(waiting):
        return 0.0
    job = int(waiting.min())  # jobs are numbered by submission
    mine = facts.eligible(job)
    whole = facts.whole_demand(job)
    needed = whole > 0
    pieces = np.maximum(free[mine][:, needed], 0)
    total = pieces.sum(axis=0)
    if not needed.any() or not (total > 0).any():
        return 0.0
    wanted = np.minimum(whole, facts.arrays.capacity[mine].max(axis=0))[needed]
    useful = np.all(pieces >= wanted, axis=1)
    lost = pieces[~useful].sum(axis=0)
    return float(np.max(lost[total > 0] / total[total > 0]))
