"""Conversion of a Google cluster trace: events of tasks, jobs and machines become jobs and a cluster.

The traces of 2011 and 2019 differ only in the form of their files, which a `TraceLayout` describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidInputError
from workloads.formats.google.events import TraceLayout
from workloads.formats.google.job_records import (
    by_job_events,
    facts_of_tasks,
    in_trace_order,
    resampled,
    select_rows,
    workload_rows,
)
from workloads.formats.google.machines import TraceMachines, machines_of
from workloads.formats.google.parts import find_parts
from workloads.formats.google.task_lifecycles import (
    REQUESTS,
    attempts,
    gangs,
    in_order,
    lifecycles,
    with_neighbours,
)
from workloads.formats.google.trace_reader import GoogleTrace
from workloads.meter import Meter
from workloads.rows import SpilledRows, computed, height
from workloads.trace_format import Censored, ConvertOptions, Parsed, RowKind, RunTime, TraceFormat

_JOB_COLUMNS = ("time", "job", "event", "user", "scheduling_class")
_TASK_COLUMNS = (*_JOB_COLUMNS, "task", "machine", "priority", *REQUESTS)
_MACHINE_COLUMNS = ("time", "machine", "event", "cpu", "memory")


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
    for rows in _rows(trace, folder, options.rows, rule):
        selected = select_rows(rows, rule, options.censored)
        sound.add(selected.sound)
        rejected.add(selected.rejected)
    kept = in_trace_order(sound.scan(), rejected.scan())
    if options.censored == Censored.RESAMPLE:
        kept = resampled(kept, options.seed)
    machines = _machines(trace) if trace.has(layout.machines) else None
    rejects, count = trace.rejects(rejected.scan()), height(kept)
    return Parsed(
        jobs=computed(workload_rows(kept), count, folder, "jobs"),
        rejects=rejects,
        read=count + height(rejects),
        options={"rows": str(options.rows), "run_time": str(rule), "censored": str(options.censored)},
        notes=trace.notes(),
        warnings=tuple(trace.warnings),
        seed=options.seed if options.censored == Censored.RESAMPLE else None,
        cluster=machines.cluster if machines and options.cluster else None,
    )


def _rule(options: ConvertOptions) -> RunTime:
    if options.rows == RowKind.TASK:
        return options.run_time or RunTime.SUM
    if options.run_time not in (None, RunTime.SPAN):
        raise InvalidInputError(
            f"--run-time {options.run_time}: a job of many tasks runs from its first start to its last end;"
            " leave the option out, or take --rows task"
        )
    return RunTime.SPAN


def _rows(trace: GoogleTrace, folder: Path, kind: RowKind, rule: RunTime) -> Iterator[pl.DataFrame]:
    """Yield lifecycles or attempts of tasks, bucket by bucket, or all gangs at once."""
    jobs = _jobs(trace, folder)
    if kind == RowKind.TASK:
        yield from _tasks(trace, folder, rule)
        return
    frames = [gangs(tasks) for tasks in _tasks(trace, folder, rule)]
    sized = pl.concat(frames) if frames else None
    if jobs is not None:
        yield by_job_events(jobs, sized)
    elif sized is not None:
        yield sized


def _tasks(trace: GoogleTrace, folder: Path, rule: RunTime) -> Iterator[pl.DataFrame]:
    """Yield lifecycles of tasks, or their attempts, bucket by bucket."""
    for events in trace.buckets(trace.layout.tasks, _TASK_COLUMNS, folder):
        near = with_neighbours(in_order(events, ["job", "task"]))
        tasks = lifecycles(near, ["job", "task"])
        trace.add_facts(facts_of_tasks(tasks))
        rows = attempts(near) if rule == RunTime.ATTEMPTS else tasks
        yield rows.with_columns(until=trace.last_us(trace.layout.tasks))


def _jobs(trace: GoogleTrace, folder: Path) -> pl.DataFrame | None:
    """Lifecycles of jobs; None without job events."""
    frames = [
        lifecycles(with_neighbours(in_order(events, ["job"])), ["job"])
        for events in trace.buckets(trace.layout.jobs, _JOB_COLUMNS, folder)
    ]
    if not frames:
        return None
    jobs = pl.concat(frames).with_columns(until=trace.last_us(trace.layout.jobs))
    trace.add_facts({"job_ids_used_again": int((jobs["submits"] > 1).sum())})
    return jobs


def _machines(trace: GoogleTrace) -> TraceMachines:
    events = trace.collect(trace.layout.machines, _MACHINE_COLUMNS)
    machines = machines_of(trace.layout.trace, events, trace.machines_used)
    trace.add_facts(machines.facts)
    trace.warnings += machines.warnings
    return machines


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
