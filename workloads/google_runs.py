"""From lives to rows of a workload: which are kept, how long they run, and what the trace says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S
from workloads.google_events import STATUS, SUBMIT
from workloads.trace_format import Censored, RunTime

_SPENT = (
    "reason",
    "run",
    "lost",
    "open_start",
    "first_event",
    "submits",
    "until",
    "first_cpu",
    "first_memory",
)
"""What is not needed of a row once it is kept."""

_ENDED = pl.col("last_event").is_in([*STATUS])


def facts_of_tasks(tasks: pl.DataFrame) -> dict[str, int]:
    """Counts over the lives of tasks, kept or not; all tasks of a job are among them or none."""
    started = pl.col("attempts") > 0
    changed = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(f"first_{name}")) for name in ("cpu", "memory")
    )
    counts = tasks.select(
        jobs=pl.col("job").n_unique(),
        tasks=pl.len(),
        tasks_without_any_end=pl.col("end").is_null().sum(),
        tasks_running_at_the_end=pl.col("open_start").is_not_null().sum(),
        tasks_waiting_at_the_end=(pl.col("last_event") == SUBMIT).sum(),
        tasks_running_at_time_0=(pl.col("start") == 0).sum(),
        tasks_waiting_at_time_0=((pl.col("submit") == 0) & (pl.col("start").fill_null(1) > 0)).sum(),
        tasks_submitted_again=(pl.col("submits") > 1).sum(),
        most_submissions_of_a_task=pl.col("submits").max().fill_null(0),
        tasks_whose_request_changed_before_the_run=(started & changed).sum(),
        tasks_without_a_request=(started & pl.col("cpu").is_null()).sum(),
    )
    return {name: int(count) for name, count in counts.row(0, named=True).items()}


def by_job_events(jobs: pl.DataFrame, gangs: pl.DataFrame | None) -> pl.DataFrame:
    """Jobs whose lives come from the job events, and their sizes from their tasks.

    A job without job events in the parts read lives as its tasks do. Without any task events at all
    (``gangs`` is None) sizes are unknown; else a job without some has no num_tasks.
    """
    if gangs is None:
        return jobs.with_columns(num_tasks=pl.lit(1, pl.Int64))
    life = [name for name in jobs.columns if name in gangs.columns and name != "job"]
    both = jobs.join(gangs, on="job", how="full", coalesce=True, suffix="_of_tasks")
    own = pl.col("place").is_not_null()
    lived = both.with_columns(
        pl.when(own).then(name).otherwise(f"{name}_of_tasks").alias(name) for name in life
    )
    return lived.select(pl.exclude("^.*_of_tasks$"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Rows that are kept, and what is needed of the others."""

    sound: pl.DataFrame
    """With their `run_time` in microseconds."""
    rejected: pl.DataFrame
    """place, job, task where rows are tasks, and reason."""


def judge(rows: pl.DataFrame, rule: RunTime, censored: Censored) -> Verdict:
    """Which rows are kept, and how long they run; a row without an end runs until the trace's.

    Parameters
    ----------
    rows : of `lives`, `attempts`, `gangs` or `by_job_events`; `until` is when the events they come from end
    """
    open_run = pl.col("open_start").is_not_null()
    if rule == RunTime.SPAN:
        closed, cut = pl.col("end") - pl.col("start"), pl.col("until") - pl.col("start")
    else:
        closed = pl.col("run")
        cut = closed + pl.when(open_run).then(pl.col("until") - pl.col("open_start")).otherwise(0)
    sums = rule != RunTime.SPAN
    unsized = pl.col("num_tasks").is_null() if "num_tasks" in rows.columns else pl.lit(value=False)
    reason = (
        pl.when((pl.col("first_event") != SUBMIT) & (pl.col("submit") > 0))
        .then(pl.lit("missing_submit_s"))
        .when(unsized)
        .then(pl.lit("no_task_events"))
        .when(pl.col("start").is_null() & _ENDED)
        .then(pl.lit("ended_before_start"))
        .when(pl.col("start").is_null())
        .then(pl.lit("never_started"))
        .when(sums & (pl.col("lost") > 0))
        .then(pl.lit("incomplete_attempt"))
        .when(~_ENDED & (censored == Censored.DROP))
        .then(pl.lit("censored"))
    )
    known = rows.with_columns(run_time=pl.when(_ENDED).then(closed).otherwise(cut), reason=reason)
    wanted = [name for name in ("place", "job", "task", "reason") if name in known.columns]
    return Verdict(
        sound=known.filter(pl.col("reason").is_null()).drop(_SPENT, strict=False),
        rejected=known.filter(pl.col("reason").is_not_null()).select(wanted),
    )


def joined(verdicts: Sequence[Verdict]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kept rows with their `trace_order`, the position among all rows, and the others in that order."""
    sound = pl.concat([verdict.sound for verdict in verdicts])
    rejected = pl.concat([verdict.rejected for verdict in verdicts]).sort("place")
    before = rejected["place"].search_sorted(sound["place"]).cast(pl.Int64)
    order = pl.col("place").rank("ordinal").cast(pl.Int64) - 1 + before
    return sound.with_columns(trace_order=order), rejected


def resampled(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Draw the run time of each censored row from the known ones of its priority that are longer.

    Where none is longer, the row ends with the trace.
    """
    order = rows["trace_order"].to_numpy()
    uniform = Streams(seed).generator("google-censored").random(int(order.max(initial=-1)) + 1)[order]
    run_us = rows["run_time"].to_numpy(writable=True)
    priority = (
        rows["priority"].fill_null(-1).to_numpy() if "priority" in rows.columns else np.zeros(len(run_us))
    )
    ended, open_end = (rows.select(state).to_series().to_numpy() for state in (_ENDED, ~_ENDED))
    for level in np.unique(priority[open_end]):
        pool = np.sort(run_us[ended & (priority == level)])
        drawn = np.flatnonzero(open_end & (priority == level))
        longer = np.searchsorted(pool, run_us[drawn], side="right")
        drawn, longer = drawn[longer < len(pool)], longer[longer < len(pool)]
        picked = longer + np.floor(uniform[drawn] * (len(pool) - longer)).astype(np.int64)
        run_us[drawn] = pool[picked]
    return rows.with_columns(run_time=pl.Series(run_us))


def workload_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Kept rows as columns of the workload's schema."""
    columns = {
        "job_id": pl.col("job").cast(pl.String),
        "trace_order": pl.col("trace_order"),
        "submit_s": pl.col("submit") / US_PER_S,
        "user": pl.col("user").cast(pl.String),
        "status": pl.col("last_event").replace_strict(STATUS, default=None, return_dtype=pl.String),
        "num_gpus": pl.lit(0.0),
        "duration_s": pl.col("run_time") / US_PER_S,
        "attempts": pl.col("attempts").cast(pl.Int64),
        "scheduling_class": pl.col("scheduling_class").cast(pl.Int64),
        "wait_s": (pl.col("start") - pl.col("submit")) / US_PER_S,
        "span_s": pl.when(_ENDED).then(pl.col("end") - pl.col("start")) / US_PER_S,
    }
    if "task" in rows.columns:
        number = "/{}" if "number" in rows.columns else ""
        names = ("job", "task", "number") if number else ("job", "task")
        columns["group_id"] = columns["job_id"]
        columns["job_id"] = pl.format("{}-{}" + number, *names)
        columns["num_tasks"] = pl.lit(1, pl.Int64)
    else:
        columns["num_tasks"] = pl.col("num_tasks")
    if "cpu" in rows.columns:
        columns |= {f"{name}_norm_per_task": pl.col(name) for name in ("cpu", "memory", "disk")}
        columns |= {name: pl.col(name).cast(pl.Int64) for name in ("priority", "different_machines")}
    return rows.select(**columns)
