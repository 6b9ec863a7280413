"""Convert lifecycles to workload rows: select the rows to keep and set their run times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S
from workloads.formats.google.events import STATUS, SUBMIT
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
"""Columns that a kept row no longer needs."""

_ENDED = pl.col("last_event").is_in([*STATUS])


def facts_of_tasks(tasks: pl.DataFrame) -> dict[str, int]:
    """Counts over the lifecycles of tasks, kept or not. ``tasks`` holds all tasks of a job or none."""
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
    """Jobs with lifecycles by their job events and sizes by their tasks.

    A job without job events in the parts read has the lifecycle of its tasks. Without any task events at all
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
class SelectedRows:
    """Rows split into kept and rejected."""

    sound: pl.DataFrame
    """Kept rows, with `run_time` in microseconds."""
    rejected: pl.DataFrame
    """place, job, task where rows are tasks, and reason."""


def select_rows(rows: pl.DataFrame, rule: RunTime, censored: Censored) -> SelectedRows:
    """Split rows into kept and rejected, and set run times; a kept row without an end runs until the trace's.

    Parameters
    ----------
    rows : of `lifecycles`, `attempts`, `gangs` or `by_job_events`; `until` is the time of the last event
        of the table that they come from
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
    known = rows.with_columns(
        pl.col("user").cast(pl.String), run_time=pl.when(_ENDED).then(closed).otherwise(cut), reason=reason
    )
    wanted = [name for name in ("place", "job", "task", "reason") if name in known.columns]
    return SelectedRows(
        sound=known.filter(pl.col("reason").is_null()).drop(_SPENT, strict=False),
        rejected=known.filter(pl.col("reason").is_not_null()).select(wanted),
    )


def in_trace_order(sound: pl.LazyFrame, rejected: pl.LazyFrame) -> pl.LazyFrame:
    """Kept rows with their `trace_order`, the position among all rows."""
    both = pl.concat([sound.select("place"), rejected.select("place")])
    places = np.sort(both.collect(engine="streaming")["place"].to_numpy())

    def order(here: pl.Series) -> pl.Series:
        return pl.Series(np.searchsorted(places, here.to_numpy()))

    found = pl.col("place").map_batches(order, return_dtype=pl.Int64(), is_elementwise=True)
    return sound.with_columns(trace_order=found)


def resampled(rows: pl.LazyFrame, seed: int) -> pl.LazyFrame:
    """Draw the run time of each censored row from the known ones of its priority that are longer.

    Where none is longer, the row ends with the trace.
    """
    names = [name for name in rows.collect_schema().names() if name == "priority"]
    known = rows.select("trace_order", "run_time", *names, ended=_ENDED).collect(engine="streaming")
    order, run_us = known["trace_order"].to_numpy(), known["run_time"].to_numpy(writable=True)
    ended = known["ended"].to_numpy()
    priority = known["priority"].fill_null(-1).to_numpy() if names else np.zeros(len(run_us))
    uniform = Streams(seed).generator("google-censored").random(int(order.max(initial=-1)) + 1)[order]
    for level in np.unique(priority[~ended]):
        pool = np.sort(run_us[ended & (priority == level)])
        drawn = np.flatnonzero(~ended & (priority == level))
        longer = np.searchsorted(pool, run_us[drawn], side="right")
        drawn, longer = drawn[longer < len(pool)], longer[longer < len(pool)]
        picked = longer + np.floor(uniform[drawn] * (len(pool) - longer)).astype(np.int64)
        run_us[drawn] = pool[picked]
    by_order = np.zeros(int(order.max(initial=-1)) + 1, np.int64)
    by_order[order] = run_us

    def run_time(here: pl.Series) -> pl.Series:
        return pl.Series(by_order[here.to_numpy()])

    drawn_us = pl.col("trace_order").map_batches(run_time, return_dtype=pl.Int64(), is_elementwise=True)
    return rows.with_columns(run_time=drawn_us)


def workload_rows(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Kept rows as columns of the workload's schema."""
    names = rows.collect_schema().names()
    columns = {
        "job_id": pl.col("job").cast(pl.String),
        "trace_order": pl.col("trace_order"),
        "submit_s": pl.col("submit") / US_PER_S,
        "user": pl.col("user"),
        "status": pl.col("last_event").replace_strict(STATUS, default=None, return_dtype=pl.String),
        "num_gpus": pl.lit(0.0),
        "duration_s": pl.col("run_time") / US_PER_S,
        "attempts": pl.col("attempts").cast(pl.Int64),
        "scheduling_class": pl.col("scheduling_class").cast(pl.Int64),
        "wait_s": (pl.col("start") - pl.col("submit")) / US_PER_S,
        "span_s": pl.when(_ENDED).then(pl.col("end") - pl.col("start")) / US_PER_S,
    }
    if "task" in names:
        number = "/{}" if "number" in names else ""
        parts = ("job", "task", "number") if number else ("job", "task")
        columns["group_id"] = columns["job_id"]
        columns["job_id"] = pl.format("{}-{}" + number, *parts)
        columns["num_tasks"] = pl.lit(1, pl.Int64)
    else:
        columns["num_tasks"] = pl.col("num_tasks")
    if "cpu" in names:
        columns |= {f"{name}_norm_per_task": pl.col(name) for name in ("cpu", "memory", "disk")}
        columns |= {name: pl.col(name).cast(pl.Int64) for name in ("priority", "different_machines")}
    return rows.select(**columns)
