"""The parts of a Google trace as they are read: events, rejects and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import US_PER_S
from workloads.event_buckets import PLACES_PER_FILE, EventBuckets, bucket_count, with_place
from workloads.event_lines import Table
from workloads.google_events import AFTER_END_US, Vocabulary
from workloads.google_parts import Part
from workloads.rows import Rows, height, in_order
from workloads.text import collect_text
from workloads.trace_format import REJECT_SCHEMA


class GoogleTrace:
    """A trace's parts, and what has been found in them so far."""

    def __init__(self, parts: Sequence[Part], words: Vocabulary, folder: Path) -> None:
        self.parts = parts
        self.words = words
        self._facts: Counter[str] = Counter()
        self.warnings: list[str] = []
        self.machines_used: set[int] = set()
        self._counts: dict[str, Counter[str]] = {}
        self._last_us: dict[str, int] = {}
        self._after_end = 0
        self._rejects = Rows(folder, "rejects")
        self._rejects.add(pl.DataFrame(schema=REJECT_SCHEMA))

    def has(self, table: Table) -> bool:
        """Whether there is a part of the table."""
        return any(part.table == table for part in self.parts)

    def require(self, tables: Sequence[Table]) -> None:
        """Raise unless there is a part of one of the tables."""
        if not any(self.has(table) for table in tables):
            names = " or ".join(table.name for table in tables)
            found = ", ".join(dict.fromkeys(part.table.name for part in self.parts))
            raise InvalidWorkloadError(f"no {names} given, only {found}; name their files or folder too")

    def add_facts(self, facts: Mapping[str, int]) -> None:
        """Add up counts of parts of the trace; of those called `most` the largest counts."""
        for name, count in facts.items():
            before = self._facts[name]
            self._facts[name] = max(before, count) if name.startswith("most") else before + count

    def last_us(self, table: Table) -> int:
        """Time of the last event before the trace's end, of a table that was read."""
        return self._last_us.get(table.name, 0)

    def collect(self, table: Table, columns: Sequence[str]) -> pl.DataFrame:
        """All events of a small table."""
        frames = [
            collect_text(self.parts[file].path, with_place(events, file))
            for file, events in self._scan(table, columns)
        ]
        events = self._counted(table, pl.concat(frames))
        self._last_us[table.name] = events.select(pl.col("time").max().fill_null(0)).item()
        return events

    def buckets(self, table: Table, columns: Sequence[str], folder: Path) -> Iterator[pl.DataFrame]:
        """The events of a table, job by hashed job; an empty frame where its parts hold none."""
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
        for bucket in range(buckets.count):
            stored = buckets.read(bucket)
            if stored is not None:
                yield self._counted(table, stored)

    def rejects(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The lines that are no events, and the rows with a `reason`, as `REJECT_SCHEMA`."""
        labels = pl.Series([part.label for part in self.parts], dtype=pl.String)
        names = [name for name in ("task", "job") if name in rows.collect_schema().names()]
        what = pl.format("task {} of job {}" if "task" in names else "job {}", *names)
        for ordered in in_order(rows, height(rows), ["place"]):
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

    def _scan(self, table: Table, columns: Sequence[str]) -> Iterator[tuple[int, pl.LazyFrame]]:
        """The sound events of each part, and its number among all; the others become rejects."""
        self._counts[table.name] = Counter(dict.fromkeys(self.words.event_names(table).values(), 0))
        for file, part in enumerate(self.parts):
            if part.table == table:
                for found in self.words.read(part.path, table, columns):
                    self._rejects.add(found.rejects.select(pl.lit(part.label).alias("source"), pl.all()))
                    self.add_facts(found.facts)
                    yield file, found.events

    def _counted(self, table: Table, events: pl.DataFrame) -> pl.DataFrame:
        """The events before the trace's end, after all have been counted by kind."""
        names = self.words.event_names(table)
        for event, count in events["event"].value_counts().iter_rows():
            self._counts[table.name][names[event]] += count
        within = events.filter(pl.col("time") != AFTER_END_US)
        self._after_end += events.height - within.height
        if table == self.words.tasks:
            self.machines_used |= set(within["machine"].drop_nulls().unique().to_list())
            within = within.drop("machine")
        return within
