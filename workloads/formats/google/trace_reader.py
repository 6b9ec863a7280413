"""Find and read the parts of a Google trace: collects events, rejected lines and counts for `conversion.py`.

All events of a job are in one bucket by hash of the job, on disk if there are several, and memory holds one
bucket at a time.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import US_PER_S
from workloads.files import open_unpacked, require_file, text_bytes
from workloads.formats.google.events import AFTER_END_US, EventTable, TraceLayout
from workloads.formats.text import collect_text
from workloads.progress import Meter
from workloads.rows import PartitionedRows, SpilledRows, height, in_order
from workloads.trace_format import REJECT_SCHEMA

_PART = re.compile(r"part-(\d+)-of-(\d+)")

_FIRST_LINE = 2**16
"""Characters of the first line that are read to tell the table."""

PLACES_PER_FILE = 2**40
"""Position of an event in the trace: `place` = number of its file x `PLACES_PER_FILE` + its line."""

BUCKET_BYTES = 2**27
"""Bytes of text per bucket. A single bucket stays in memory."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """One file of a table."""

    path: Path
    table: EventTable

    @property
    def label(self) -> str:
        """Name in the provenance, with the table, since parts of two tables can have the same file name."""
        return self.path.name if self.table.name in self.path.name else f"{self.table.name}/{self.path.name}"


def find_parts(paths: Sequence[Path], layout: TraceLayout) -> list[TablePart]:
    """The parts that files and folders hold, table by table, in the order of their numbers.

    A folder is the trace's folder (with one folder per table) or the folder of one table. A file belongs to
    the table named in its file name or folder; failing that, to the table that its first line fits.

    Raises
    ------
    InvalidWorkloadError : a path is missing, a folder holds no part, a file is of no table, or the parts
        are not of one trace: a number twice, or of different totals
    """
    parts: list[TablePart] = []
    for path in paths:
        parts += _in_folder(path, layout) if path.is_dir() else [_of_file(path, layout)]
    if len({part.path.resolve() for part in parts}) < len(parts):
        raise InvalidWorkloadError("a part is named twice; its events would be counted twice")
    for table in layout.tables:
        _check_numbers([part for part in parts if part.table == table])
    return sorted(parts, key=lambda part: (layout.tables.index(part.table), _number(part) or 0))


def _in_folder(folder: Path, layout: TraceLayout) -> Iterator[TablePart]:
    names = [table.name for table in layout.tables]
    folders = [folder / name for name in names] if folder.name not in names else [folder]
    inside = [path for sub in folders if sub.is_dir() for path in sorted(sub.iterdir())]
    files = [path for path in inside if path.is_file() and path.name.endswith(layout.suffixes)]
    files = [path for path in files if not path.name.startswith(".")]
    if not files:
        forms = " or ".join(f"*{suffix}" for suffix in layout.suffixes)
        raise InvalidWorkloadError(
            f"{folder}: holds no part of the trace; expected folders {', '.join(names)} with files {forms}"
        )
    return (_of_file(path, layout) for path in files)


def _of_file(path: Path, layout: TraceLayout) -> TablePart:
    require_file(path)
    for table in layout.tables:
        if table.name in path.name or table.name == path.absolute().parent.name:
            return TablePart(path, table)
    try:
        with open_unpacked(path) as stream:
            table_like = layout.guess(stream.readline(_FIRST_LINE))
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidWorkloadError(f"{path}: cannot be read ({error}); fetch the file again") from error
    if table_like is None:
        raise InvalidWorkloadError(
            f"{path}: cannot tell its table: {layout.guessed_by}; put it into a folder named after its table"
        )
    return TablePart(path, table_like)


def _number(part: TablePart) -> int | None:
    match = _PART.search(part.path.name)
    return int(match[1]) if match else None


def _check_numbers(parts: Sequence[TablePart]) -> None:
    totals: dict[str, TablePart] = {}
    numbers: dict[int, TablePart] = {}
    for part in parts:
        match = _PART.search(part.path.name)
        if match is None:
            continue
        other = numbers.setdefault(int(match[1]), part)
        if other is not part:
            raise InvalidWorkloadError(
                f"{other.path} and {part.path}: the same part of {part.table.name} twice"
            )
        totals.setdefault(match[2], part)
        if len(totals) > 1:
            raise InvalidWorkloadError(
                f"{' and '.join(str(part.path) for part in totals.values())}: parts of two different traces"
            )


def with_place(events: pl.LazyFrame, file: int) -> pl.LazyFrame:
    """The events of a file with their `place` in the trace instead of their `line`."""
    return events.with_columns(place=pl.col("line") + file * PLACES_PER_FILE).drop("line")


def bucket_count(paths: Sequence[Path]) -> int:
    """Number of buckets for these files; the rows of the workload do not depend on it."""
    return max(1, -(-text_bytes(paths) // BUCKET_BYTES))


class GoogleTrace:
    """Parts of a trace, and the counts, warnings and rejects found so far."""

    def __init__(self, parts: Sequence[TablePart], layout: TraceLayout, folder: Path, meter: Meter) -> None:
        self.parts = parts
        self._meter = meter
        ordered = [part.path for part in parts if part.table != layout.machines]
        meter.expect(sum(path.stat().st_size for path in ordered))  # put into order after they are read
        self.layout = layout
        self._facts: Counter[str] = Counter()
        self.warnings: list[str] = []
        self.machines_used: set[int] = set()
        self._counts: dict[str, Counter[str]] = {}
        self._last_us: dict[str, int] = {}
        self._after_end = 0
        self._folder = folder
        self._rejects = SpilledRows(folder, "rejects")
        self._rejects.add(pl.DataFrame(schema=REJECT_SCHEMA))

    def has(self, table: EventTable) -> bool:
        """Whether there is a part of the table."""
        return any(part.table == table for part in self.parts)

    def require(self, tables: Sequence[EventTable]) -> None:
        """Raise unless there is a part of one of the tables."""
        if not any(self.has(table) for table in tables):
            names = " or ".join(table.name for table in tables)
            found = ", ".join(dict.fromkeys(part.table.name for part in self.parts))
            raise InvalidWorkloadError(f"no {names} given, only {found}; name their files or folder too")

    def add_facts(self, facts: Mapping[str, int]) -> None:
        """Add counts; for names that begin with `most`, keep the largest."""
        for name, count in facts.items():
            before = self._facts[name]
            self._facts[name] = max(before, count) if name.startswith("most") else before + count

    def last_us(self, table: EventTable) -> int:
        """Time of the last event before the trace's end, of a table that was read."""
        return self._last_us.get(table.name, 0)

    def collect(self, table: EventTable, columns: Sequence[str]) -> pl.DataFrame:
        """All events of a table that fits into memory."""
        frames = [
            collect_text(self.parts[file].path, with_place(events, file))
            for file, events in self._scan(table, columns)
        ]
        events = self._counted(table, pl.concat(frames))
        self._last_us[table.name] = events.select(pl.col("time").max().fill_null(0)).item()
        return events

    def buckets(self, table: EventTable, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield the events of a table in buckets by hash of job; one empty frame if there are none."""
        if not self.has(table):
            return
        paths = [part.path for part in self.parts if part.table == table]
        buckets = PartitionedRows(self._folder / table.name, bucket_count(paths))
        for file, events in self._scan(table, columns):
            placed = with_place(events, file).with_columns(pl.col("user").cast(pl.Categorical))
            buckets.add(placed, pl.col("job").hash(0) % buckets.parts)
        if buckets.is_empty():
            dtypes = {field.name: field.dtype for field in table.fields if field.name in columns}
            yield pl.DataFrame(schema={**dtypes, "user": pl.Categorical(), "place": pl.Int64()})
        else:
            before_end = buckets.scan().select("time").filter(pl.col("time") < AFTER_END_US)
            last = before_end.select(pl.col("time").max().fill_null(0)).collect(engine="streaming")
            self._last_us[table.name] = last.item()
        size = sum(path.stat().st_size for path in paths) / buckets.parts
        for bucket in range(buckets.parts):
            what = f"putting {table.name} into order, {bucket + 1} of {buckets.parts}"
            ordered = self._meter.step(size, what)
            stored = buckets.read(bucket)
            if stored is not None:
                yield self._counted(table, stored)
            ordered(1, 1)

    def rejects(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rejected lines and the ``rows`` with a `reason`, as `REJECT_SCHEMA`."""
        labels = pl.Series([part.label for part in self.parts], dtype=pl.String)
        names = [name for name in ("task", "job") if name in rows.collect_schema().names()]
        what = pl.format("task {} of job {}" if "task" in names else "job {}", *names)
        for ordered in in_order(rows, height(rows), self._folder, ["place"]):
            named = ordered.select(
                source=pl.lit(labels).gather(pl.col("place") // PLACES_PER_FILE),
                line=pl.col("place") % PLACES_PER_FILE,
                reason="reason",
                text=what,
            )
            self._rejects.add(named)
        return self._rejects.scan()

    def notes(self) -> dict[str, JsonValue]:
        """Facts and counts of what was read."""
        notes: dict[str, JsonValue] = {}
        for name, counts in self._counts.items():
            notes[name] = {**counts, "last_s": self._last_us.get(name, 0) / US_PER_S}
        return {**notes, "events_after_the_end": self._after_end, **self._facts}

    def _scan(self, table: EventTable, columns: Sequence[str]) -> Iterator[tuple[int, pl.LazyFrame]]:
        """Yield the index of each part and its sound events; the other lines become rejects."""
        self._counts[table.name] = Counter(dict.fromkeys(self.layout.event_names(table).values(), 0))
        for file, part in enumerate(self.parts):
            if part.table == table:
                self._meter.begin(part.path)
                for found in self.layout.read(part.path, table, columns):
                    self._meter.add(found.size)
                    self._rejects.add(found.rejects.select(pl.lit(part.label).alias("source"), pl.all()))
                    self.add_facts(found.facts)
                    yield file, found.events

    def _counted(self, table: EventTable, events: pl.DataFrame) -> pl.DataFrame:
        """Count events by kind, and return those before the trace's end."""
        names = self.layout.event_names(table)
        for event, count in events["event"].value_counts().iter_rows():
            self._counts[table.name][names[event]] += count
        within = events.filter(pl.col("time") != AFTER_END_US)
        self._after_end += events.height - within.height
        if table == self.layout.tasks:
            self.machines_used |= set(within["machine"].drop_nulls().unique().to_list())
            within = within.drop("machine")
        return within
