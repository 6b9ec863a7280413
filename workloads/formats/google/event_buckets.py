"""Buckets of events by hash of the job, on disk if there are several.

All events of a job are in one bucket, and memory holds one bucket at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from workloads.files import text_bytes
from workloads.rows import PartitionedRows

PLACES_PER_FILE = 2**40
"""Position of an event in the trace: `place` = number of its file x `PLACES_PER_FILE` + its line."""

BUCKET_BYTES = 2**27
"""Bytes of text per bucket. A single bucket stays in memory."""


def with_place(events: pl.LazyFrame, file: int) -> pl.LazyFrame:
    """The events of a file with their `place` in the trace instead of their `line`."""
    return events.with_columns(place=pl.col("line") + file * PLACES_PER_FILE).drop("line")


def bucket_count(paths: Sequence[Path]) -> int:
    """Number of buckets for these files; the rows of the workload do not depend on it."""
    return max(1, -(-text_bytes(paths) // BUCKET_BYTES))


class EventBuckets:
    """Events of one table, by a hash of their job."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self._stored = PartitionedRows(folder, count)
        self._held: list[pl.DataFrame] = []

    def add(self, events: pl.LazyFrame, file: int) -> None:
        """Store the events of one file; they have `job` and `line`, and get a `place`.

        Raises
        ------
        InvalidInputError : there is no room for them
        """
        placed = with_place(events, file)
        if self.count == 1:
            self._held.append(placed.collect(engine="streaming"))
        else:
            self._stored.add(placed, pl.col("job").hash(0) % self.count)

    def last_us(self, end_us: int) -> int:
        """The time of the last event before ``end_us``; 0 without any."""
        if self.is_empty():
            return 0
        events = [frame.lazy() for frame in self._held] or [self._stored.scan()]
        last = pl.concat([lazy.select("time") for lazy in events]).filter(pl.col("time") < end_us)
        time: int = last.select(pl.col("time").max().fill_null(0)).collect(engine="streaming").item()
        return time

    def is_empty(self) -> bool:
        """Whether nothing was stored."""
        return not self._held and self._stored.is_empty()

    def read(self, bucket: int) -> pl.DataFrame | None:
        """The events of one bucket, file by file; None without any."""
        return pl.concat(self._held) if self._held else self._stored.read(bucket)
