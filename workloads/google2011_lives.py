"""From events to lives: what happened to a task (or a job) from its first submission to its last end."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from workloads.google2011_tables import FINISH, SCHEDULE, STATUS, SUBMIT

REQUESTS = ("cpu", "memory", "disk", "different_machines")
"""What a task asks for. It may change with every event."""


def in_order(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Events life by life, each in order of time, ties in the order of the trace.

    Adds `life` (number of the task or job) and replaces the requests by the latest ones so far.
    """
    ordered = events.sort(*keys, "time", "place")
    first = ~pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in keys).fill_null(value=False)
    requests = [name for name in REQUESTS if name in events.columns]
    # A life without a request so far must not inherit that of the life before it.
    own = (pl.when(first & pl.col(name).is_null()).then(-1).otherwise(name).alias(name) for name in requests)
    latest = (pl.col(name).forward_fill() for name in requests)
    known = (pl.when(pl.col(name) >= 0).then(name) for name in requests)
    return (
        ordered.with_columns(*own, life=first.cum_sum())
        .with_columns(*latest)
        .with_columns(*known)
        .set_sorted("life")
    )


def with_neighbours(events: pl.DataFrame) -> pl.DataFrame:
    """The events that change a life's state, with the time and kind of those before and after in it."""
    neighbours = {
        f"{where}_{name}": pl.when(pl.col("life") == pl.col("life").shift(by)).then(pl.col(name).shift(by))
        for where, by in (("last", 1), ("next", -1))
        for name in ("time", "event")
    }
    starts = pl.col("event") == SCHEDULE
    return (
        events.filter(pl.col("event") <= max(STATUS))
        .with_columns(**neighbours)
        .with_columns(
            starts=starts, closed=starts & pl.col("next_event").is_in([*STATUS]).fill_null(value=False)
        )
        .with_columns(
            start=pl.when("starts").then("time"),
            run=pl.when("closed").then(pl.col("next_time") - pl.col("time")),
            end=pl.when(pl.col("event").is_in([*STATUS])).then("time"),
        )
    )


def lives(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row per life, in order of `keys`.

    Parameters
    ----------
    events : of `with_neighbours`

    Returns
    -------
    `keys`, place and submit (of the first event), first_event, start (first), end (last, of any kind),
    run (closed runs together), open_start (of a run that goes on), lost (runs whose end is missing),
    attempts, submits, last_event, request columns at the last start, and what the events say of the task
    """
    requests = [name for name in REQUESTS if name in events.columns]
    endless = pl.col("starts") & ~pl.col("closed")
    return (
        events.group_by("life", maintain_order=True)
        .agg(
            *(pl.col(key).first() for key in keys),
            pl.col("place", "user").first(),
            pl.col("time").first().alias("submit"),
            pl.col("event").first().alias("first_event"),
            pl.col("event").last().alias("last_event"),
            pl.col("start").min(),
            pl.col("end").max(),
            pl.col("run").sum(),
            pl.when(endless & pl.col("next_event").is_null()).then("time").max().alias("open_start"),
            (endless & pl.col("next_event").is_not_null()).sum().alias("lost"),
            pl.col("starts").sum().alias("attempts"),
            (pl.col("event") == SUBMIT).sum().alias("submits"),
            pl.col("scheduling_class", *(["priority"] if requests else [])).last(),
            *(pl.col(name).filter("starts").last() for name in requests),
            *(pl.col(name).first().alias(f"first_{name}") for name in requests[:2]),
        )
        .drop("life")
    )


def attempts(events: pl.DataFrame) -> pl.DataFrame:
    """One row per run of each task, and one for each task that never ran.

    The columns are those of `lives` and `number` (of the run in its life, from 1). A run counts as submitted
    when it started if it follows no submission.
    """
    begun = events.with_columns(
        number=pl.col("starts").cum_sum().over("life"),
        began=pl.col("event").first().over("life"),
        ran=pl.col("starts").any().over("life"),
    )
    goes_on = pl.col("next_event").is_null()
    first = pl.col("number") <= 1
    return begun.filter(pl.col("starts") | (~pl.col("ran") & goes_on)).select(
        *("job", "task", "place", "user", "number", "start", "scheduling_class", "priority", *REQUESTS),
        submit=pl.when(pl.col("last_event") == SUBMIT).then("last_time").otherwise("time"),
        first_event=pl.when(first).then("began").otherwise(SUBMIT),
        last_event=pl.when("closed").then("next_event").otherwise("event"),
        end=pl.when("closed").then("next_time"),
        run=pl.col("run").fill_null(0),
        open_start=pl.when(pl.col("starts") & goes_on).then("time"),
        lost=(pl.col("starts") & ~pl.col("closed") & ~goes_on).cast(pl.UInt32),
        attempts=pl.col("starts").cast(pl.UInt32),
        submits=pl.lit(1, pl.UInt32),
    )


def gangs(tasks: pl.DataFrame) -> pl.DataFrame:
    """One row per job: its tasks as one gang, each as demanding as the largest.

    Parameters
    ----------
    tasks : of `lives`

    Returns
    -------
    the columns of `lives` without `task`, and num_tasks
    """
    ends_last = pl.col("last_event").sort_by("end", "place", nulls_last=True)
    finished = pl.all_horizontal(pl.col("last_event") == FINISH).all()
    return tasks.group_by("job").agg(
        pl.col("place", "submit", "start", "open_start").min(),
        pl.col("end", "until", "attempts", "submits", "scheduling_class", "priority", *REQUESTS).max(),
        pl.col("user", "first_event").sort_by("place").first(),
        pl.when(~pl.col("last_event").is_in([*STATUS]).all())
        .then(SCHEDULE)
        .when(finished)
        .then(FINISH)
        .otherwise(ends_last.last())
        .alias("last_event"),
        run=pl.lit(None, pl.Int64),
        lost=pl.lit(0, pl.UInt32),
        num_tasks=pl.len().cast(pl.Int64),
    )
