"""Open a file of records as a `TableSource`: delimited text, JSON, Parquet or Arrow, packed or not.

The form is recognised by a file's content unless the mapping says it. Values become texts, which the reader
of tables reads as the cells of a CSV file; the texts of a list are joined with `LIST_SEPARATOR`.
"""

from __future__ import annotations

import bz2
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ray_sim.model.errors import InvalidWorkloadError
from workloads.documents import Entry
from workloads.files import open_unpacked, require_file, text_bytes
from workloads.formats.json_records import list_key, read_records
from workloads.formats.text import (
    BLANKS,
    TEXT_LIMIT,
    TableSource,
    collect_text,
    open_text,
    refuse_bomb,
)
from workloads.rows import SpilledRows
from workloads.trace_format import Pool

LIST_SEPARATOR = "\x1f"
"""Joins the texts of a list: ASCII's unit separator."""

_NUMBER = f"number{LIST_SEPARATOR}"
"""Column of a record's number, which no file names so."""

_BATCH = 2**15
"""Records that become a frame at a time."""

_MOST_COLUMNS = 10_000

_CELL_BYTES = 8
"""Of a cell that a packed table unpacks to."""

_MOST_CELLS = 2**22
"""Cells of a frame, absent ones included."""

_POOLED_BYTES = 2**25
"""Bytes of text from which several files are opened side by side: a process takes half a second to start."""

_HEAD = 2**16
"""Bytes by which a form is recognised."""

_REFUSED = {
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"%PDF": "a PDF; name the table it was made of",
    b"ORC": "an ORC file; convert it to Parquet",
    b"Obj\x01": "an Avro file; convert it to Parquet",
    b"\x89HDF": "an HDF5 file; export the table as CSV or Parquet",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it first",
    b"\x80\x04\x95": "a pickle, which may run code and is never read; export the table as CSV or Parquet",
}
"""What else a file may be, by its first bytes."""

_PACKED: dict[bytes, Callable[[IO[bytes]], object]] = {
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""Readers of packed files by their first bytes, besides gzip, zstd and zip."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Reading(Entry):
    """How the files are read: the section `read` of a mapping file."""

    format: Literal["csv", "json", "json-lines", "parquet", "arrow"] | None = None
    """None to recognise it by the content."""
    separator: str | None = None
    """Character between fields; a blank stands for any number of blanks and tabs. None: a comma, in a .tsv
    file a tab."""
    header: list[str] | None = None
    """Names of the columns where the file does not name them."""
    comment: str | None = None
    """Begin of the lines that are no records."""
    quotes: bool = True
    """Whether quotes enclose a field with the separator in it."""
    decimal: Literal[".", ","] = "."
    encoding: Literal["utf-8", "utf-16", "latin-1", "cp1252"] | None = None
    """None: UTF-16 where the file begins with its mark, else UTF-8."""
    records: str | None = None
    """Key of the list of records in a JSON object."""

    def problem(self) -> str | None:
        """What is wrong with the section; None for nothing."""
        if self.separator is not None and len(self.separator) != 1:
            return f"separator: must be one character, is {self.separator!r}"
        if self.header is not None and (not self.header or len(set(self.header)) < len(self.header)):
            return "header: must name each column once"
        if self.comment == "":
            return "comment: must not be empty"
        if self.records is not None and self.format not in (None, "json"):
            return f"records: is the key of a list in a JSON object; drop it, or format: {self.format}"
        return None


@dataclass(frozen=True, slots=True)
class RecordSource(TableSource):
    """Records of a file that holds no delimited text, as texts."""

    records: pl.LazyFrame
    """`_NUMBER`, from 1, and the columns of the header, texts or null."""

    def rows(self, names: Mapping[str, str]) -> pl.LazyFrame:
        texts = {
            name: pl.when(pl.col(theirs).str.strip_chars(BLANKS) != "").then(
                pl.col(theirs).str.strip_chars(BLANKS)
            )
            for name, theirs in names.items()
        }
        broken = pl.any_horizontal(
            False, *(pl.col(theirs).str.contains("[\n\r]") for theirs in names.values())
        )
        fault = pl.when(broken).then(pl.lit("line_end_in_text"))
        return self.records.select(line=_NUMBER, fault=fault, **texts)

    def head(self, count: int) -> RecordSource:
        return replace(self, records=self.records.head(count))

    def texts(self, lines: pl.Series) -> pl.DataFrame:
        chosen = self.records.filter(pl.col(_NUMBER).is_in(lines.implode()))
        text = pl.struct(self.header).struct.json_encode().str.slice(0, TEXT_LIMIT)
        return collect_text(self.path, chosen.select(line=_NUMBER, text=text))


@dataclass(frozen=True, slots=True)
class JoinedSource(TableSource):
    """Records, each with the columns of the row of a second table that belongs to it, or nulls."""

    first: TableSource
    second: TableSource
    name: str
    on: Mapping[str, str]

    @classmethod
    def of(cls, first: TableSource, second: TableSource, name: str, on: Mapping[str, str]) -> JoinedSource:
        """The records of ``first``; columns of ``second`` are named NAME.COLUMN. See `mapping.Join`."""
        header = (*first.header, *(f"{name}.{column}" for column in second.header))
        return cls(first.path, header, first, second, name, on, first_line=first.first_line)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.on) | {f"{self.name}.{column}" for column in self.on.values()}

    def rows(self, names: Mapping[str, str]) -> pl.LazyFrame:
        own = {name: theirs for name, theirs in names.items() if theirs in self.first.header}
        begin = f"{self.name}."
        joined = {name: theirs.removeprefix(begin) for name, theirs in names.items() if name not in own}
        keys = {f"key {column}": column for column in self.on}
        left = replace(self.first, meter=self.meter).rows(own | keys)
        there = {f"key {column}": theirs for column, theirs in self.on.items()}
        right = collect_text(self.second.path, self.second.rows(joined | there).drop("line", "fault"))
        if again := right.height - right.unique(list(there)).height:
            raise InvalidWorkloadError(
                f"{self.second.path}: {again} rows have the same {', '.join(self.on.values())} as another; "
                "each record must have one row there"
            )
        return left.join(right.lazy(), on=list(keys), how="left", maintain_order="left").drop(keys)

    def head(self, count: int) -> JoinedSource:
        return replace(self, first=self.first.head(count))

    def texts(self, lines: pl.Series) -> pl.DataFrame:
        return self.first.texts(lines)


def open_table(path: Path, read: Reading, folder: Path) -> TableSource:
    """Open a file of records.

    Parameters
    ----------
    folder : for copies of packed and recoded files, and for records of other forms than text

    Raises
    ------
    InvalidWorkloadError : missing, unreadable, or of no form that is read; says what it is and what to do
    """
    require_file(path)
    file = as_utf8(path, unpacked(path, folder), read.encoding, folder)
    said = read.format or ("json" if read.records else None)
    form = form_of(path, file) if said is None else _checked_form(path, file, said)
    if form == "csv":
        tabs = path.name.removesuffix(".gz").endswith(".tsv")
        return open_text(
            path,
            read.separator or ("\t" if tabs else ","),
            file=file,
            header=read.header or (),
            comment=read.comment,
            quotes=read.quotes,
        )
    if form in ("parquet", "arrow"):
        return source_of(path, _arrow_frames(path, file, form), folder)
    if form == "json" and read.records is None and head_of(file).lstrip()[:1] == "{":
        raise InvalidWorkloadError(
            f"{path}: is a JSON object; name the key of its list of records in a mapping file (--map), as in "
            f"read: {{records: {list_key(file) or 'items'}}}"
        )
    return source_of(path, _json_frames(path, file, read.records, form == "json-lines"), folder)


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files, and those in folders in the order of their names; hidden ones are no parts of a table.

    Raises
    ------
    InvalidWorkloadError : a folder has no file
    """
    found: list[Path] = []
    for path in paths:
        inside = [each for each in sorted(path.rglob("*")) if each.is_file()] if path.is_dir() else [path]
        parts = [each for each in inside if each == path or not each.name.startswith((".", "_"))]
        if not parts:
            raise InvalidWorkloadError(f"{path}: the folder has no files; name one with the parts of a table")
        found += parts
    return found


def open_tables(
    paths: Sequence[Path], reading: Callable[[Path], Reading], folder: Path, pool: Pool
) -> list[TableSource]:
    """Open files of records, side by side where they are many; see `open_table`."""
    folders = [folder / f"table-{index}" for index in range(len(paths))]
    for each in folders:
        each.mkdir(parents=True)
    readings = [reading(path) for path in paths]
    if len(paths) == 1 or text_bytes(paths) < _POOLED_BYTES:
        pool = map
    return list(pool(open_table, paths, readings, folders))


def source_of(path: Path, frames: Iterator[pl.DataFrame], folder: Path) -> RecordSource:
    """The records of frames, whose columns may differ, as a source.

    Raises
    ------
    InvalidWorkloadError : no record, or a column of a type that is no text, number, date or list of these
    """
    stored = SpilledRows(folder, "records")
    header: dict[str, None] = {}
    count = 0
    for frame in frames:
        texts = texts_of(frame, str(path))
        if _NUMBER in texts.columns:
            raise InvalidWorkloadError(f"{path}: a column is named {_NUMBER!r}; rename it")
        lines = pl.int_range(count + 1, count + 1 + texts.height, dtype=pl.Int64, eager=True)
        stored.add(texts.insert_column(0, lines.alias(_NUMBER)))
        header |= dict.fromkeys(texts.columns[1:])
        count += texts.height
    if not count:
        raise InvalidWorkloadError(f"{path}: has no records; convert a trace that has some")
    return RecordSource(path, tuple(header), stored.scan())


def texts_of(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """The columns of a frame as texts; fields of a struct become columns, see `LIST_SEPARATOR`."""
    while structs := [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Struct)]:
        for name in structs:
            fields = frame[name].struct.unnest()
            fields = fields.rename({field: f"{name}.{field}" for field in fields.columns})
            frame = frame.drop(name)
            if twice := {*frame.columns} & {*fields.columns}:
                raise InvalidWorkloadError(f"{where}: has two columns {min(twice)!r}; rename one")
            frame = frame.hstack(fields)
    return frame.select(_text_of(name, dtype, where) for name, dtype in frame.schema.items())


def _text_of(name: str, dtype: pl.DataType, where: str) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        text = column.dt.convert_time_zone("UTC") if dtype.time_zone else column
        return text.dt.to_string("%Y-%m-%dT%H:%M:%S%.f" + ("Z" if dtype.time_zone else ""))
    if isinstance(dtype, pl.Duration):
        return (column.dt.total_microseconds() / 1_000_000).cast(pl.String).alias(name)
    if isinstance(dtype, pl.List) and not dtype.inner.is_nested():
        return column.cast(pl.List(pl.String)).list.join(LIST_SEPARATOR).alias(name)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        raise InvalidWorkloadError(
            f"{where}: column {name!r} has the type {dtype}; drop it, or make it a text"
        )
    return column.cast(pl.String)


def _arrow_frames(path: Path, file: Path, form: str) -> Iterator[pl.DataFrame]:
    try:
        if form == "parquet":
            with pq.ParquetFile(file, page_checksum_verification=True) as table:
                refuse_bomb(path, table.metadata.num_rows * table.metadata.num_columns * _CELL_BYTES)
                yield from (_frame(batch) for batch in table.iter_batches(_BATCH))
        else:
            with pa.memory_map(str(file)) as raw:
                table = pa.ipc.open_file(raw)
                yield from (_frame(table.get_batch(index)) for index in range(table.num_record_batches))
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
        detail = str(error).splitlines()[0]
        raise InvalidWorkloadError(
            f"{path}: is no readable {form} file ({detail}); write it again"
        ) from error


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(batch))


def _json_frames(path: Path, file: Path, key: str | None, lines: bool) -> Iterator[pl.DataFrame]:
    rows: list[dict[str, str]] = []
    names: dict[str, None] = {}
    for record in read_records(file, key=key, lines=lines, name=path):
        if not isinstance(record.value, dict):
            raise InvalidWorkloadError(
                f"{path}: record {record.number} is {record.text[:60]!r}; each record must be a JSON object"
            )
        rows.append(_flat(record.value))
        names |= dict.fromkeys(rows[-1])
        if len(names) > _MOST_COLUMNS:
            raise InvalidWorkloadError(
                f"{path}: its records have more than {_MOST_COLUMNS:,} names; is each a job, with the same"
                " names?"
            )
        if len(rows) == _BATCH or len(rows) * len(names) > _MOST_CELLS:
            yield _of_dicts(path, rows)
            rows = []
    if rows:
        yield _of_dicts(path, rows)


def _of_dicts(path: Path, rows: list[dict[str, str]]) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pl.DataFrame(
            {name: [row.get(name) for row in rows] for name in names}, dict.fromkeys(names, pl.String)
        )
    except UnicodeEncodeError as error:
        text = error.object[max(error.start - 20, 0) : error.start + 20]
        raise InvalidWorkloadError(
            f"{path}: {text!r} in a record is no UTF-8 text; write the file again"
        ) from error


def _flat(record: dict[str, object]) -> dict[str, str]:
    """Texts by dotted path; `*` stands for the places of a list, whose texts are joined.

    An element with a `type` is there by its type too, such as `status.conditions[Finished].reason`.
    """
    found: dict[str, list[str]] = {}
    stack: list[tuple[str, object]] = [("", record)]
    while stack and len(found) <= _MOST_COLUMNS:  # elements with a type are there twice, at each depth
        path, value = stack.pop()
        if isinstance(value, dict):
            stack += [(f"{path}.{key}" if path else key, entry) for key, entry in reversed(value.items())]
        elif isinstance(value, list):
            stack += [(f"{path}.*", entry) for entry in reversed(value)]
            typed = [
                entry for entry in value if isinstance(entry, dict) and isinstance(entry.get("type"), str)
            ]
            stack += [(f"{path}[{entry['type']}]", entry) for entry in typed]
        elif value is not None:
            found.setdefault(path, []).append(str(value).lower() if isinstance(value, bool) else str(value))
    return {path: LIST_SEPARATOR.join(texts) for path, texts in found.items()}


def form_of(path: Path, file: Path) -> str:
    """Form of a file by its first bytes, unpacked."""
    raw = _raw_head(file)
    if raw.startswith(b"PAR1"):
        return "parquet"
    if raw.startswith(b"ARROW1"):
        return "arrow"
    for magic, what in _REFUSED.items():
        if raw.startswith(magic):
            raise InvalidWorkloadError(f"{path}: is {what}")
    begin = head_of(file).lstrip()
    if begin.startswith("["):
        return "json"
    if not begin.startswith("{"):
        return "csv"
    first, _, rest = begin.partition("\n")
    try:
        record = json.loads(first)
    except ValueError:
        return "json-lines" if "\n" not in begin and len(begin) > _HEAD // 2 else "json"
    if rest.strip():
        return "json-lines"
    return "json" if any(isinstance(value, list) for value in record.values()) else "json-lines"


def _checked_form(path: Path, file: Path, wanted: str) -> str:
    """The form that a mapping says; raises where the first bytes are of another one."""
    found, begin = form_of(path, file), head_of(file).strip()
    alike = {
        "csv": found not in ("parquet", "arrow") and not re.match(r'(\[\s*)?\{\s*"', begin),
        "json-lines": begin.startswith("{"),  # also one record, or records of several lines
        "json": begin.startswith("{") and "\n" not in begin,  # a short object
    }
    if begin and found != wanted and not alike.get(wanted):  # of a damaged file the reader tells
        raise InvalidWorkloadError(
            f"{path}: is {found}, and the mapping reads it as {wanted}; say read: {{format: {found}}}, or "
            "drop format and records, as the form is recognised by the content"
        )
    return wanted


def _raw_head(file: Path) -> bytes:
    with file.open("rb") as raw:
        return raw.read(_HEAD)


def head_of(file: Path) -> str:
    """First characters of a file, plain or gzip; empty where it is damaged, which its reader tells."""
    try:
        with open_unpacked(file) as stream:
            return stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return ""


def unpacked(path: Path, folder: Path) -> Path:
    """The file, or a copy of what is packed in it by xz, bzip2 or zip."""
    raw = _raw_head(path)
    for magic, opened in _PACKED.items():
        if raw.startswith(magic):
            return _copy(path, folder, opened)
    if raw.startswith(b"PK\x03\x04"):
        return _copy(path, folder, partial(_only_member, path))
    return path


def _only_member(path: Path, raw: IO[bytes]) -> IO[bytes]:
    archive = zipfile.ZipFile(raw)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if any(name.startswith(("xl/", "content.xml")) for name in names):
        raise InvalidWorkloadError(f"{path}: is a workbook of Excel or LibreOffice; save the sheet as CSV")
    if len(names) != 1:
        raise InvalidWorkloadError(f"{path}: is a zip of {len(names)} files; unpack it and name those wanted")
    return archive.open(names[0])


def as_utf8(path: Path, file: Path, encoding: str | None, folder: Path) -> Path:
    """The file, or a copy of it in UTF-8."""
    if encoding is None and _raw_head(file)[:2] in _UTF16:
        encoding = "utf-16"
    if encoding in (None, "utf-8"):
        return file
    return _copy(path, folder, partial(_Recoded, path, encoding=encoding), file)


class _Recoded:
    """Bytes of a text file in UTF-8."""

    def __init__(self, path: Path, raw: IO[bytes], encoding: str) -> None:
        import io

        self._path = path
        self._text = io.TextIOWrapper(raw, encoding=encoding, newline="")

    def read(self, size: int) -> bytes:
        try:
            return self._text.read(size).encode()
        except UnicodeError as error:
            raise InvalidWorkloadError(
                f"{self._path}: is not {self._text.encoding} text ({error})"
            ) from error


def _copy(path: Path, folder: Path, opened: Callable[[IO[bytes]], object], file: Path | None = None) -> Path:
    """Copy what a reader of a file gives, at most as much as `refuse_bomb` allows."""
    copy = folder / f"{len(list(folder.iterdir()))}-{path.stem}"
    with _naming_packed(path), (file or path).open("rb") as raw, copy.open("wb") as out:
        stream = cast("IO[bytes]", opened(raw))
        while part := stream.read(2**20):
            out.write(part)
            refuse_bomb(path, out.tell())
    return copy


@contextmanager
def _naming_packed(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        raise InvalidWorkloadError(f"{path}: cannot be unpacked ({error}); fetch the file again") from error
