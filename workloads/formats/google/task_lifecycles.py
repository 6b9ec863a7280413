"""Conversion of events to lifecycles: one row per task (or job), from its first submission to its last end.

The readers of the Google traces call `in_order`, `with_neighbours`, and then `lifecycles` or `attempts`;
`gangs` joins the tasks of a job. Times are in microseconds. An event is an integer code; codes above SCHEDULE
end a run, except those above ``max(STATUS)``, which change no state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.model.units import NEVER_US, IntArray
from workloads.formats.google.events import FINISH, SCHEDULE, STATUS, SUBMIT

REQUESTS = ("cpu", "memory", "disk", "different_machines")
"""Requests of a task; they may change with every event.

The order counts: `lifecycles` also returns the first request of the first two, cpu and memory.
"""


def in_order(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Events sorted by `keys`, then by time; ties stay in the order of the trace (`place`).

    Adds `lifecycle`, the number of the task or job from 1. If a run starts with a null request, fills every
    null request with the latest known one of the same lifecycle.

    Parameters
    ----------
    events : with the `keys`, time, place, event, and all of `REQUESTS` or none
    keys : columns that identify a lifecycle: job and task, or job
    """
    if not (events["time"].is_sorted() and events["place"].is_sorted()):
        events = events.sort("time", "place")
    ordered = events.sort(*keys, maintain_order=True)
    first = ~pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in keys).fill_null(value=False)
    # Events at time 0 record the initial state: the task was submitted before, also without a SUBMIT event.
    before = first & (pl.col("time") == 0) & (pl.col("event") > max(STATUS))
    numbered = ordered.with_columns(
        first=first, lifecycle=first.cum_sum(), event=pl.when(before).then(SUBMIT).otherwise("event")
    )
    requests = [name for name in REQUESTS if name in events.columns]
    unknown = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).is_null() for name in requests))
    if not numbered.select((unknown & (pl.col("event") == SCHEDULE)).any()).item():
        return numbered.drop("first")
    # A lifecycle without a request so far must not inherit the request of the previous one.
    own = (
        pl.when(pl.col("first") & pl.col(name).is_null()).then(-1).otherwise(name).alias(name)
        for name in requests
    )
    latest = (pl.col(name).forward_fill() for name in requests)
    known = (pl.when(pl.col(name) >= 0).then(name) for name in requests)
    return numbered.with_columns(*own).with_columns(*latest).with_columns(*known).drop("first")


def with_neighbours(events: pl.DataFrame) -> pl.DataFrame:
    """Events that change the state of a lifecycle, each with the time and code of both its neighbours.

    A lifecycle without such an event keeps its first event, which then has a code above ``max(STATUS)``.
    Adds last_time, last_event, next_time, next_event (null where the lifecycle has no such event), starts (a
    run starts), closed (a run starts, and the next event ends it) and run (length of a closed run, else 0).

    Parameters
    ----------
    events : of `in_order`
    """
    neighbours = {
        f"{where}_{name}": pl.when(pl.col("lifecycle") == pl.col("lifecycle").shift(by)).then(
            pl.col(name).shift(by)
        )
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
    """Events that change a lifecycle's state, or the first event of a lifecycle that has none."""
    changes = pl.col("event") <= max(STATUS)
    states, others = events.filter(changes), events.filter(~changes)
    lost = others.join(states, on="lifecycle", how="anti").unique(
        "lifecycle", keep="first", maintain_order=True
    )
    return states if lost.is_empty() else pl.concat([states, lost]).sort("lifecycle", maintain_order=True)


def lifecycles(events: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row per lifecycle, in order of `keys`.

    Parameters
    ----------
    events : of `with_neighbours`

    Returns
    -------
    `keys`, and of the first event place, user, submit (its time), first_event (its code), first_cpu and
    first_memory; of the last event last_event (its code), scheduling_class and priority; start of the first
    run; end, time of the last end; run, total length of the closed runs; open_start, start
    of a last run without an end; lost, number of earlier runs without an end; attempts, number of runs;
    submits, number of submissions; the requests at the last start, null if no run started. Null: unknown.
    Without requests in `events` there are no request columns and no priority.
    """
    if events.is_empty():
        begin = last = np.empty(0, np.int64)
    else:
        life = events["lifecycle"].to_numpy()
        begin = np.flatnonzero(np.concatenate([[True], life[1:] != life[:-1]]))
        last = np.append(begin[1:], len(life)) - 1
    time, event, starts, closed = (events[name].to_numpy() for name in ("time", "event", "starts", "closed"))
    ends = (event > SCHEDULE) & (event <= max(STATUS))
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
        "end": _known(_reduced(np.maximum, np.where(ends, time, -1), begin), -1),
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
    """Reduce each segment of ``values``; segment i begins at ``begin[i]``."""
    reduced: IntArray = ufunc.reduceat(values, begin) if len(begin) else values[:0]
    return reduced


def _known(values: IntArray, missing: int) -> pl.Series:
    """Values, null where they are ``missing``."""
    return pl.Series(values).set(pl.Series(values == missing), None)


def attempts(events: pl.DataFrame) -> pl.DataFrame:
    """One row per run of each task, and one for each task that never ran.

    The columns are those of `lifecycles` for a task, without first_cpu and first_memory, and number: position
    of the run in its lifecycle from 1, 0 for a task that never ran. A run that does not directly follow a
    submission counts as submitted when it started. The other values are those at the start of the run; end
    is null unless the run is closed.

    Parameters
    ----------
    events : of `with_neighbours`, with requests
    """
    begun = events.with_columns(
        number=pl.col("starts").cum_sum().over("lifecycle"),
        began=pl.col("event").first().over("lifecycle"),
        ran=pl.col("starts").any().over("lifecycle"),
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
    """One row per job: its tasks as one gang, each with the largest request of all.

    The rows are in no fixed order.

    Parameters
    ----------
    tasks : of `lifecycles` for tasks, with a column until

    Returns
    -------
    the columns of `tasks` without task, first_cpu and first_memory, and num_tasks. run is null and lost is 0.
    last_event is SCHEDULE if a task has not ended, FINISH if all tasks finished, else that of the last end.
    """
    ends_last = pl.col("last_event").sort_by("end", "place", nulls_last=True)
    finished = (pl.col("last_event") == FINISH).all()
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
