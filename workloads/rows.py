"""Rows of a trace that may exceed memory: temporary files, duplicates and sorting, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidInputError
from workloads.progress import Portions, untold
from workloads.schema import SORT_KEY

PART_ROWS = 2**18
"""Approximate number of rows in memory at a time."""

GROUP_ROWS = 2**16
"""Rows in a row group of a temporary file; the file stores the range of values of each group."""

_SAMPLED = 2**16
"""Approximate size of the sample that places the cuts between parts."""


class SpilledRows:
    """Frames of rows in the order added: in memory while they are few, else in files of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._held: list[pl.DataFrame] = []
        self._files: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows with the columns of those before.

        Raises
        ------
        InvalidInputError : there is no room for them
        """
        self._held.append(frame)
        if sum(held.height for held in self._held) < PART_ROWS:
            return
        path = self._folder / f"{self._name}-{len(self._files)}.parquet"
        try:
            pl.concat(self._held).write_parquet(path, compression="lz4", row_group_size=GROUP_ROWS)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise no_room(self._folder, error) from error
        self._files.append(path)
        self._held = []

    def scan(self) -> pl.LazyFrame:
        """All rows added, lazily; at least one frame must have been added."""
        held = [pl.concat(self._held).lazy()] if self._held else []
        return pl.concat([*(pl.scan_parquet(path, glob=False) for path in self._files), *held])


def computed(rows: pl.LazyFrame, count: int, folder: Path, name: str) -> pl.LazyFrame:
    """The ``count`` rows, computed once and part by part; see `SpilledRows`.

    Raises
    ------
    InvalidInputError : there is no room for them
    """
    done = SpilledRows(folder, name)
    for first in range(0, max(count, 1), PART_ROWS):
        done.add(rows.slice(first, PART_ROWS).collect(engine="streaming"))
    return done.scan()


def no_room(folder: Path, error: Exception) -> InvalidInputError:
    """The error of a temporary file that cannot be written."""
    return InvalidInputError(
        f"{folder}: rows cannot be kept there ({error}); make some room, or name another folder for"
        " temporary files in TMPDIR"
    )


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


def repeats(rows: pl.LazyFrame, keys: Sequence[str], compared: Portions = untold) -> pl.Series:
    """Column `row` of the rows that have the same values of all ``keys`` as one before them.

    Parameters
    ----------
    compared : called after each portion of the rows
    """
    count = height(rows)
    keyed = rows.select("row", *keys)
    found = [pl.Series("row", dtype=pl.Int64)]
    for part in range(parts := -(-count // PART_ROWS)):
        here = keyed if parts == 1 else keyed.filter(pl.struct(keys).hash() % parts == part)
        frame = here.collect(engine="streaming")
        found.append(frame["row"].filter(repeated(frame, keys)))
        compared(part + 1, parts)
    return pl.concat(found)


def in_order(rows: pl.LazyFrame, count: int, key: Sequence[str] = SORT_KEY) -> Iterator[pl.DataFrame]:
    """Yield all ``count`` rows sorted by the columns of ``key`` that they have, part by part.

    The first column is a number; rows with equal values of it are in one part.
    """
    cuts = _cuts(rows, count, key[0])
    for since, until in zip([None, *cuts], [*cuts, None], strict=True):
        here = rows if since is None else rows.filter(pl.col(key[0]) >= since)
        here = here if until is None else here.filter(pl.col(key[0]) < until)
        frame = here.collect(engine="streaming")
        yield frame.sort([name for name in key if name in frame.columns], maintain_order=True)


def _cuts(rows: pl.LazyFrame, count: int, name: str) -> list[float]:
    """Values of a column that separate parts of about equal size, rising."""
    parts = -(-count // PART_ROWS)
    if parts <= 1:
        return []
    sample = rows.select(pl.col(name).gather_every(max(1, count // _SAMPLED)))
    values = sample.collect(engine="streaming")[name].sort()
    cuts = {values[len(values) * part // parts] for part in range(1, parts)}
    return sorted(cuts)
