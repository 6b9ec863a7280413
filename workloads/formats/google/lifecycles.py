"""Conversion of events to lifecycles, one row per task (or job), and of these to rows of the workload.

`conversion.py` calls `in_order`, `with_neighbours`, and then `lifecycles` or `attempts`; `gangs` joins the
tasks of a job; `select_rows` and `workload_rows` keep some and name their columns. Times are in microseconds.
An event is an integer code; codes above SCHEDULE end a run, except those above ``max(STATUS)``, which change
no state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S, IntArray
from workloads.formats.google.events import FINISH, SCHEDULE, STATUS, SUBMIT
from workloads.schema import MAX_ATTEMPTS, MAX_COUNT
from workloads.trace_format import Censored, RunTime

REQUESTS = ("cpu", "memory", "disk", "different_machines")
"""Requests of a task; they may change with every event.

The order counts: `lifecycles` also returns the first request of the first two, cpu and memory.
"""

_SPENT = (
    *("reason", "run", "lost", "open_start", "first_event", "submits", "until"),
    *("first_cpu", "first_memory"),
)
"""Columns that a kept row no longer needs."""

_ENDINGS = {code: f":{name.lower()}" for code, name in STATUS.items() if code != FINISH}
"""Reasons in an `attempt_log` by event."""

_ENDED = pl.col("last_event").is_in([*STATUS])


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


def with_attempt_logs(tasks: pl.DataFrame, events: pl.DataFrame, until_us: int) -> pl.DataFrame:
    """Tasks with `attempt_log`: length of each run that took any time, and how it ended unless it finished.

    Parameters
    ----------
    tasks : of `lifecycles`
    events : of `with_neighbours`, from which they come
    until_us : when a last run without an end is cut
    """
    length_us = pl.coalesce("next_time", pl.lit(until_us)) - pl.col("time")
    length_s = (length_us / US_PER_S).cast(pl.String)
    ended = pl.col("next_event").replace_strict(_ENDINGS, default="", return_dtype=pl.String)
    runs = events.filter(pl.col("starts") & (length_us > 0))
    logs = runs.group_by("lifecycle").agg(attempt_log=(length_s + ended).str.join(" "))
    numbered = tasks.with_row_index("lifecycle", offset=1).cast({"lifecycle": events["lifecycle"].dtype})
    return numbered.join(logs, on="lifecycle", how="left", maintain_order="left").drop("lifecycle")


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


def select_rows(rows: pl.DataFrame, rule: RunTime, censored: Censored) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split rows into kept, with `run_time` in microseconds, and rejected, with their `reason`.

    A kept row without an end runs until the trace's. Rejected ones have place, job, and a task's task.

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
    absurd = pl.col("attempts") > (MAX_ATTEMPTS if rule == RunTime.LOG else MAX_COUNT)
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
        .when(absurd)
        .then(pl.lit("absurd_attempts"))
        .when(~_ENDED & (censored == Censored.DROP))
        .then(pl.lit("censored"))
    )
    known = rows.with_columns(
        pl.col("user").cast(pl.String), run_time=pl.when(_ENDED).then(closed).otherwise(cut), reason=reason
    )
    wanted = [name for name in ("place", "job", "task", "reason") if name in known.columns]
    kept, rejected = (
        known.filter(verdict) for verdict in (pl.col("reason").is_null(), pl.col("reason").is_not_null())
    )
    return kept.drop(_SPENT, strict=False), rejected.select(wanted)


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
    if "attempt_log" in names:
        columns["attempt_log"] = pl.col("attempt_log")
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
