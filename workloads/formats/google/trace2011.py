"""Google's cluster trace of 2011: headerless CSV in parts, plain or gzip; one cluster over 29 days.

J. Wilkes, C. Reiss: clusterdata-2011-2, https://github.com/google/cluster-data (CC-BY 4.0). C. Reiss,
J. Wilkes, J. Hellerstein, Google cluster-usage traces: format and schema, version 2. The page
docs/traces/google-2011.md lists the oddities of the trace and the rule for each. Listed in
`workloads/formats/registry.py` for `ray-sim convert`; names of tables and fields appear in reject reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from workloads.formats.google.conversion import trace_format
from workloads.formats.google.events import (
    JOB,
    LIFECYCLE_EVENTS,
    MAX_ID,
    TASK,
    TIME,
    EventField,
    EventFile,
    EventTable,
    TraceLayout,
    code,
    norm,
    read_events,
)

_USER = EventField("user", pl.String())
_MISSING = code("missing_info", 2)
_EVENT = code("event", 8, required=True)
_CLASS = code("scheduling_class", 3)

JOB_EVENTS = EventTable(
    "job_events",
    (
        *(TIME, _MISSING, JOB, _EVENT, _USER, _CLASS),
        *(EventField("job_name", pl.String()), EventField("logical_job_name", pl.String())),
    ),
)
TASK_EVENTS = EventTable(
    "task_events",
    (
        *(TIME, _MISSING, JOB, TASK, EventField("machine", pl.Int64(), MAX_ID), _EVENT, _USER, _CLASS),
        *(code("priority", 11), norm("cpu"), norm("memory"), norm("disk"), code("different_machines", 1)),
    ),
)
MACHINE_EVENTS = EventTable(
    "machine_events",
    (
        *(TIME, EventField("machine", pl.Int64(), MAX_ID, required=True), code("event", 2, required=True)),
        *(EventField("platform", pl.String()), norm("cpu"), norm("memory")),
    ),
)

# The order of fields is the order of columns in the files.
_TABLES = (JOB_EVENTS, TASK_EVENTS, MACHINE_EVENTS)


def _read(path: Path, table: EventTable, columns: Sequence[str]) -> Iterator[EventFile]:
    yield read_events(path, table, columns)


def _guess(line: str) -> EventTable | None:
    """Table with as many columns as the line; each table has another number."""
    columns = line.count(",") + 1
    return next((table for table in _TABLES if len(table.fields) == columns), None)


FORMAT = trace_format(
    version="1",  # raise it when the same files give other rows
    source="Google, clusterdata-2011-2",
    files="folder, or files of task_events, job_events and machine_events (CSV)",
    layout=TraceLayout(
        trace="google-2011",
        tasks=TASK_EVENTS,
        jobs=JOB_EVENTS,
        machines=MACHINE_EVENTS,
        names=LIFECYCLE_EVENTS,
        read=_read,
        suffixes=(".csv.gz", ".csv"),
        guess=_guess,
        guessed_by="line 1 should have as many columns as one of "
        + ", ".join(f"{table.name} ({len(table.fields)})" for table in _TABLES),
    ),
)
