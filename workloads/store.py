"""Write, read and check workload files (Parquet), and convert them to a `JobTable`.

Files are read and written by pyarrow: it checksums every page, so damage is an error instead of
other numbers, and it survives files that make polars' own reader panic.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.job import JobTable
from workloads.checks import check_frame, check_values
from workloads.files import replacing, require_file
from workloads.job_table import frame_to_table
from workloads.progress import Portions, untold
from workloads.provenance import Provenance
from workloads.rows import in_order, slices_in_order
from workloads.schema import COLUMNS, SCHEMA, SCHEMA_VERSION, ColumnOrigin, with_all_columns
from workloads.sources import Source, open_source

METADATA_KEY = "ray_sim"
"""Key of the provenance in the Parquet metadata."""

ROW_GROUP_ROWS = 2**17
"""Rows in a row group; fixed, so that a new default of the writer changes no bytes of a workload."""

_READ_ERRORS = (pa.ArrowException, pl.exceptions.PolarsError, OSError, UnicodeDecodeError)

_REPEATING = [name for name, dtype in SCHEMA.items() if dtype == pl.String() and name != "job_id"]
"""Columns worth a dictionary: a name that never repeats only makes the writer slow."""

_TEXT_BYTES = 16
"""Bytes of a text in memory, at least."""
_COPIES = 2
"""Times that a value is in memory while a workload is read: a million jobs of 0.2 GiB took 0.42 GiB."""


def write_workload(frame: pl.DataFrame, provenance: Provenance, path: Path) -> None:
    """Write jobs with the columns of `SCHEMA`, in any order, as a workload file.

    Columns that may hold a null may be absent, and the file lacks those without any value but for those of
    the layer `TRACE`. Same frame and provenance, same bytes. The file appears whole or not at all.

    Raises
    ------
    InvalidWorkloadError : the frame breaks the schema
    InvalidInputError : the file cannot be written
    """
    check_frame(frame, str(path))
    # A million jobs would carry hundreds of megabytes of nulls.
    optional = [column.name for column in COLUMNS if column.layer != ColumnOrigin.TRACE]
    present = [name for name in optional if name in frame.columns]
    sound = frame.drop(name for name in present if frame[name].null_count() == frame.height)
    _write(slices_in_order(sound), sound.columns, frame.height, provenance, path, untold)


def write_rows(
    rows: pl.LazyFrame,
    count: int,
    provenance: Provenance,
    path: Path,
    folder: Path,
    written: Portions = untold,
) -> None:
    """Write ``count`` rows, possibly more than memory holds, with unique job_id and trace_order.

    Other columns than those of `SCHEMA` are left out, and so are those besides the layer `TRACE` that the
    rows lack; see `write_workload` for the rest.

    Parameters
    ----------
    folder : for temporary files
    written : called with the rows written after each part of them
    """
    names = [name for name in rows.collect_schema().names() if name in SCHEMA]
    _write(in_order(rows.select(names), count, folder), names, count, provenance, path, written)


def _write(
    parts: Iterable[pl.DataFrame],
    names: Sequence[str],
    count: int,
    provenance: Provenance,
    path: Path,
    written: Portions,
) -> None:
    """Write ``count`` rows with the columns ``names``, sorted by `SORT_KEY`; see `write_rows`."""
    absent = [
        column.name for column in COLUMNS if column.layer != ColumnOrigin.TRACE and column.name not in names
    ]
    metadata = {METADATA_KEY: provenance.model_dump_json()}
    schema = _table(pl.DataFrame(schema=SCHEMA).drop(absent)).schema.with_metadata(metadata)
    done = 0
    form: dict[str, Any] = {"compression": "zstd", "use_dictionary": _REPEATING, "write_page_checksum": True}
    with replacing(path, has_provenance) as temporary, pq.ParquetWriter(temporary, schema, **form) as writer:
        for group in _row_groups(parts):
            jobs = with_all_columns(group)
            check_values(jobs, str(path))
            writer.write_table(_table(jobs.drop(absent)).replace_schema_metadata(metadata))
            done += group.height
            written(done, count)


def _table(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _row_groups(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows in frames of `ROW_GROUP_ROWS`; the last may have less."""
    rest = None
    for frame in frames:
        waiting = frame if rest is None else pl.concat([rest, frame])
        whole = waiting.height - waiting.height % ROW_GROUP_ROWS
        yield from waiting[:whole].iter_slices(ROW_GROUP_ROWS)
        rest = waiting[whole:]
    if rest is not None and not rest.is_empty():
        yield rest


def has_provenance(path: Path) -> bool:
    """Whether a file is a workload that `write_workload` made."""
    return has_metadata(path, METADATA_KEY)


def has_metadata(path: Path, key: str) -> bool:
    """Whether a file is Parquet with this key in its metadata."""
    try:
        return key.encode() in (pq.read_metadata(path).metadata or {})
    except _READ_ERRORS:
        return False


def read_frame(path: Source) -> pl.DataFrame:
    """The jobs of a workload file by path or URL, checked, with the columns of `SCHEMA` in order.

    Raises
    ------
    InvalidWorkloadError : missing, empty, no Parquet, truncated, or breaking the schema
    """
    read_provenance(path)
    with _opened(path) as file:
        table = file.read()
        table.validate(full=True)
        frame = _frame(table)
    check_frame(frame, str(path))
    return with_all_columns(frame)


def read_some(path: Source, *, gaps: bool) -> pl.DataFrame:
    """A few jobs of a workload file that show which columns have values, by its first row group only.

    Parameters
    ----------
    gaps : take the first job, and one for each column that is null for some jobs only; else the one with the
        fewest nulls
    """
    read_provenance(path)
    with _opened(path) as file:
        frame = _frame(file.read_row_group(0) if file.num_row_groups else file.read())
    check_frame(frame, str(path))
    jobs = with_all_columns(frame)
    if not gaps:
        return jobs.sort(pl.sum_horizontal(pl.all().is_null()), maintain_order=True).head(1)
    partly = [name for name in SCHEMA if 0 < jobs[name].null_count() < jobs.height]
    chosen = [jobs.head(1), *(jobs.filter(pl.col(name).is_null()).head(1) for name in partly)]
    return pl.concat(chosen).unique("job_id", keep="first", maintain_order=True)


def read_columns(path: Source, names: Sequence[str]) -> pl.DataFrame:
    """Those of these columns that a workload file has, for all jobs, in its order; values are not checked."""
    with _opened(path, names) as file:
        return _frame(file.read(columns=list(names)))


@contextmanager
def _opened(path: Source, names: Sequence[str] = tuple(SCHEMA)) -> Iterator[pq.ParquetFile]:
    """The file of a workload, whose columns of these names fit into memory; names it in errors of reading."""
    try:
        with open_source(path, InvalidWorkloadError) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            _require_memory(file, names, path)
            yield file
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error


def available_bytes() -> int:
    """Bytes of memory that this machine can give without swapping; all of it where only that is known."""
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return int(found[1]) * 2**10 if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _require_memory(file: pq.ParquetFile, names: Collection[str], source: Source) -> None:
    """Raise unless memory holds these columns; repeated values take next to nothing in a file."""
    rows, types = file.metadata.num_rows, [each.type for each in file.schema_arrow if each.name in names]
    sizes = [-(-each.bit_width // 8) if pa.types.is_primitive(each) else _TEXT_BYTES for each in types]
    needed, available = _COPIES * rows * sum(sizes), available_bytes()
    if needed > available:
        raise InvalidWorkloadError(
            f"{source}: its {rows:,} rows take {needed / 2**30:,.1f} GiB of memory, and "
            f"{available / 2**30:,.1f} GiB are free; take fewer jobs, e.g. by convert --window, or add memory"
        )


@dataclass(frozen=True, slots=True)
class _ArrowStream:
    """A table without its type, for which polars would import `pyarrow.compute`."""

    table: pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def _frame(table: pa.Table) -> pl.DataFrame:
    """The columns of a table of Arrow."""
    return pl.DataFrame(_ArrowStream(table)).rechunk()


def read_provenance(path: Source) -> Provenance | None:
    """Provenance of a workload file; None where it has none.

    Raises
    ------
    InvalidWorkloadError : not a Parquet file, of another schema version, or with broken metadata
    """
    require_file(path)
    try:
        with open_source(path, InvalidWorkloadError) as file:
            text = (pq.read_metadata(file).metadata or {}).get(METADATA_KEY.encode())
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error
    if text is None:
        return None
    try:
        provenance = Provenance.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidWorkloadError(
            f"{path}: metadata {METADATA_KEY}.{where}: {first['msg']}; convert the trace again"
        ) from error
    if provenance.schema_version != SCHEMA_VERSION:
        raise InvalidWorkloadError(
            f"{path}: workload schema version {provenance.schema_version},"
            f" this program reads {SCHEMA_VERSION}; convert the trace again"
        )
    return provenance


def _unreadable(path: Source, error: Exception) -> InvalidWorkloadError:
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        return InvalidWorkloadError(f"{path}: memory does not hold its rows ({detail}); take fewer jobs")
    return InvalidWorkloadError(
        f"{path}: not a readable Parquet file ({detail}); make a workload with `ray-sim convert`"
    )


def load_workload(path: Source, resources: Sequence[str] = ("gpu",)) -> JobTable:
    """A workload file as a `JobTable` with one demand column per resource; see `read_frame`."""
    table = frame_to_table(read_frame(path), resources)
    # Arrow would keep what the file took, some 200 MB at a million jobs, until the process ends.
    pa.default_memory_pool().release_unused()
    return table
