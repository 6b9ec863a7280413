"""The trace formats by name, the only module that knows all of them, and a user's own.

A user's own is a function that makes a table of each file, or a whole `TraceFormat`.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from ray_sim.model.text import shown
from ray_sim.user_code import load, users_code
from workloads.formats import pods
from workloads.formats.csv import table
from workloads.formats.google import trace2011, trace2019
from workloads.formats.philly import csv as philly_csv
from workloads.formats.philly import log as philly_log
from workloads.formats.text import FIRST_LINE
from workloads.progress import Meter
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

FORMATS: dict[str, TraceFormat] = {
    found.FORMAT.name: found.FORMAT for found in (table, trace2011, trace2019, pods, philly_log, philly_csv)
}
"""Every trace format by its name."""

_OF_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date, pl.Datetime, pl.Null)
"""Types of columns besides numbers."""

_LINE_END = re.compile(r"[\n\r]")
"""Line ends; a row of a CSV file is one line, so its cells must not have any."""

TableReader = Callable[[Path], pl.DataFrame]
"""Makes a table of a trace file: a row per job, columns as in a CSV file of `ray-sim convert csv`."""


def find_format(name: str) -> TraceFormat:
    """Trace format of a name in `FORMATS`, or of a user's own as `module:NAME`, see `own_format`."""
    if ":" in name:
        return own_format(name)
    if name not in FORMATS:
        raise UnknownNameError("trace format", name, FORMATS)
    return FORMATS[name]


def own_format(ref: str) -> TraceFormat:
    """Trace format that a reference `module:NAME` names.

    The rows of a function's table are checked as those of a CSV file; a reject names the file and its row,
    which counts from 2, as the first line of a CSV file is its header.

    Raises
    ------
    UnknownNameError, InvalidInputError : nothing can be imported by that name, or it is neither of the two
    """
    found = load("trace format", ref, _fits)
    if isinstance(found, TraceFormat):
        return replace(found, read=partial(_read_guarded, ref, found.read))
    if not callable(found) or isinstance(found, type):
        raise InvalidInputError(
            f"trace format '{ref}': must be a function of a file's path that returns a polars DataFrame, or "
            f"a TraceFormat, found {type(found).__name__}"
        )
    return replace(table.FORMAT, name=ref, version=_version(found), read=partial(_read_tables, ref, found))


def _fits(value: object) -> bool:
    return isinstance(value, TraceFormat) or inspect.isfunction(value)


def _file_of(reader: TableReader) -> str | None:
    """File that defines a function; None if there is none."""
    try:
        return inspect.getsourcefile(reader)
    except TypeError:
        return None


def _version(reader: TableReader) -> str:
    """Digest of the file that defines the function: other code is another converter."""
    source = _file_of(reader)
    return "unknown" if source is None else hashlib.sha256(Path(source).read_bytes()).hexdigest()[:12]


def _read_guarded(
    ref: str,
    read: Callable[[Sequence[Path], ConvertOptions, Path, Meter], Parsed],
    paths: Sequence[Path],
    options: ConvertOptions,
    folder: Path,
    meter: Meter,
) -> Parsed:
    with users_code(f"trace format '{ref}' failed"):
        return read(paths, options, folder, meter)


def _read_tables(
    ref: str, reader: TableReader, paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter
) -> Parsed:
    written = []
    for index, path in enumerate(paths):
        meter.begin(path)
        written.append(_write_table(ref, reader, path, folder / f"table-{index}"))
    try:
        return table.read(written, options, folder, Meter(written))
    except InvalidWorkloadError as error:
        text = str(error)
        for copy, path in zip(written, paths, strict=True):
            text = text.replace(str(copy), f"the table of {path}")
        raise InvalidWorkloadError(f"trace format '{ref}': {text}") from error


def _write_table(ref: str, reader: TableReader, path: Path, folder: Path) -> Path:
    """Write the table of a trace file as CSV, under the file's name, in a folder of its own."""
    with users_code(f"trace format '{ref}' failed on {path}", file=_file_of(reader)):
        frame = reader(path)
    if not isinstance(frame, pl.DataFrame):
        raise InvalidInputError(
            f"trace format '{ref}': must return a polars DataFrame, found {type(frame).__name__}"
        )
    if fault := _fault(frame):
        raise InvalidWorkloadError(f"trace format '{ref}': the table of {path}: {fault}")
    folder.mkdir()
    copy = folder / path.name
    with copy.open("wb") as stream:  # of a path, polars would take the name for that of a packed file
        frame.write_csv(stream, separator=table.delimiter_of(path))
    return copy


def _fault(frame: pl.DataFrame) -> str | None:
    """Why a table cannot be rows of text; None if it can."""
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype in _OF_TEXT):
            return f"column {shown(name)} has the type {dtype}; expected numbers, texts or dates"
        if _LINE_END.search(name):
            return f"column {shown(name)} has a line end in its name; expected one line"
    texts = frame.select(pl.selectors.by_dtype(pl.String, pl.Categorical, pl.Enum).cast(pl.String))
    for column in texts:
        row = column.str.contains(_LINE_END.pattern).arg_max()
        if row is not None and _LINE_END.search(column[row] or ""):
            return (
                f"row {row + FIRST_LINE}, column {shown(column.name)}: a text with a line end, "
                f"{shown(column[row])[:60]}; expected one line: replace line ends in the function"
            )
    return None
