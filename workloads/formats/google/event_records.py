"""Reader of records with named values: JSON lines, or CSV with a header, plain or gzip.

Values stay texts as in the file, so that no number is too large to be checked. Polars parses batches of valid
JSON; if one line of a batch is invalid, each line is parsed by itself, so that every record is either read or
has its fault.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO, TypeVar

import polars as pl

from workloads.files import open_unpacked, read_to_its_end
from workloads.formats.text import TEXT_LIMIT

MAX_LINE = 2**26
"""The longest line in characters; a longer one is a file of another kind."""

BATCH_RECORDS = 2**14
"""Most records of a batch."""

BATCH_CHARACTERS = 2**24
"""Approximate characters of a batch, so that records of any length fit into memory."""

_BLANKS = " \t\r\n"

_T = TypeVar("_T")


class _Record(NamedTuple):
    """One record. A tuple, since millions are made where a file is damaged."""

    line: int
    text: str
    values: Mapping[str, object]
    fault: str | None = None


def read_records(path: Path, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The records of a file, in batches. A file is JSON lines if its first character is a brace.

    Parameters
    ----------
    names : of the values; ``a.b`` is value b of the object a, or a column of that name, or in a text
        like ``{'b': 1}`` of column a

    Returns
    -------
    `line` (from 1), `text` (cut at `TEXT_LIMIT`), `fault` (why it is no record, or null), and the values as
    stripped texts, null where blank

    Raises
    ------
    InvalidWorkloadError : unreadable, truncated, or a line that is too long
    """
    with read_to_its_end(path), open_unpacked(path) as stream:
        lines = _Lines(stream)
        batches = _json(lines, names) if lines.peek().lstrip()[:1] == "{" else _csv(lines, names)
        for batch in batches:
            filled = batch.with_columns(pl.col(names).str.strip_chars(_BLANKS))
            yield filled.with_columns(pl.when(pl.col(name) != "").then(name).alias(name) for name in names)


class _LineError(OSError):
    """A line is too long."""


class _Lines:
    """Iterator of lines that also keeps the beginning of the text read since `begin`."""

    def __init__(self, stream: TextIO) -> None:
        self.number = 0
        self.text = ""
        self._stream = stream
        self._next: str | None = None

    def peek(self) -> str:
        """The next line; empty at the end."""
        if self._next is None:
            self._next = self._stream.readline(MAX_LINE)
            if len(self._next) == MAX_LINE:
                raise _LineError(f"a line is longer than {MAX_LINE:,} characters")
        return self._next

    def begin(self) -> int:
        """The number of the next line, with which a record begins."""
        self.text = ""
        return self.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line, self._next = self.peek(), None
        if not line:
            raise StopIteration
        self.number += 1
        if len(self.text) < TEXT_LIMIT:
            self.text = (self.text + line)[:TEXT_LIMIT]
        return line


def _batches(records: Iterator[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yield batches within the limits; at least one, which may be empty."""
    batch: list[_T] = []
    characters = 0
    for record in records:
        batch.append(record)
        characters += size(record)
        if len(batch) == BATCH_RECORDS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    yield batch


def _json(lines: _Lines, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    dtype = _struct(names)
    for batch in _batches(lines, len):
        first = lines.number - len(batch) + 1
        decoded = _decoded(batch, dtype)
        if decoded is None:
            yield _frame([_parsed(first + place, line) for place, line in enumerate(batch)], names)
        else:
            numbers = pl.int_range(first, first + len(batch), eager=True, dtype=pl.Int64)
            texts = pl.Series(batch).str.slice(0, TEXT_LIMIT)
            values = [_inside(name).alias(name) for name in names]
            frame = decoded.struct.unnest().select(values)
            yield frame.with_columns(line=numbers, text=texts, fault=pl.lit(None, pl.String))


def _struct(names: Sequence[str]) -> pl.Struct:
    """An object with these values, all of them texts."""
    nested: dict[str, list[pl.Field]] = {}
    for name in names:
        outer, _, inner = name.partition(".")
        nested.setdefault(outer, []).extend([pl.Field(inner, pl.String)] if inner else [])
    fields = (pl.Field(name, pl.Struct(inner) if inner else pl.String) for name, inner in nested.items())
    return pl.Struct([*fields])


def _inside(name: str) -> pl.Expr:
    outer, _, inner = name.partition(".")
    return pl.col(outer).struct.field(inner) if inner else pl.col(outer)


def _decoded(lines: Sequence[str], dtype: pl.Struct) -> pl.Series | None:
    """Objects of the lines; None if one is invalid, or if polars and `json` would read it differently."""
    try:
        texts = pl.Series(lines, dtype=pl.String)
        if texts.str.contains(r"\\u[dD]|\x00").any():  # perhaps half a character
            return None
        decoded = texts.str.json_decode(dtype)
    except (pl.exceptions.PolarsError, UnicodeEncodeError):
        return None
    return decoded if len(decoded) == len(lines) and decoded.null_count() == 0 else None


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: dict(reversed(pairs)),  # of a key given twice the first, as in polars
    parse_int=str,
    parse_float=str,
    parse_constant=str,
)


def _parsed(number: int, line: str) -> _Record:
    stripped = line.strip(_BLANKS)
    text = line[:TEXT_LIMIT].rstrip("\r\n")
    if not stripped:
        return _Record(number, text, {}, "empty_row")
    try:
        value = _DECODER.decode(stripped)
    except (json.JSONDecodeError, RecursionError):
        return _Record(number, text, {}, "invalid_json")
    if not isinstance(value, dict):
        return _Record(number, text, {}, "not_an_object")
    return _Record(number, text, value)


def _csv(lines: _Lines, names: Sequence[str]) -> Iterator[pl.DataFrame]:
    def size(record: _Record) -> int:
        return sum(len(cell) for cell in record.values.values() if isinstance(cell, str))

    for batch in _batches(_csv_records(lines), size):
        yield _frame(batch, names)


def _csv_records(lines: _Lines) -> Iterator[_Record]:
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    while True:
        line = lines.begin()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = None
        if header is None:
            header = [name.strip() for name in row or []]
        elif row is None:
            yield _Record(line, lines.text, {}, "malformed_quotes")
        elif not any(cell.strip() for cell in row):
            yield _Record(line, lines.text, {}, "empty_row")
        elif len(row) != len(header):
            yield _Record(line, lines.text, {}, "wrong_field_count")
        else:
            yield _Record(line, lines.text, dict(zip(header, row, strict=True)))


def _frame(records: Sequence[_Record], names: Sequence[str]) -> pl.DataFrame:
    values = {name: _texts([_value(record.values, name) for record in records]) for name in names}
    return pl.DataFrame(values).with_columns(
        line=pl.Series([record.line for record in records], dtype=pl.Int64),
        text=_texts([record.text for record in records]),
        fault=pl.Series([record.fault for record in records], dtype=pl.String),
    )


def _value(values: Mapping[str, object], name: str) -> object:
    if name in values:
        return values[name]
    outer, _, inner = name.partition(".")
    nested = values.get(outer) if inner else None
    if isinstance(nested, dict):
        return nested.get(inner)
    return _printed(nested, inner) if isinstance(nested, str) else nested


def _printed(text: str, name: str) -> str | None:
    """An entry of an object that was printed into a cell, ``{'cpus': 0.5, 'memory': None}``."""
    for part in text.strip("{} \t\r\n").split(","):
        key, _, value = part.partition(":")
        if key.strip(" \t'\"") == name:
            value = value.strip(" \t'\"")
            return None if value in ("None", "null", "nan") else value
    return None


def _texts(values: Sequence[object]) -> pl.Series:
    """Values as texts; a value that is neither text nor null becomes a text that no column accepts."""
    texts = [value if value is None or isinstance(value, str) else repr(value)[:20] for value in values]
    try:
        return pl.Series(texts, dtype=pl.String)
    except UnicodeEncodeError:  # lone surrogates, which no file can hold
        sound = [text if text is None else text.encode(errors="backslashreplace").decode() for text in texts]
        return pl.Series(sound, dtype=pl.String)
