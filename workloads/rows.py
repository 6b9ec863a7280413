"""Rows on their way from a trace to a workload: more of them than memory holds, looked at part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from workloads.schema import SORT_KEY

PART_ROWS = 2**20
"""Rows in memory at a time, about."""

_SAMPLED = 2**16
"""Times that tell where to cut rows into parts."""


def height(rows: pl.LazyFrame) -> int:
    """How many rows there are."""
    count: int = rows.select(pl.len()).collect(engine="streaming").item()
    return count


def repeated(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Boolean per row: an earlier row has the same values of all ``keys``; null equals null."""
    none = pl.repeat(value=False, n=frame.height, eager=True)
    hashes = frame.select(pl.struct(keys).hash()).to_series()
    if hashes.n_unique() == frame.height:  # different hashes, different values: no need to compare them
        return none
    alike = hashes.is_duplicated()
    again = frame.filter(alike).select(~pl.struct(keys).is_first_distinct()).to_series()
    return none.scatter(alike.arg_true(), again)


def repeats(rows: pl.LazyFrame, keys: Sequence[str]) -> pl.Series:
    """Column `row` of the rows that have the same values of all ``keys`` as one before them."""
    count = height(rows)
    keyed = rows.select("row", *keys)
    found = [pl.Series("row", dtype=pl.Int64)]
    for part in range(parts := -(-count // PART_ROWS)):
        here = keyed if parts == 1 else keyed.filter(pl.struct(keys).hash() % parts == part)
        frame = here.collect(engine="streaming")
        found.append(frame["row"].filter(repeated(frame, keys)))
    return pl.concat(found)


def in_order(rows: pl.LazyFrame, count: int) -> Iterator[pl.DataFrame]:
    """All ``count`` rows in order of `SORT_KEY`, part by part. Ties are within a part."""
    cuts = _cuts(rows, count)
    for since, until in zip([None, *cuts], [*cuts, None], strict=True):
        here = rows if since is None else rows.filter(pl.col("submit_s") >= since)
        here = here if until is None else here.filter(pl.col("submit_s") < until)
        frame = here.collect(engine="streaming")
        yield frame.sort([name for name in SORT_KEY if name in frame.columns], maintain_order=True)


def _cuts(rows: pl.LazyFrame, count: int) -> list[float]:
    """Times between parts of about equal size."""
    parts = -(-count // PART_ROWS)
    if parts == 1:
        return []
    sample = rows.select(pl.col("submit_s").gather_every(max(1, count // _SAMPLED)))
    times = sample.collect(engine="streaming")["submit_s"].sort()
    cuts = {times[len(times) * part // parts] for part in range(1, parts)}
    return sorted(cuts)
