"""Report of one run: inputs, outcome, lines over time and tables by kind of job."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from ray_sim.model.readable import duration
from ray_sim.model.result import JobStatus, RunResult, Summary
from ray_sim.reports.findings import bound_text
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import Facts, Page, Picture, Section, Table, fact_texts, frame_table
from ray_sim.reports.plots import completed_jct_s, jct_cdf_svg
from ray_sim.reports.run_charts import run_charts
from ray_sim.reports.submission_times import after_first_text, first_submission_s, utc_text
from ray_sim.reports.tables import summary_rows

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

_DURATIONS = frozenset(
    {"jct_s.mean", "jct_s.median", "jct_s.p90", "queue_s.mean", "jct_s", "queue_s", "run_s"}
)


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

    Parameters
    ----------
    facts : parameters, world and seed
    provenance : hashes and versions, in a collapsed section
    explainer : reconstruction of the run; None leaves out reasons, utilisation and fragmentation
    no_reasons : why there is no explainer
    """
    left_out = (("left out: reasons of waits, fragmentation", no_reasons),) if no_reasons else ()
    return Page(
        title,
        subtitle,
        (
            *_warnings(result.summary),
            Section(
                "Summary",
                text=_bound(result.summary),
                facts=fact_texts(in_human_units(summary_rows(result.summary))),
            ),
            Section("Over the run", facts=left_out, charts=run_charts(result, explainer)),
            Section("Completion times", pictures=_pictures(result)),
            Section("Completion times by job size", tables=(_by_size(result.jobs),)),
            *_by_owner(result.jobs, "vc", "virtual cluster"),
            *_by_owner(result.jobs, "user", "user"),
            Section("Slowest jobs", tables=(_slowest(result.jobs, explainer),)),
            Section("What ran", facts=fact_texts(facts)),
            Section("Hashes and versions", facts=fact_texts(provenance), folded=True),
        ),
    )


def _warnings(summary: Summary) -> tuple[Section, ...]:
    texts = summary.policy_warnings
    return (Section("Warnings", facts=tuple(("policy", text) for text in texts)),) if texts else ()


def _bound(summary: Summary) -> tuple[str, ...]:
    bound = summary.certificate
    return () if bound is None or bound.gap is None else (bound_text("this run", bound.bound_s, bound.gap),)


def _pictures(result: RunResult) -> tuple[Picture, ...]:
    return (Picture(jct_cdf_svg({"": completed_jct_s(result.jobs)}, "jct"), "Job completion times"),)


def _by_size(jobs: pl.DataFrame) -> Table:
    headings = {"gpus": "GPUs, up to", **_JCT}
    return frame_table(
        jct_by_size(jobs), headings, note="Times are over completed jobs.", durations=_DURATIONS
    )


def _by_owner(jobs: pl.DataFrame, column: str, name: str) -> tuple[Section, ...]:
    by_owner = jct_by_owner(jobs, column)
    if by_owner.is_empty():
        return ()
    hidden = len(by_owner) - MOST_OWNERS
    note = f"{hidden} more with fewer jobs are left out." if hidden > 0 else ""
    table = frame_table(by_owner.head(MOST_OWNERS), {column: column, **_JCT}, note=note, durations=_DURATIONS)
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
    return frame_table(slowest, headings, note=note, durations=_DURATIONS)


_SECONDS = re.compile(r" s(?=$|,)")
"""The unit in a label such as ``JCT s, mean`` or ``makespan s``."""


def in_human_units(rows: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Rows (label, value) with values in seconds as durations, and labels without the unit."""
    return [
        (_SECONDS.sub("", label), duration(value))
        if isinstance(value, int | float) and _SECONDS.search(label)
        else (label, value)
        for label, value in rows
    ]


def slowest_jobs(jobs: pl.DataFrame, count: int) -> pl.DataFrame:
    """The completed jobs of jobs.parquet with the longest JCT; ties by job order."""
    done = jobs.filter(pl.col("status") == JobStatus.COMPLETED)
    return done.sort("jct_s", descending=True, maintain_order=True).head(count)


def jct_by_size(jobs: pl.DataFrame) -> pl.DataFrame:
    """JCT by number of GPUs, in classes (0, 1], (1, 2], (2, 4] and so on, and 0 alone.

    Columns: ``gpus``, the class's upper end; jobs, completed; mean, median and p90 of jct_s, mean
    of queue_s, over completed jobs.
    """
    gpus = pl.col("num_gpus")
    # Rounded, since the computed logarithm of a power of two may exceed its exponent in the last digit.
    exponent = gpus.clip(lower_bound=1).log(2).round(9).ceil()
    upper = pl.when(gpus > 0).then(2.0**exponent).otherwise(0.0)
    return _jct_by(jobs, upper.alias("gpus")).sort("gpus")


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
