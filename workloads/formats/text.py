"""Rows of foreign tables as texts: `TableSource`, and its reader of delimited text, plain, gzip or zstd.

No record spans lines, so line numbers and raw text are exact. Quotes follow RFC 4180 within the line.
`check_text` limits the sizes of files, packed or not, before a reader holds a line in memory.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, cast

import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from workloads.files import GZIP_MAGIC, require_file, text_bytes
from workloads.progress import Meter
from workloads.rows import GROUP_ROWS
from workloads.trace_format import REJECT_SCHEMA

TEXT_LIMIT = 500
"""Characters of a rejected line that are kept."""

HELD_BYTES = 2**26
"""Bytes of text up to which rows are kept in memory."""

FIRST_LINE = 2
"""Number of the first line after the header."""

_FIELDS = pl.List(pl.String())

BLANKS = " \t\r"
"""White space that is stripped around a field."""

BLANK_WORDS = ("NaN", "nan", "NA", "N/A", "n/a", "<NA>", "None", "NULL", "null", "\\N", "Unknown")
"""Words for an absent value that pandas, R, Hive, databases and Slurm write; blanks in optional columns."""

MAX_LINE = 2**24
"""The longest line of a trace in bytes. Lines of real traces have hundreds."""

MAX_RATIO = 200
"""Largest ratio of unpacked to packed size. Traces have 5 to 20; a file of zeros has 1,000."""

FREE_BYTES = 2**28
"""A packed file may always be this large unpacked."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_PART_BYTES = 2**20

_MOST_LISTED = 20
"""Column names that an error lists."""


@dataclass(frozen=True, slots=True)
class TableSource(ABC):
    """A file of records with named columns."""

    path: Path
    """The file that the user named."""
    header: tuple[str, ...]
    first_line: int = field(default=1, kw_only=True)
    """Number of the first record."""
    meter: Meter | None = field(default=None, kw_only=True)
    """Counts the bytes that `rows` reads."""

    @property
    def other_separator(self) -> str:
        """Advice for an error where the header is one field that other separators divide, else empty."""
        return ""

    @property
    def keys(self) -> frozenset[str]:
        """Columns that are read to find a record's row in another table."""
        return frozenset()

    def require(self, columns: Sequence[str]) -> None:
        """Raise unless the header has all of ``columns``."""
        if missing := [name for name in columns if name not in self.header]:
            raise InvalidWorkloadError(
                f"{self.path}: required columns missing: {', '.join(missing)};"
                f" found: {listed(self.header)}; check the format and the file{self.other_separator}"
            )

    @abstractmethod
    def rows(self, names: Mapping[str, str]) -> pl.LazyFrame:
        """The records, lazily.

        Parameters
        ----------
        names : header name of each wanted column

        Returns
        -------
        columns `line` (of the record, from `first_line`), `fault` (why it is no record, or null), and the
        wanted ones as stripped text, null where blank
        """

    @abstractmethod
    def head(self, count: int) -> TableSource:
        """The first records only."""

    @abstractmethod
    def texts(self, lines: pl.Series) -> pl.DataFrame:
        """Columns `line` and `text` (cut at `TEXT_LIMIT`) of the given lines."""

    def spill(self, lazy: pl.LazyFrame, path: Path) -> pl.LazyFrame:
        """Run a query on this file, in batches, into another; see `collect_text`."""
        with _naming(self.path, f"; or {path.parent} is full: name a folder with more room in TMPDIR"):
            lazy.sink_parquet(path, compression="lz4", row_group_size=GROUP_ROWS)
        return pl.scan_parquet(path, glob=False)


@dataclass(frozen=True, slots=True)
class TextSource(TableSource):
    """A delimited text file."""

    delimiter: str
    """One character; a blank stands for any number of blanks and tabs."""
    file: Path
    """File that is read: `path`, or a copy of it as UTF-8."""
    comment: str | None = None
    """Begin of the lines that are no records."""
    quotes: bool = True
    """Whether quotes enclose a field with the delimiter in it."""
    most: int | None = None
    """Records that are read; None for all."""

    @property
    def other_separator(self) -> str:
        if len(self.header) > 1:
            return ""
        others = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
        for character, plural in others.items():
            if character in self.header[0] and character != self.delimiter:
                ours = others.get(self.delimiter, "commas")
                return (
                    f"; line 1 has {plural}: fields must be separated by {ours}, or say in a mapping file "
                    f'(--map) read: {{separator: "{character}"}}'.replace("\t", "\\t")
                )
        return ""

    def rows(self, names: Mapping[str, str]) -> pl.LazyFrame:
        split = pl.col("text").map_batches(
            partial(split_lines, delimiter=self.delimiter, quotes=self.quotes, meter=self.meter),
            return_dtype=_FIELDS,
            is_elementwise=True,
        )
        blank = ~pl.col("text").str.contains(f'[^{BLANKS}"{re.escape(self.delimiter)}]')
        fault = (
            pl.when(blank)
            .then(pl.lit("empty_row"))
            .when(pl.col("fields").is_null())
            .then(pl.lit("malformed_quotes"))
            .when(pl.col("fields").list.len() != len(self.header))
            .then(pl.lit("wrong_field_count"))
        )
        wanted = {
            name: pl.col("fields").list.get(self.header.index(theirs), null_on_oob=True)
            for name, theirs in names.items()
        }
        filled = [pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in names]
        return (
            self._lines()
            .with_columns(fields=split)
            .select("line", fault=fault, **wanted)
            .with_columns(filled)
        )

    def head(self, count: int) -> TextSource:
        return replace(self, most=count)

    def texts(self, lines: pl.Series) -> pl.DataFrame:
        chosen = self._lines().filter(pl.col("line").is_in(lines.implode()))
        return collect_text(self.path, chosen.with_columns(pl.col("text").str.slice(0, TEXT_LIMIT)))

    def _lines(self) -> pl.LazyFrame:
        lines = pl.scan_lines(self.file, name="text", row_index_name="line", row_index_offset=1, glob=False)
        records = lines.slice(self.first_line - 1).with_columns(pl.col("line").cast(pl.Int64))
        records = records if self.comment is None else records.filter(~_is_comment(self.comment))
        return records if self.most is None else records.head(self.most)


def _is_comment(begin: str) -> pl.Expr:
    return pl.col("text").str.starts_with(begin)


def open_text(
    path: Path,
    delimiter: str,
    *,
    file: Path | None = None,
    header: Sequence[str] = (),
    comment: str | None = None,
    quotes: bool = True,
) -> TextSource:
    """Read the header of a delimited text file, plain, gzip or zstd.

    Parameters
    ----------
    file : copy of ``path`` as UTF-8; None where ``path`` is UTF-8
    header : names of the columns where the file does not name them
    comment : begin of lines that are no records, also before the header

    Raises
    ------
    InvalidWorkloadError : missing, empty, unreadable, unpacking to too much, a line that is too long, lines
        that end with CR alone, or a header with repeated names
    """
    require_file(path)
    file = file or path
    check_text(file, lines=True, name=path)
    lines = pl.scan_lines(file, name="text", row_index_name="line", row_index_offset=1, glob=False)
    if comment is not None:
        lines = lines.filter(~_is_comment(comment))
    first = collect_text(path, lines.head(1))
    if first["text"].str.contains("\r[^\r]").any():
        raise InvalidWorkloadError(f"{path}: its lines end with CR alone; save it with line ends LF or CR LF")
    if first.is_empty():
        raise InvalidWorkloadError(f"{path}: has comments only; fetch or write it again")
    number = int(first["line"].item())
    names = tuple(header)
    if not names:
        text = first["text"].str.strip_prefix("\ufeff")
        fields = split_lines(text, delimiter=delimiter, quotes=quotes).to_list()[0]
        if fields is None:
            raise InvalidWorkloadError(f"{path}: line {number} is no header of column names; check the file")
        names = tuple(name.strip() for name in fields)
    if repeated := named_twice(names):
        raise InvalidWorkloadError(
            f"{path}: columns named twice in line {number}: {', '.join(map(repr, repeated))}"
        )
    first_line = number + (0 if header else 1)
    return TextSource(path, names, delimiter, file, comment, quotes, first_line=first_line)


def with_blanks(name: str) -> pl.Expr:
    """A column of stripped texts, null where they are one of `BLANK_WORDS`."""
    return pl.when(~pl.col(name).is_in(BLANK_WORDS)).then(name)


def listed(names: Sequence[str]) -> str:
    """Names in one line, the first 20 of many; nested records have hundreds."""
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def named_twice(header: Sequence[str]) -> list[str]:
    """Names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(header).items() if count > 1)


def read_rows(
    sources: Sequence[TableSource], query: Callable[[TableSource], pl.LazyFrame], folder: Path, meter: Meter
) -> pl.LazyFrame:
    """Rows of several files in order; rows of large files are stored in ``folder``.

    Parameters
    ----------
    query : builds the query of one file, with a column `line`; columns that a file lacks are null

    Returns
    -------
    the query's columns, `source` (index of the file) and `row` (from 0 over all files)
    """
    held = text_bytes(source.path for source in sources) <= HELD_BYTES
    parts: list[pl.LazyFrame] = []
    before = 0
    for index, source in enumerate(sources):
        place = {"source": pl.lit(index, pl.Int64), "row": pl.col("line") - source.first_line + before}
        meter.begin(source.path)
        rows = query(replace(source, meter=meter)).with_columns(**place)
        part = (
            collect_text(source.path, rows).lazy()
            if held
            else source.spill(rows, folder / f"{index}.parquet")
        )
        last: int = part.select(pl.col("row").max().fill_null(before - 1)).collect(engine="streaming").item()
        before = last + 1
        parts.append(part)
    return pl.concat(parts, how="diagonal")


def reject_frame(sources: Sequence[TableSource], rows: pl.LazyFrame) -> pl.DataFrame:
    """Rows (`source`, `line`, `reason`) that have a reason, joined with their text, as `REJECT_SCHEMA`."""
    faulty = rows.filter(pl.col("reason").is_not_null()).select("source", "line", "reason")
    rejected = faulty.collect(engine="streaming")
    frames = [pl.DataFrame(schema=REJECT_SCHEMA)]
    for index, source in enumerate(sources):
        here = rejected.filter(pl.col("source") == index)
        if not here.is_empty():
            named = here.with_columns(source=pl.lit(source.path.name))
            frames.append(
                named.join(source.texts(here["line"]), on="line").select(*REJECT_SCHEMA).sort("line")
            )
    return pl.concat(frames)


def collect_text(path: Path, lazy: pl.LazyFrame) -> pl.DataFrame:
    """Run a query on a text file, in batches.

    Raises
    ------
    InvalidWorkloadError : not UTF-8, or a truncated or damaged gzip file
    """
    with _naming(path):
        return lazy.collect(engine="streaming")


@contextmanager
def _naming(path: Path, advice: str = "") -> Iterator[None]:
    """Convert exceptions of reading a file to an error that names the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "fetch or write the file again"
        if "utf8" in detail:
            remedy = (
                f"`ray-sim convert --guess {path}` finds the encoding of a table, or say it in a mapping "
                "file (--map) read: {encoding: cp1252}"
            )
        raise InvalidWorkloadError(
            f"{path}: cannot be read as UTF-8 text, plain or gzip ({detail}); {remedy}{advice}"
        ) from error


def split_lines(lines: pl.Series, delimiter: str, quotes: bool, meter: Meter | None = None) -> pl.Series:
    """Stripped fields of each line; null where its quotes do not close.

    Most batches have no quotes and no blanks and take the fast path.
    """
    if meter is not None:
        meter.add(int(lines.str.len_bytes().sum()))
    if delimiter == " ":
        lines = lines.str.strip_chars(BLANKS).str.replace_all("[ \t]+", " ")
    fields = lines.str.split(delimiter)
    quoted = lines.str.contains('"', literal=True)
    if quotes and quoted.any():
        slow = [_split_quoted(line, delimiter) for line in lines.filter(quoted)]
        places = pl.concat([(~quoted).arg_true(), quoted.arg_true()])
        parts = pl.concat([fields.filter(~quoted), pl.Series(slow, dtype=_FIELDS)])
        fields = parts.gather(places.arg_sort())
    if lines.str.contains(f"[{BLANKS}]").any():
        fields = fields.list.eval(pl.element().str.strip_chars(BLANKS))
    return fields


def _split_quoted(line: str, delimiter: str) -> list[str] | None:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def check_text(path: Path, *, lines: bool, name: Path | None = None) -> None:
    """Raise for a file that is too large or has too long a line to be text; uses a few MB of memory.

    A damaged or truncated file passes; its reader reports the damage.

    Parameters
    ----------
    lines : whether to check the length of lines too; otherwise plain files are not read
    name : name of the file in errors

    Raises
    ------
    InvalidWorkloadError : it unpacks to more than `MAX_RATIO` times its size and `FREE_BYTES`, or a line is
        longer than `MAX_LINE`; says which
    """
    unpacked = 0
    length = _Lines(name or path) if lines else None
    try:
        with _opened(path, lines) as stream:
            while stream is not None and (part := stream.read(_PART_BYTES)):
                unpacked += len(part)
                if length is not None:
                    length.add(part)
                refuse_bomb(path, unpacked)
    except (OSError, EOFError, zlib.error):
        return


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Raise InvalidWorkloadError where a packed file has given more bytes than a trace would."""
    most = max(FREE_BYTES, MAX_RATIO * path.stat().st_size)
    if unpacked > most:
        raise InvalidWorkloadError(
            f"{path}: unpacks to more than {most / 2**20:,.0f} MiB; a packed trace may be {MAX_RATIO} times "
            f"as large unpacked, and {FREE_BYTES // 2**20} MiB in any case. If it is a trace, unpack it first"
        )


class _Lines:
    """Length of the current line of a file read in parts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 1
        self._length = 0

    def add(self, part: bytes) -> None:
        """Add the next part; it must be shorter than `MAX_LINE`."""
        first = part.find(b"\n")
        if self._length + (first if first >= 0 else len(part)) > MAX_LINE:
            raise InvalidWorkloadError(
                f"{self._path}: line {self._line:,} is longer than {MAX_LINE // 2**20} MiB, the most that a "
                "row may have. If it is one row, shorten its texts: an `outlook` or a `value` with fewer "
                "points, or put them into the workload file (Parquet), whose texts have no limit. If "
                "not, its line ends are lost, or this is no file of records"
            )
        if first < 0:
            self._length += len(part)
        else:
            self._line += part.count(b"\n")
            self._length = len(part) - part.rfind(b"\n") - 1


@contextmanager
def _opened(path: Path, plain: bool) -> Iterator[IO[bytes] | None]:
    """Stream of the unpacked bytes; None for a plain file unless ``plain``."""
    with path.open("rb") as raw:
        magic = raw.read(len(ZSTD_MAGIC))
        raw.seek(0)
        if magic.startswith(GZIP_MAGIC):
            with gzip.open(raw) as stream:
                yield cast("IO[bytes]", stream)
        elif magic == ZSTD_MAGIC:
            import pyarrow as pa

            with pa.CompressedInputStream(raw, "zstd") as stream:
                yield stream
        else:
            yield raw if plain else None
