"""Event tables of the Google traces: codes, columns and file layouts, and the reader of headerless CSV.

If all lines of a file match the table's pattern, polars' CSV reader parses it at full speed. Otherwise each
line is split and checked, so that every line is either an event or rejected with a reason.
`trace2011.py` and `trace2019.py` declare their tables with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

import polars as pl

from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.checks import number_reason
from workloads.formats.text import BLANKS, TEXT_LIMIT, check_text, collect_text
from workloads.schema import MAX_NORM, Column

_LINE = "text"

AFTER_END_US = 2**63 - 1
"""Time of events after the end of the trace."""

SUBMIT, SCHEDULE, FINISH = 0, 1, 4

STATUS = {2: "EVICT", 3: "FAIL", FINISH: "FINISH", 5: "KILL", 6: "LOST"}
"""Events of a task or job that end its run, or its wait."""

LIFECYCLE_EVENTS = {
    SUBMIT: "SUBMIT",
    SCHEDULE: "SCHEDULE",
    **STATUS,
    7: "UPDATE_PENDING",
    8: "UPDATE_RUNNING",
}
"""Event names by code of 2011. Codes above those of `STATUS` change no state."""

ADD, REMOVE = 0, 1

MACHINE_EVENTS = {ADD: "ADD", REMOVE: "REMOVE", 2: "UPDATE"}

MAX_ID = 2**62

MAX_INDEX = 2**24


@dataclass(frozen=True, slots=True)
class EventField:
    """One column of an event table: text, or a number that is at least 0."""

    name: str
    dtype: pl.DataType
    maximum: int | None = None
    """Largest value of a number; None for text."""
    required: bool = False
    beyond: int | None = None
    """One number above the maximum that is also sound."""

    @property
    def pattern(self) -> str:
        """Regular expression of texts that are certainly sound; other texts are checked one by one."""
        if self.maximum is None:
            some = r'[^," \t\r]+'
        elif self.dtype.is_float():
            some = r"[0-9]{1,3}(?:\.[0-9]{1,20})?(?:[eE]-[0-9]{1,2})?"
        elif self.maximum < 100:
            some = f"(?:{'|'.join(map(str, range(self.maximum + 1)))})"
        else:
            some = f"[0-9]{{1,{len(str(self.maximum)) - 1}}}"
        return some if self.required else f"(?:{some})?"

    def reason(self, text: pl.Expr, value: pl.Expr) -> pl.Expr:
        """Reject reason of a line for its stripped ``text``, read as ``value``; null if it is sound."""
        if self.maximum is None:
            return pl.lit(None, pl.String())
        null = None if self.required else "unknown"
        column = Column(self.name, self.dtype, "", null=null, minimum=0, maximum=self.maximum)
        why = number_reason(column, text, value)
        return why if self.beyond is None else pl.when(value.ne_missing(self.beyond)).then(why)


@dataclass(frozen=True, slots=True)
class EventTable:
    """A kind of event file."""

    name: str
    fields: tuple[EventField, ...]

    @property
    def pattern(self) -> str:
        """Regular expression of lines that are certainly sound."""
        return f"^{','.join(field.pattern for field in self.fields)}$"


@dataclass(frozen=True, slots=True)
class EventFile:
    """The lines of one file, read."""

    events: pl.LazyFrame
    """`line` (from 1) and the wanted fields of the sound lines, in order."""
    rejects: pl.DataFrame
    """`line`, `reason` and `text`, cut at `TEXT_LIMIT`, of the others."""
    facts: dict[str, int] = dataclass_field(default_factory=dict)
    """Counts of skipped content by name."""
    size: int = 0
    """Approximate bytes of text already read; 0 for a lazy file."""


def read_events(path: Path, table: EventTable, wanted: Sequence[str]) -> EventFile:
    """Read a file of events, plain or gzip.

    Raises
    ------
    InvalidWorkloadError : not UTF-8, a truncated or damaged gzip file, one that unpacks to too much, or a
        line that is too long
    """
    check_text(path, lines=True)
    lines = pl.scan_lines(path, name=_LINE, row_index_name="line", row_index_offset=1, glob=False)
    unsure = collect_text(path, lines.filter(~pl.col(_LINE).str.contains(table.pattern)).select(pl.len()))
    if unsure.item() == 0:
        rejects = pl.DataFrame(schema={"line": pl.Int64, "reason": pl.String, "text": pl.String})
        return EventFile(_clean(path, table).select("line", *wanted), rejects)
    checked = _checked(lines, table)
    rejected = checked.filter(pl.col("reason").is_not_null())
    rejects = collect_text(path, rejected.select("line", "reason", pl.col(_LINE).str.slice(0, TEXT_LIMIT)))
    return EventFile(checked.filter(pl.col("reason").is_null()).select("line", *wanted), rejects)


def _clean(path: Path, table: EventTable) -> pl.LazyFrame:
    """Parse a file whose lines all match the pattern."""
    return pl.scan_csv(
        path,
        has_header=False,
        schema={field.name: field.dtype for field in table.fields},
        quote_char=None,
        glob=False,
        row_index_name="line",
        row_index_offset=1,
    ).with_columns(pl.col("line").cast(pl.Int64))


def _checked(lines: pl.LazyFrame, table: EventTable) -> pl.LazyFrame:
    """Split every line into fields; `reason` is the reject reason, or null."""
    raw = pl.col(_LINE)
    unmarked = pl.when(pl.col("line") == 1).then(raw.str.strip_prefix("\ufeff")).otherwise(raw)
    parts = pl.col("parts")
    split = lines.with_columns(pl.col("line").cast(pl.Int64), unmarked.alias(_LINE)).with_columns(
        parts=raw.str.split(",").list.eval(pl.element().str.strip_chars(BLANKS))
    )
    texts = {field.name: parts.list.get(i, null_on_oob=True) for i, field in enumerate(table.fields)}
    filled = split.with_columns(pl.when(text != "").then(text).alias(name) for name, text in texts.items())
    fault = (
        pl.when(~raw.str.contains(f"[^{BLANKS},]"))
        .then(pl.lit("empty_row"))
        .when(raw.str.starts_with("#"))
        .then(pl.lit("comment"))
        .when(raw.str.contains('"', literal=True))
        .then(pl.lit("unexpected_quotes"))
        .when(parts.list.len() != len(table.fields))
        .then(pl.lit("wrong_field_count"))
    )
    return typed_events(filled, table, fault)


def typed_events(texts: pl.LazyFrame, table: EventTable, fault: pl.Expr) -> pl.LazyFrame:
    """`line`, `text`, and the fields with their types; `reason` is why the event is none, or null.

    Parameters
    ----------
    texts : `line`, `text`, and the fields as stripped texts, null where blank
    fault : why there is nothing to look at, or null
    """
    values = {
        field.name: pl.col(field.name)
        if field.maximum is None
        else pl.col(field.name).cast(pl.Float64 if field.dtype.is_float() else pl.Int64, strict=False)
        for field in table.fields
    }
    reasons = [field.reason(pl.col(field.name), values[field.name]) for field in table.fields]
    typed = {field.name: values[field.name].cast(field.dtype, strict=False) for field in table.fields}
    return texts.select("line", _LINE, reason=pl.coalesce(fault, *reasons), **typed)


TIME = EventField("time", pl.Int64(), MAX_TIME_S * US_PER_S, required=True, beyond=AFTER_END_US)
JOB = EventField("job", pl.Int64(), MAX_ID, required=True)
TASK = EventField("task", pl.Int64(), MAX_INDEX, required=True)


def code(name: str, maximum: int, required: bool = False) -> EventField:
    """A small whole number."""
    return EventField(name, pl.Int8() if maximum < 2**7 else pl.Int16(), maximum, required)


def norm(name: str) -> EventField:
    """A resource amount as a fraction of the largest machine's."""
    return EventField(name, pl.Float64(), MAX_NORM)


Reader = Callable[[Path, EventTable, Sequence[str]], Iterator[EventFile]]


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """Form of the files of one trace.

    Job events have the columns time, job, event, user, scheduling_class. Task events have these and task,
    machine, priority, cpu, memory, disk, different_machines. Machine events have time, machine, event, cpu,
    memory. Events have the codes of `LIFECYCLE_EVENTS` and `MACHINE_EVENTS`.
    """

    trace: str
    """Name of the format, and of the cluster."""
    tasks: EventTable
    jobs: EventTable
    machines: EventTable
    names: Mapping[int, str]
    """Names of the events of tasks and jobs by code."""
    read: Reader
    """Reader of the wanted columns of one file; yields it in pieces."""
    suffixes: tuple[str, ...]
    """Suffixes of the trace's files; other files in a folder are ignored."""
    guess: Callable[[str], EventTable | None]
    """The table of a file by its first line, where names do not tell."""
    guessed_by: str
    """Expected content of the first line, for error messages."""

    @property
    def tables(self) -> tuple[EventTable, ...]:
        """In the order in which parts are read."""
        return self.jobs, self.tasks, self.machines

    def event_names(self, table: EventTable) -> Mapping[int, str]:
        """Event names of a table by code."""
        return MACHINE_EVENTS if table == self.machines else self.names
