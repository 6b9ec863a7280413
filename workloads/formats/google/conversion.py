"""Conversion of a Google cluster trace: events of tasks, jobs and machines become jobs and a cluster.

The traces of 2011 and 2019 differ only in the form of their files, which a `TraceLayout` describes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.model.cluster import Availability, Cluster, ServerKind
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.units import capacity_quanta
from workloads.formats.google.events import ADD, REMOVE, TraceLayout
from workloads.formats.google.lifecycles import (
    REQUESTS,
    attempts,
    by_job_events,
    facts_of_tasks,
    gangs,
    in_order,
    in_trace_order,
    lifecycles,
    resampled,
    select_rows,
    with_attempt_logs,
    with_neighbours,
    workload_rows,
)
from workloads.formats.google.trace_reader import GoogleTrace, find_parts
from workloads.progress import Meter
from workloads.rows import SpilledRows, computed, height
from workloads.trace_format import Censored, ConvertOptions, Parsed, RowKind, RunTime, TraceFormat

_JOB_COLUMNS = ("time", "job", "event", "user", "scheduling_class")
_TASK_COLUMNS = (*_JOB_COLUMNS, "task", "machine", "priority", *REQUESTS)
_MACHINE_COLUMNS = ("time", "machine", "event", "cpu", "memory")

RESOURCES = {"cpu": "cpu_norm", "memory": "memory_norm"}
"""Our resource for each capacity of the table; a machine's disk is not in it."""


def find(paths: Sequence[Path], layout: TraceLayout) -> Mapping[Path, str]:
    """Parts of the trace in files and folders, with their names in the provenance."""
    return {part.path: part.label for part in find_parts(paths, layout)}


def read(
    paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter, layout: TraceLayout
) -> Parsed:
    """Parse event tables: any parts of them, with task events or, for rows of jobs, job events.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable, or the table that the rows come from is missing
    InvalidInputError : the options contradict each other
    """
    rule = _rule(options)
    trace = GoogleTrace(find_parts(paths, layout), layout, folder, meter)
    trace.require([layout.tasks] if options.rows == RowKind.TASK else [layout.tasks, layout.jobs])
    if options.cluster:
        trace.require([layout.machines])
    sound, rejected = SpilledRows(folder, "sound"), SpilledRows(folder, "rejected")
    for rows in _rows(trace, options.rows, rule):
        kept_here, rejected_here = select_rows(rows, rule, options.censored)
        sound.add(kept_here)
        rejected.add(rejected_here)
    kept = in_trace_order(sound.scan(), rejected.scan())
    if options.censored == Censored.RESAMPLE:
        kept = resampled(kept, options.seed)
    cluster = _machines(trace) if trace.has(layout.machines) else None
    rejects, count = trace.rejects(rejected.scan()), height(kept)
    return Parsed(
        jobs=computed(workload_rows(kept), count, folder, "jobs"),
        rejects=rejects,
        read=count + height(rejects),
        options={"rows": str(options.rows), "run_time": str(rule), "censored": str(options.censored)},
        notes=trace.notes(),
        warnings=tuple(trace.warnings),
        seed=options.seed if options.censored == Censored.RESAMPLE else None,
        cluster=cluster if options.cluster else None,
    )


def _rule(options: ConvertOptions) -> RunTime:
    if options.run_time == RunTime.LOG and options.censored == Censored.RESAMPLE:
        raise InvalidInputError("--run-time log: attempts are not drawn; take --censored drop or cut")
    if options.rows == RowKind.TASK:
        return options.run_time or RunTime.SUM
    if options.run_time not in (None, RunTime.SPAN):
        raise InvalidInputError(
            f"--run-time {options.run_time}: a job of many tasks runs from its first start to its last end;"
            " leave the option out, or take --rows task"
        )
    return RunTime.SPAN


def _rows(trace: GoogleTrace, kind: RowKind, rule: RunTime) -> Iterator[pl.DataFrame]:
    """Yield lifecycles or attempts of tasks, bucket by bucket, or all gangs at once."""
    jobs = _jobs(trace)
    if kind == RowKind.TASK:
        yield from _tasks(trace, rule)
        return
    frames = [gangs(tasks) for tasks in _tasks(trace, rule)]
    sized = pl.concat(frames) if frames else None
    if jobs is not None:
        yield by_job_events(jobs, sized)
    elif sized is not None:
        yield sized


def _tasks(trace: GoogleTrace, rule: RunTime) -> Iterator[pl.DataFrame]:
    """Yield lifecycles of tasks, or their attempts, bucket by bucket."""
    for events in trace.buckets(trace.layout.tasks, _TASK_COLUMNS):
        near = with_neighbours(in_order(events, ["job", "task"]))
        tasks = lifecycles(near, ["job", "task"])
        trace.add_facts(facts_of_tasks(tasks))
        until = trace.last_us(trace.layout.tasks)
        rows = attempts(near) if rule == RunTime.ATTEMPTS else tasks
        if rule == RunTime.LOG:
            rows = with_attempt_logs(tasks, near, until)
        yield rows.with_columns(until=until)


def _jobs(trace: GoogleTrace) -> pl.DataFrame | None:
    """Lifecycles of jobs; None without job events."""
    frames = [
        lifecycles(with_neighbours(in_order(events, ["job"])), ["job"])
        for events in trace.buckets(trace.layout.jobs, _JOB_COLUMNS)
    ]
    if not frames:
        return None
    jobs = pl.concat(frames).with_columns(until=trace.last_us(trace.layout.jobs))
    trace.add_facts({"job_ids_used_again": int((jobs["submits"] > 1).sum())})
    return jobs


def _machines(trace: GoogleTrace) -> Cluster:
    """The machines as a cluster; adds counts and a warning about them to the trace."""
    events = trace.collect(trace.layout.machines, _MACHINE_COLUMNS)
    cluster, facts = machines_of(trace.layout.trace, events, trace.machines_used)
    trace.add_facts(facts)
    if unlisted := facts["machines_that_ran_tasks_and_have_no_capacity"]:
        trace.warnings.append(
            f"{unlisted} machines ran tasks and have no capacity in machine_events; they are left out"
        )
    return cluster


def trace_format(version: str, source: str, files: str, layout: TraceLayout) -> TraceFormat:
    """Trace format of a trace with this layout; other arguments as of `TraceFormat`."""
    return TraceFormat(
        name=layout.trace,
        version=version,
        source=source,
        files=files,
        page=f"docs/traces/{layout.trace}.md",
        read=partial(read, layout=layout),
        options=frozenset({"run_time", "rows", "censored", "seed", "cluster"}),
        find=partial(find, layout=layout),
    )


def machines_of(name: str, events: pl.DataFrame, used: Collection[int]) -> tuple[Cluster, dict[str, int]]:
    """The cluster that machine events describe, in the order of their first events, and counts of them.

    A machine has its largest capacity throughout. It is available from an ADD to a REMOVE; events at time 0
    describe the state before the trace began.

    Parameters
    ----------
    events : time, machine, event, cpu, memory, place
    used : machines that ran tasks
    """
    ordered = events.sort("machine", "time", "place")
    known = pl.struct("cpu", "memory").filter(pl.col("cpu").is_not_null())
    machines = (
        ordered.group_by("machine", maintain_order=True)
        .agg(pl.col("cpu", "memory").max(), pl.col("place").min(), capacities=known.n_unique())
        .sort("place")
    )
    sized = machines.drop_nulls(["cpu", "memory"])
    if sized.is_empty():
        raise InvalidWorkloadError("machine_events: no machine has a capacity; check the files")
    changes, illegal = _changes(ordered.filter(pl.col("machine").is_in(sized["machine"].implode())))
    facts = {
        "machines": machines.height,
        "machines_whose_capacity_changed": int((machines["capacities"] > 1).sum()),
        "machines_without_capacity": machines.height - sized.height,
        "machine_events_without_capacity": events["cpu"].null_count(),
        "machine_events_that_change_nothing": illegal,
        "machines_that_ran_tasks": len(used),
        "machines_that_ran_tasks_and_have_no_capacity": len(set(used) - set(sized["machine"])),
    }
    return _cluster(name, sized, changes), facts


def _changes(ordered: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Changes of availability after time 0, by machine, and the number of events that change nothing."""
    changes = ordered.filter(pl.col("event").is_in([ADD, REMOVE])).with_columns(up=pl.col("event") == ADD)
    same = pl.col("machine") == pl.col("machine").shift(1)
    real = changes.filter((~same | (pl.col("up") != pl.col("up").shift(1))).fill_null(value=True))
    at_first = (pl.col("time") == 0) & pl.col("up")
    return real.filter(~at_first), changes.height - real.height


def _cluster(name: str, machines: pl.DataFrame, changes: pl.DataFrame) -> Cluster:
    names = tuple(machines["machine"].cast(pl.String))
    index = machines.select("machine", server=pl.int_range(pl.len(), dtype=pl.Int64))
    rows = changes.sort("time", "place").join(index, on="machine", maintain_order="left")
    nothing = np.zeros(len(names), dtype=np.int64)
    capacities = [
        capacity_quanta(machines[column].to_numpy(), resource) for column, resource in RESOURCES.items()
    ]
    return Cluster(
        name=name,
        server_names=names,
        resources=("gpu", *RESOURCES.values()),
        capacity=np.column_stack([nothing, *capacities]),
        speed=np.ones(len(names)),
        vc=(None,) * len(names),
        kind=(ServerKind.PLAIN,) * len(names),
        gpu_type=(None,) * len(names),
        availability=Availability(
            time_us=rows["time"].to_numpy(writable=True),
            server=rows["server"].to_numpy(writable=True),
            up=rows["up"].to_numpy(writable=True),
        ),
    )
