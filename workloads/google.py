"""A cluster trace of Google's: events of tasks, jobs and machines become jobs and a cluster.

The years differ in how they write events down, which their `Vocabulary` says, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidInputError
from workloads.google_events import Vocabulary
from workloads.google_lives import REQUESTS, attempts, gangs, in_order, lives, with_neighbours
from workloads.google_machines import Machines, machines_of
from workloads.google_parts import find_parts
from workloads.google_runs import (
    by_job_events,
    facts_of_tasks,
    in_trace_order,
    judge,
    resampled,
    workload_rows,
)
from workloads.google_trace import GoogleTrace
from workloads.rows import Rows, computed, height
from workloads.trace_format import Censored, ConvertOptions, Parsed, RowKind, RunTime, TraceFormat

_JOB_COLUMNS = ("time", "job", "event", "user", "scheduling_class")
_TASK_COLUMNS = (*_JOB_COLUMNS, "task", "machine", "priority", *REQUESTS)
_MACHINE_COLUMNS = ("time", "machine", "event", "cpu", "memory")


def find(paths: Sequence[Path], words: Vocabulary) -> Mapping[Path, str]:
    """The parts that files and folders hold, with their names in the provenance."""
    return {part.path: part.label for part in find_parts(paths, words)}


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, words: Vocabulary) -> Parsed:
    """Parse event tables: any parts of them, with task events or, for rows of jobs, job events.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable, or the table that the rows come from is missing
    InvalidInputError : the options contradict each other
    """
    rule = _rule(options)
    trace = GoogleTrace(find_parts(paths, words), words, folder)
    trace.require([words.tasks] if options.rows == RowKind.TASK else [words.tasks, words.jobs])
    if options.cluster:
        trace.require([words.machines])
    sound, rejected = Rows(folder, "sound"), Rows(folder, "rejected")
    for rows in _rows(trace, folder, options.rows, rule):
        verdict = judge(rows, rule, options.censored)
        sound.add(verdict.sound)
        rejected.add(verdict.rejected)
    kept = in_trace_order(sound.scan(), rejected.scan())
    if options.censored == Censored.RESAMPLE:
        kept = resampled(kept, options.seed)
    machines = _machines(trace) if trace.has(words.machines) else None
    rejects, count = trace.rejects(rejected.scan()), height(kept)
    return Parsed(
        jobs=computed(workload_rows(kept), count, folder / "jobs.parquet"),
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
    """Lives or attempts, bucket by bucket; or all gangs."""
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
    """Lives of tasks, or their attempts, bucket by bucket."""
    for events in trace.buckets(trace.words.tasks, _TASK_COLUMNS, folder):
        near = with_neighbours(in_order(events, ["job", "task"]))
        tasks = lives(near, ["job", "task"])
        trace.add_facts(facts_of_tasks(tasks))
        rows = attempts(near) if rule == RunTime.ATTEMPTS else tasks
        yield rows.with_columns(until=trace.last_us(trace.words.tasks))


def _jobs(trace: GoogleTrace, folder: Path) -> pl.DataFrame | None:
    """Lives of jobs; None without job events."""
    frames = [
        lives(with_neighbours(in_order(events, ["job"])), ["job"])
        for events in trace.buckets(trace.words.jobs, _JOB_COLUMNS, folder)
    ]
    if not frames:
        return None
    jobs = pl.concat(frames).with_columns(until=trace.last_us(trace.words.jobs))
    trace.add_facts({"job_ids_used_again": int((jobs["submits"] > 1).sum())})
    return jobs


def _machines(trace: GoogleTrace) -> Machines:
    events = trace.collect(trace.words.machines, _MACHINE_COLUMNS)
    machines = machines_of(trace.words.trace, events, trace.machines_used)
    trace.add_facts(machines.facts)
    trace.warnings += machines.warnings
    return machines


def trace_format(version: str, words: Vocabulary) -> TraceFormat:
    """The converter of a trace with this vocabulary."""
    return TraceFormat(
        name=words.trace,
        version=version,
        read=partial(read, words=words),
        options=frozenset({"run_time", "rows", "censored", "seed", "cluster"}),
        find=partial(find, words=words),
    )
