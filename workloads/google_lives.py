"""From events to lives: what happened to a task (or a job) from its first submission to its last end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.model.units import NEVER_US, IntArray
from workloads.google_events import FINISH, SCHEDULE, STATUS, SUBMIT

REQUESTS = ("cpu", "memory", "disk", "different_machines")
"""What a task asks for. It may change with every event."""


def in_order(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Events life by life, each in order of time, ties in the order of the trace.

    Adds `life` (number of the task or job) and replaces the requests of starts by the latest ones so far.
    """
    if not (events["time"].is_sorted() and events["place"].is_sorted()):
        events = events.sort("time", "place")
    ordered = events.sort(*keys, maintain_order=True)
    first = ~pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in keys).fill_null(value=False)
    # What was so before the trace began had been submitted, whichever event says so.
    before = first & (pl.col("time") == 0) & (pl.col("event") > max(STATUS))
    numbered = ordered.with_columns(
        first=first, life=first.cum_sum(), event=pl.when(before).then(SUBMIT).otherwise("event")
    )
    requests = [name for name in REQUESTS if name in events.columns]
    unknown = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).is_null() for name in requests))
    if not numbered.select((unknown & (pl.col("event") == SCHEDULE)).any()).item():
        return numbered.drop("first")
    # A life without a request so far must not inherit that of the life before it.
    own = (
        pl.when(pl.col("first") & pl.col(name).is_null()).then(-1).otherwise(name).alias(name)
        for name in requests
    )
    latest = (pl.col(name).forward_fill() for name in requests)
    known = (pl.when(pl.col(name) >= 0).then(name) for name in requests)
    return numbered.with_columns(*own).with_columns(*latest).with_columns(*known).drop("first")


def with_neighbours(events: pl.DataFrame) -> pl.DataFrame:
    """The events that change a life's state, with the time and kind of those before and after in it.

    Adds `starts` (whether a run starts), `closed` (and its end is the next event) and `run`, its length.
    """
    neighbours = {
        f"{where}_{name}": pl.when(pl.col("life") == pl.col("life").shift(by)).then(pl.col(name).shift(by))
        for where, by in (("last", 1), ("next", -1))
        for name in ("time", "event")
    }
    starts = pl.col("event") == SCHEDULE
    ends = pl.col("next_event").is_between(min(STATUS), max(STATUS)).fill_null(value=False)
    return (
        _of_state(events)
        .with_columns(**neighbours, starts=starts)
        .with_columns(closed=starts & ends)
        .with_columns(run=pl.when("closed").then(pl.col("next_time") - pl.col("time")).otherwise(0))
    )


def _of_state(events: pl.DataFrame) -> pl.DataFrame:
    """The events that change a life's state; of a life without any the first one, so that it is not lost."""
    changes = pl.col("event") <= max(STATUS)
    states, others = events.filter(changes), events.filter(~changes)
    lost = others.join(states, on="life", how="anti").unique("life", keep="first", maintain_order=True)
    return states if lost.is_empty() else pl.concat([states, lost]).sort("life", maintain_order=True)


def lives(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row per life, in order of `keys`.

    Parameters
    ----------
    events : of `with_neighbours`

    Returns
    -------
    `keys`, place, user and submit (of the first event), first_event, last_event, start (first), end (last, of
    any kind), run (closed runs together), open_start (of a run that goes on), lost (runs whose end is
    missing), attempts, submits, scheduling_class and priority (of the last event), and the requests at the
    last start and of the first event
    """
    if events.is_empty():
        begin = last = np.empty(0, np.int64)
    else:
        life = events["life"].to_numpy()
        begin = np.flatnonzero(np.concatenate([[True], life[1:] != life[:-1]]))
        last = np.append(begin[1:], len(life)) - 1
    time, event, starts, closed = (events[name].to_numpy() for name in ("time", "event", "starts", "closed"))
    endless = starts & ~closed
    goes_on = endless[last]
    endless[last] = False
    last_start = _reduced(np.maximum, np.where(starts, np.arange(len(time)), -1), begin)
    ever = pl.Series(last_start >= 0)
    last_start = np.maximum(last_start, begin)
    requests = [name for name in REQUESTS if name in events.columns]
    of_last = ["event", "scheduling_class", *(["priority"] if requests else [])]
    first_rows = events.select(*keys, "place", "user", "time", "event", *requests[:2])[begin]
    last_rows, start_rows = events.select(of_last)[last], events.select("event", *requests)[last_start]
    columns: dict[str, pl.Series | IntArray] = {
        "submit": first_rows["time"],
        "first_event": first_rows["event"],
        "last_event": last_rows["event"],
        "start": _known(_reduced(np.minimum, np.where(starts, time, NEVER_US), begin), NEVER_US),
        "end": _known(_reduced(np.maximum, np.where(event > SCHEDULE, time, -1), begin), -1),
        "run": _reduced(np.add, events["run"].to_numpy(), begin),
        "open_start": _known(np.where(goes_on, time[last], -1), -1),
        "lost": _reduced(np.add, endless.astype(np.int64), begin),
        "attempts": _reduced(np.add, starts.astype(np.int64), begin),
        "submits": _reduced(np.add, (event == SUBMIT).astype(np.int64), begin),
        **{name: last_rows[name] for name in of_last[1:]},
        **{name: start_rows[name].set(~ever, None) for name in requests},
        **{f"first_{name}": first_rows[name] for name in requests[:2]},
    }
    return first_rows.select(*keys, "place", "user").with_columns(**columns)


def _reduced(ufunc: np.ufunc, values: IntArray, begin: IntArray) -> IntArray:
    """A reduction over each stretch of values; the stretches begin at ``begin``."""
    reduced: IntArray = ufunc.reduceat(values, begin) if len(begin) else values[:0]
    return reduced


def _known(values: IntArray, missing: int) -> pl.Series:
    """Values, null where they are ``missing``."""
    return pl.Series(values).set(pl.Series(values == missing), None)


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
        *("job", "task", "place", "user", "number", "scheduling_class", "priority", *REQUESTS),
        start=pl.when("starts").then("time"),
        submit=pl.when(pl.col("last_event") == SUBMIT).then("last_time").otherwise("time"),
        first_event=pl.when(first).then("began").otherwise(SUBMIT),
        last_event=pl.when("closed").then("next_event").otherwise("event"),
        end=pl.when("closed").then("next_time"),
        run="run",
        open_start=pl.when(pl.col("starts") & goes_on).then("time"),
        lost=(pl.col("starts") & ~pl.col("closed") & ~goes_on).cast(pl.Int64),
        attempts=pl.col("starts").cast(pl.Int64),
        submits=pl.lit(1, pl.Int64),
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
        lost=pl.lit(0, pl.Int64),
        num_tasks=pl.len().cast(pl.Int64),
    )
