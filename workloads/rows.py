"""Rows of a trace that may exceed memory: temporary files, duplicates and sorting, part by part.

A trace in several dumps has one record of a job in each. Kept is a record that has ended rather than one that
has not, then the longest, then the first: the readers of tables, lists of pods and the Philly log choose so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError
from workloads.progress import Portions, untold
from workloads.schema import SORT_KEY
from workloads.status import endings

PART_ROWS = 2**18
"""Approximate number of rows in memory at a time."""

GROUP_ROWS = 2**16
"""Rows in a row group of a temporary file; the file stores the range of values of each group."""

_LEAST_BATCH_ROWS = 2**8

_SAMPLED = 2**16
"""Approximate size of the sample that places the cuts between parts."""

DUPLICATE_JOB = "duplicate_job_id"
"""Reject reason of the records of a job that are not kept."""


class SpilledRows:
    """Frames of rows in the order added: in memory while they are few, else in files of a folder.

    Columns that a frame lacks are null in its rows.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._held: list[pl.DataFrame] = []
        self._files: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows; raises InvalidInputError where there is no room."""
        self._held.append(frame)
        if sum(held.height for held in self._held) < PART_ROWS:
            return
        path = self._folder / f"{self._name}-{len(self._files)}.parquet"
        with _needing_room(self._folder):
            held = pl.concat(self._held, how="diagonal")
            held.write_parquet(path, compression="lz4", row_group_size=GROUP_ROWS)
        self._files.append(path)
        self._held = []

    def scan(self) -> pl.LazyFrame:
        """All rows added, lazily; at least one frame must have been added."""
        held = [pl.concat(self._held, how="diagonal").lazy()] if self._held else []
        stored = [pl.scan_parquet(path, glob=False) for path in self._files]
        return pl.concat([*stored, *held], how="diagonal")


def computed(rows: pl.LazyFrame, count: int, folder: Path, name: str) -> pl.LazyFrame:
    """The ``count`` rows, computed once: in memory while they are few, else in a file of a folder."""
    if count <= PART_ROWS:
        return rows.collect(engine="streaming").lazy()
    path = folder / f"{name}.parquet"
    with _needing_room(folder):
        rows.sink_parquet(path, compression="lz4", row_group_size=GROUP_ROWS)
    return pl.scan_parquet(path, glob=False)


@contextmanager
def _needing_room(folder: Path) -> Iterator[None]:
    """Convert exceptions of writing a temporary file to an error that names the folder."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidInputError(
            f"{folder}: rows cannot be kept there ({error}); make some room, or name another folder for"
            " temporary files in TMPDIR"
        ) from error


def height(rows: pl.LazyFrame) -> int:
    """Number of rows."""
    count: int = rows.select(pl.len()).collect(engine="streaming").item()
    return count


def repeated(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Boolean per row: an earlier row has the same values of all ``keys``; null equals null."""
    none = pl.repeat(value=False, n=frame.height, eager=True)
    hashes = frame.select(pl.struct(keys).hash()).to_series()
    if hashes.n_unique() == frame.height:  # different hashes, different values: no need to compare them
        return none
    repeated = hashes.is_duplicated()
    again = frame.filter(repeated).select(~pl.struct(keys).is_first_distinct()).to_series()
    return none.scatter(repeated.arg_true(), again)


class PartitionedRows:
    """Rows by the number of their part, of which one is read at a time.

    A single part stays in memory; several are in files of a folder of their own.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.parts = parts
        self._folder = folder
        self._held: list[pl.DataFrame] = []
        # Of each part a batch waits in memory to be written: PART_ROWS rows in all.
        self._batch_rows = max(_LEAST_BATCH_ROWS, PART_ROWS // parts)
        self._added = 0

    def add(self, rows: pl.LazyFrame, part: pl.Expr) -> None:
        """Store rows by their ``part``, from 0, in one pass; raises InvalidInputError without room."""
        if self.parts == 1:
            self._held.append(rows.collect(engine="streaming"))
            return
        target = pl.PartitionBy(self._folder / f"{self._added:08}", key="part", include_key=False)
        self._added += 1
        numbered = rows.with_columns(part=part)
        with _needing_room(self._folder.parent):
            numbered.sink_ipc(target, mkdir=True, compression="lz4", record_batch_size=self._batch_rows)

    def is_empty(self) -> bool:
        """Whether no row was stored."""
        return not self._held and not any(self._folder.glob("*/part=*/*"))

    def scan(self) -> pl.LazyFrame:
        """All rows stored, lazily; at least one row must have been stored."""
        return pl.concat(self._held).lazy() if self._held else self._scan("*")

    def read(self, part: int) -> pl.DataFrame | None:
        """The rows of one part, in the order added; None without any."""
        if self._held:
            return pl.concat(self._held)
        if not any(self._folder.glob(f"*/part={part}/*")):
            return None
        return self._scan(str(part)).collect()

    def remove(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _scan(self, part: str) -> pl.LazyFrame:
        files = sorted(self._folder.glob(f"*/part={part}/*"))
        return pl.scan_ipc(files, glob=False, hive_partitioning=False)


def repeats(rows: pl.LazyFrame, keys: Sequence[str], folder: Path, compared: Portions = untold) -> pl.Series:
    """Column `row` of the rows that have the same values of all ``keys`` as one before them.

    Parameters
    ----------
    folder : for temporary files, which are removed
    compared : called after each portion of the rows
    """
    count = height(rows)
    found = [pl.Series("row", dtype=pl.Int64)]
    parts = _part_count(count)
    keyed = rows.select("row", *keys)
    for part, frame in enumerate(_parted(keyed, pl.struct(keys).hash() % parts, parts, folder / "repeats")):
        found.append(frame["row"].filter(repeated(frame, keys)))
        compared(part, parts)
    compared(parts, parts)
    return pl.concat(found)


def in_order(
    rows: pl.LazyFrame, count: int, folder: Path, key: Sequence[str] = SORT_KEY
) -> Iterator[pl.DataFrame]:
    """Yield all ``count`` rows sorted by the columns of ``key`` that they have, part by part.

    The first column is a number; rows with equal values of it are in one part. Rows are read twice, once for
    a sample, whatever their order.

    Parameters
    ----------
    folder : for temporary files, which are removed
    """
    cuts = _cuts(rows, count, key[0])

    def part_of(values: pl.Series) -> pl.Series:
        return pl.Series(np.searchsorted(cuts.to_numpy(), values.to_numpy(), side="right"))

    part = pl.col(key[0]).map_batches(part_of, return_dtype=pl.Int64(), is_elementwise=True)
    for frame in _parted(rows, part, len(cuts) + 1, folder / "order"):
        yield frame.sort([name for name in key if name in frame.columns], maintain_order=True)


def slices_in_order(frame: pl.DataFrame, key: Sequence[str] = SORT_KEY) -> Iterator[pl.DataFrame]:
    """Yield the rows of a frame sorted by the columns of ``key``, ties in their order, part by part."""
    order = frame.select(pl.arg_sort_by(*key, maintain_order=True)).to_series()
    for first in range(0, frame.height, PART_ROWS):
        yield frame[order.slice(first, PART_ROWS)]


def _part_count(count: int) -> int:
    return max(1, -(-count // PART_ROWS))


def _parted(rows: pl.LazyFrame, part: pl.Expr, parts: int, folder: Path) -> Iterator[pl.DataFrame]:
    """Yield the rows of each part, in their order; ``folder`` is theirs, and removed at the end."""
    stored = PartitionedRows(folder, parts)
    stored.add(rows, part)
    for number in range(parts):
        frame = stored.read(number)
        if frame is not None:
            yield frame
    stored.remove()


def _cuts(rows: pl.LazyFrame, count: int, name: str) -> pl.Series:
    """Values of a column that separate parts of about equal size, rising."""
    parts = _part_count(count)
    if parts == 1:
        return pl.Series(dtype=rows.collect_schema()[name])
    sample = rows.select(pl.col(name).gather_every(max(1, count // _SAMPLED)))
    values = sample.collect(engine="streaming")[name].sort()
    return values.gather([len(values) * part // parts for part in range(1, parts)]).unique().sort()


class DuplicateRule(StrEnum):
    """Which of the records of one job is kept."""

    BEST = "best"
    """One that has ended, then the longest, then the first."""
    FIRST = "first"
    LAST = "last"
    LONGEST = "longest"
    REJECT = "reject"
    """None."""


class Replaced(NamedTuple):
    """Counts of first records that gave way to a later one, which has ended or is longer."""

    by_ended: int = 0
    by_longer: int = 0

    def notes(self) -> dict[str, JsonValue]:
        """Entries of the provenance; none without such records."""
        counts = {f"replaced_{name}_record": count for name, count in self._asdict().items()}
        return counts if any(self) else {}

    def warnings(self) -> tuple[str, ...]:
        """A sentence about them; none without such records."""
        text = f"a later one that has ended ({self.by_ended:,} jobs), or to a longer one ({self.by_longer:,})"
        return (f"{DUPLICATE_JOB}: a first record gave way to {text}",) if any(self) else ()


_RANKS: dict[DuplicateRule, dict[str, bool]] = {
    DuplicateRule.BEST: {"ended": True, "duration_s": True, "row": False},
    DuplicateRule.FIRST: {"row": False},
    DuplicateRule.LAST: {"row": True},
    DuplicateRule.LONGEST: {"duration_s": True, "row": False},
    DuplicateRule.REJECT: {"row": False},
}
"""Columns by which records of one job are ranked, and whether the largest is best."""


def keep_best(
    rows: pl.LazyFrame, folder: Path, compared: Portions, rule: DuplicateRule = DuplicateRule.BEST
) -> tuple[pl.LazyFrame, Replaced]:
    """Give all but the best of the sound rows with one job_id the reason `DUPLICATE_JOB`.

    Parameters
    ----------
    rows : `row`, `job_id`, `duration_s`, `reason`, and `status` where the trace has one
    folder : for temporary files, which are removed
    compared : called after each portion of the rows
    """
    sound = rows.filter(pl.col("reason").is_null())
    later = repeats(sound, ["job_id"], folder, compared)
    if later.is_empty():
        return rows, Replaced()
    has_status = "status" in rows.collect_schema().names()
    ended = endings(pl.col("status")).is_not_null() if has_status else pl.lit(value=False)
    names = sound.filter(pl.col("row").is_in(later.implode())).select("job_id").unique()
    facts = sound.join(names, on="job_id", how="semi").select("row", "job_id", "duration_s", ended=ended)
    same = facts.sort("row").collect(engine="streaming")
    keys = _RANKS[rule]
    ranked = same.sort(*keys, descending=list(keys.values()))
    first, best = (each.unique("job_id", keep="first", maintain_order=True) for each in (same, ranked))
    replaced = first.join(best, on="job_id", suffix="_best").filter(pl.col("row") != pl.col("row_best"))
    by_ended = replaced.filter(pl.col("ended") != pl.col("ended_best")).height
    if rule == DuplicateRule.REJECT:
        best = best.clear()
    others = same.join(best, on="row", how="anti")["row"]
    why = pl.when(pl.col("row").is_in(others.implode())).then(pl.lit(DUPLICATE_JOB))
    rows = rows.with_columns(reason=pl.coalesce("reason", why))
    best_by_default = rule == DuplicateRule.BEST
    return rows, Replaced(by_ended, replaced.height - by_ended) if best_by_default else Replaced()
