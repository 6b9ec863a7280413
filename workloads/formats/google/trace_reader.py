"""Reader of the parts of a Google trace: collects events, rejected lines and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import US_PER_S
from workloads.formats.google.event_buckets import PLACES_PER_FILE, EventBuckets, bucket_count, with_place
from workloads.formats.google.event_lines import EventTable
from workloads.formats.google.events import AFTER_END_US, TraceLayout
from workloads.formats.google.parts import TablePart
from workloads.formats.text import collect_text
from workloads.meter import Meter
from workloads.rows import SpilledRows, height, in_order
from workloads.trace_format import REJECT_SCHEMA


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

    def buckets(self, table: EventTable, columns: Sequence[str], folder: Path) -> Iterator[pl.DataFrame]:
        """Yield the events of a table in buckets by hash of job; one empty frame if there are none."""
        if not self.has(table):
            return
        paths = [part.path for part in self.parts if part.table == table]
        buckets = EventBuckets(folder / table.name, bucket_count(paths))
        for file, events in self._scan(table, columns):
            buckets.add(events.with_columns(pl.col("user").cast(pl.Categorical)), file)
        self._last_us[table.name] = buckets.last_us(AFTER_END_US)
        if buckets.is_empty():
            dtypes = {field.name: field.dtype for field in table.fields if field.name in columns}
            yield pl.DataFrame(schema={**dtypes, "user": pl.Categorical(), "place": pl.Int64()})
        size = sum(path.stat().st_size for path in paths) / buckets.count
        for bucket in range(buckets.count):
            what = f"putting {table.name} into order, {bucket + 1} of {buckets.count}"
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
