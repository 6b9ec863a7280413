"""Google's cluster trace of 2019: JSON lines, or CSV with a header, plain or gzip; cells of a month each.

J. Wilkes: clusterdata-2019 (version 3), https://github.com/google/cluster-data (CC-BY 4.0); M. Tirmazi et
al., Borg: the Next Generation, EuroSys 2020. The page docs/traces/google-2019.md lists the oddities of the
trace and the rule for each. Listed in `workloads/formats/registry.py` for `ray-sim convert`; reject reasons
and names of counts appear in conversion reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from workloads.formats.google.conversion import trace_format
from workloads.formats.google.event_records import read_records
from workloads.formats.google.events import (
    AFTER_END_US,
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
    typed_events,
)

ALLOC_SET = 1
"""The collection type of a reservation, in which jobs run."""

MAX_PRIORITY = 1000

EVENTS_TOGETHER = 2**20
"""Approximate number of events that are put into buckets at a time."""

_LIFECYCLE_CODES = {0: 0, 1: 9, 2: 10, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: 7, 10: 8}
"""Code that we use by code of 2019: that of 2011, and 9 and 10 for QUEUE and ENABLE, which 2011 has not."""

_MACHINE_CODES = {1: 0, 2: 1, 3: 2}
"""Code of 2011, which we use, by code of 2019."""

_NAMES = {**LIFECYCLE_EVENTS, 9: "QUEUE", 10: "ENABLE"}

EVENT_NAMES = {code_2019: _NAMES[used] for code_2019, used in _LIFECYCLE_CODES.items()}
"""Event name by code of the 2019 trace."""

_USER = EventField("user", pl.String())
_MISSING = code("missing_info", 5)
_CLASS = code("scheduling_class", 3)
_KIND = code("kind", 1)
_EVENT = code("event", 10, required=True)

COLLECTION_EVENTS = EventTable("collection_events", (TIME, _MISSING, JOB, _EVENT, _USER, _CLASS, _KIND))
INSTANCE_EVENTS = EventTable(
    "instance_events",
    (
        *(TIME, _MISSING, JOB, TASK, EventField("machine", pl.Int64(), MAX_ID), _EVENT, _USER, _CLASS, _KIND),
        *(code("priority", MAX_PRIORITY), norm("cpu"), norm("memory"), norm("disk")),
        code("different_machines", 1),
    ),
)
MACHINE_EVENTS = EventTable(
    "machine_events",
    (
        *(TIME, EventField("machine", pl.Int64(), MAX_ID, required=True), code("event", 3, required=True)),
        *(norm("cpu"), norm("memory")),
    ),
)

_TRACE_NAMES = {
    "time": ("time",),
    "missing_info": ("missing_type",),
    "job": ("collection_id",),
    "task": ("instance_index",),
    "machine": ("machine_id",),
    "event": ("type", "instance_events_type", "collections_events_type"),
    "user": ("user",),
    "scheduling_class": ("scheduling_class",),
    "kind": ("collection_type",),
    "priority": ("priority",),
    "cpu": ("resource_request.cpus", "capacity.cpus"),
    "memory": ("resource_request.memory", "capacity.memory"),
}
"""Names in the trace by our column; the first that a record has counts. The trace lacks our other columns."""


def _read(path: Path, table: EventTable, columns: Sequence[str]) -> Iterator[EventFile]:
    trace_names = {field.name: _TRACE_NAMES.get(field.name, ()) for field in table.fields}
    names = [name for several in trace_names.values() for name in several]
    values = {name: pl.coalesce(*several, pl.lit(None, pl.String)) for name, several in trace_names.items()}
    pieces: list[EventFile] = []
    count = 0
    for records in read_records(path, names):
        piece = _events(records.select("line", "text", "fault", **values), table, columns)
        pieces.append(replace(piece, size=int(records["text"].str.len_bytes().sum())))
        count += records.height
        if count >= EVENTS_TOGETHER:
            yield _joined(pieces)
            pieces, count = [], 0
    if pieces:
        yield _joined(pieces)


def _joined(pieces: Sequence[EventFile]) -> EventFile:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(piece.facts)
    return EventFile(
        pl.concat([piece.events for piece in pieces]),
        pl.concat([piece.rejects for piece in pieces]),
        counts,
        sum(piece.size for piece in pieces),
    )


def _events(texts: pl.DataFrame, table: EventTable, columns: Sequence[str]) -> EventFile:
    integers = [
        field.name for field in table.fields if field.maximum is not None and not field.dtype.is_float()
    ]
    texts = texts.with_columns(_as_integer(pl.col(name)).alias(name) for name in integers)
    if table == INSTANCE_EVENTS:  # 0: no machine; -1: the collection's own machine
        texts = texts.with_columns(machine=pl.when(~pl.col("machine").is_in(["0", "-1"])).then("machine"))
    codes = _MACHINE_CODES if table == MACHINE_EVENTS else _LIFECYCLE_CODES
    event = pl.col("event").replace_strict(codes, default=None, return_dtype=pl.Int8)
    unknown = pl.when(event.is_null()).then(pl.lit("invalid_event"))
    typed = typed_events(texts.lazy(), table, pl.col("fault"))
    checked = typed.with_columns(reason=pl.coalesce("reason", unknown), event=event).collect()
    valid = checked.filter(pl.col("reason").is_null())
    counts = {}
    if table != MACHINE_EVENTS:
        jobs = valid.filter(pl.col("kind").ne_missing(ALLOC_SET))
        counts[f"alloc_set_{table.name}"] = valid.height - jobs.height
        valid = jobs
    rejects = checked.filter(pl.col("reason").is_not_null()).select("line", "reason", "text")
    return EventFile(valid.select("line", *columns).lazy(), rejects, counts)


def _as_integer(text: pl.Expr) -> pl.Expr:
    """Rewrite whole numbers written as floats as integers; leave other texts unchanged.

    The time after the end, 2^63 - 1, becomes 2^63 when written as a float.
    """
    number = text.cast(pl.Float64, strict=False)
    small = text.str.contains("[.eE]") & (number == number.round()) & number.is_between(0, 2**53)
    return (
        pl.when(number == 2.0**63)
        .then(pl.lit(str(AFTER_END_US)))
        .when(small)
        .then(number.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(text)
    )


def _guess(line: str) -> EventTable | None:
    keys = (
        ("instance_index", INSTANCE_EVENTS),
        ("collection_id", COLLECTION_EVENTS),
        ("machine_id", MACHINE_EVENTS),
    )
    return next((table for key, table in keys if key in line), None)


FORMAT = trace_format(
    version="1",  # raise it when the same files give other rows
    source="Google, clusterdata-2019",
    files="folder, or files of instance, collection and machine events (JSON lines or CSV)",
    layout=TraceLayout(
        trace="google-2019",
        tasks=INSTANCE_EVENTS,
        jobs=COLLECTION_EVENTS,
        machines=MACHINE_EVENTS,
        names=_NAMES,
        read=_read,
        suffixes=tuple(
            f".{kind}{packed}" for kind in ("json", "jsonl", "ndjson", "csv") for packed in ("", ".gz")
        ),
        guess=_guess,
        guessed_by="line 1 should have an instance_index, a collection_id or a machine_id",
    ),
)
