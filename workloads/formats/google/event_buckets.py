"""Buckets of events by hash of the job, on disk if there are several.

All events of a job are in one bucket, and memory holds one bucket at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from workloads.files import text_bytes
from workloads.rows import no_room

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
        self._folder = folder
        self._files = 0
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
            return
        placed = placed.with_columns(bucket=pl.col("job").hash(0) % self.count)
        target = pl.PartitionBy(self._folder / str(self._files), key="bucket", include_key=False)
        self._files += 1
        try:
            placed.sink_ipc(target, mkdir=True, compression="lz4")
        except (pl.exceptions.PolarsError, OSError) as error:
            raise no_room(self._folder.parent, error) from error

    def last_us(self, end_us: int) -> int:
        """The time of the last event before ``end_us``; 0 without any."""
        if self.is_empty():
            return 0
        files = sorted(self._folder.glob("*/bucket=*/*"))
        events = [frame.lazy() for frame in self._held] or [
            pl.scan_ipc(files, glob=False, hive_partitioning=False)
        ]
        last = pl.concat([lazy.select("time") for lazy in events]).filter(pl.col("time") < end_us)
        time: int = last.select(pl.col("time").max().fill_null(0)).collect(engine="streaming").item()
        return time

    def is_empty(self) -> bool:
        """Whether nothing was stored."""
        return not self._held and not any(self._folder.glob("*/bucket=*/*"))

    def read(self, bucket: int) -> pl.DataFrame | None:
        """The events of one bucket, file by file; None without any."""
        if self._held:
            return pl.concat(self._held)
        files = sorted(self._folder.glob(f"*/bucket={bucket}/*"))
        return pl.scan_ipc(files, glob=False, hive_partitioning=False).collect() if files else None
