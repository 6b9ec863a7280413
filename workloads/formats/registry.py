"""The trace formats by name, the only module that knows all of them: built in, presets, and a user's own.

A preset is a mapping file of the package, by its name.

A user's own is a function that makes a table of each file, or a whole `TraceFormat`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from ray_sim.user_code import load, users_code
from workloads.files import text_bytes
from workloads.formats import gavel, pods
from workloads.formats.google import trace2011, trace2019
from workloads.formats.philly import csv as philly_csv
from workloads.formats.philly import log as philly_log
from workloads.formats.tables import table
from workloads.formats.tables.files import source_of
from workloads.formats.tables.mapping import parse_mapping
from workloads.progress import Meter
from workloads.rows import height
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

TABLES = ("csv", "json", "parquet")
"""Names of the format of any table; the form of a file is recognised by its content."""

_PRESETS = Path(__file__).parent / "presets"

_OTHER_NAMES = ("json", "parquet", "alibaba-gpu-2023")
"""Formats that are one of the others by another name."""

_TRIED_BYTES = 2**28
"""Bytes of text up to which files that do not fit are tried with every format."""


def presets() -> dict[str, Path]:
    """The mapping files of the package by name."""
    return {path.stem: path for path in sorted(_PRESETS.glob("*.yaml"))}


def _naming_others(each: TraceFormat) -> TraceFormat:
    """The format, whose errors say which other formats the files fit."""

    def find(paths: Sequence[Path]) -> Mapping[Path, str]:
        with _naming(each, paths):
            return each.find(paths)

    def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
        if options.mapping is not None:
            return each.read(paths, options, folder, meter)
        with _naming(each, paths):
            parsed = each.read(paths, options, folder, meter)
        others = parsed.advice and _that_fit(each, paths)
        return replace(parsed, advice=f"{parsed.advice}; {others}") if others else parsed

    return replace(each, find=find, read=read)


@contextmanager
def _naming(asked: TraceFormat, paths: Sequence[Path]) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        if others := _that_fit(asked, paths):
            error.args = (f"{others}\n{error}",)
        raise


def _that_fit(asked: TraceFormat, paths: Sequence[Path]) -> str:
    """Name the other formats that files fit; empty for none, or where trying takes long."""
    if not all(path.exists() for path in paths) or text_bytes(paths) > _TRIED_BYTES:
        return ""
    with TemporaryDirectory(prefix="ray-sim-") as name:
        folder = Path(name)
        of_code = [each for name, each in FORMATS.items() if name not in _OTHER_NAMES]
        found = [name for name, path in presets().items() if table.fits(path, paths, folder / name)]
        found += [each.name for each in of_code if _keeps(each, paths, folder / each.name)]
        found = [name for name in found if name != asked.name]
    names = ", ".join(path.name for path in paths)
    return f"{names}: fits the format {' or '.join(found)}, not {asked.name}" if found else ""


def _keeps(tried: TraceFormat, paths: Sequence[Path], folder: Path) -> bool:
    """Whether a format's reader keeps rows of the files, and no fewer than it rejects."""
    folder.mkdir()
    try:
        parsed = tried.read(paths, ConvertOptions(), folder, Meter(tried.find(paths)))
    except InvalidInputError:
        return False
    return 0 < height(parsed.jobs) >= height(parsed.rejects)


FORMATS: dict[str, TraceFormat] = {
    each.name: each
    for each in (
        *(replace(table.FORMAT, name=name) for name in TABLES),
        *(found.FORMAT for found in (trace2011, trace2019, pods, philly_log, philly_csv, gavel)),
        replace(pods.FORMAT, name="alibaba-gpu-2023"),
    )
}
"""Every trace format with code of its own, by its name; lists of pods have two names."""


def all_formats() -> dict[str, TraceFormat]:
    """Every trace format by its name, presets last."""
    return FORMATS | {name: _preset(name, path) for name, path in presets().items()}


def _preset(name: str, path: Path) -> TraceFormat:
    about = parse_mapping(path)[0].about
    return replace(
        table.FORMAT,
        name=name,
        version=f"{table.FORMAT.version}-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}",
        source=about["source"],
        files=about["files"],
        page=f"docs/traces/presets.md#{name}",
        read=partial(table.read, preset=path),
    )


TableReader = Callable[[Any], object]
"""Makes a table of a trace file: a row per job, columns as in a CSV file of `ray-sim convert csv`.

It takes the file's path; one whose parameter is named `paths` takes all paths at once.
"""


def find_format(name: str) -> TraceFormat:
    """Trace format by its name, or of a user's own as `module:NAME`, see `own_format`."""
    if ":" in name:
        return own_format(name)
    found = presets()
    if name not in FORMATS and name not in found:
        raise UnknownNameError("trace format", name, [*FORMATS, *found])
    each = _preset(name, found[name]) if name in found else FORMATS[name]
    return _naming_others(each)


def own_format(ref: str) -> TraceFormat:
    """Trace format that a reference `module:NAME` names.

    The rows of a function's table are checked as those of a CSV file; a reject names the file and its row,
    from 1.

    Raises
    ------
    UnknownNameError, InvalidInputError : nothing can be imported by that name, or it is neither of the two
    """
    found = load("trace format", ref, _fits)
    if isinstance(found, TraceFormat):
        return replace(found, read=partial(_read_guarded, ref, found.read))
    if not callable(found) or isinstance(found, type):
        raise InvalidInputError(
            f"trace format '{ref}': must be a function of a file's path that returns a table, or a "
            f"TraceFormat, found {type(found).__name__}"
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
    try:
        opened = []
        at_once = next(iter(inspect.signature(reader).parameters), "") == "paths"
        for index, path in enumerate(paths[:1] if at_once else paths):
            meter.begin(path)
            with users_code(f"trace format '{ref}' failed on {path}", file=_file_of(reader)):
                frame = _frame(ref, reader(list(paths) if at_once else path))
            (folder / str(index)).mkdir()
            opened.append(source_of(path, iter([frame]), folder / str(index)))
        return table.read(paths, options, folder, meter, opened=opened)
    except InvalidWorkloadError as error:
        text = str(error)
        for path in paths:
            text = text.replace(str(path), f"the table of {path}")
        raise InvalidWorkloadError(f"trace format '{ref}': {text}") from error


def _frame(ref: str, found: object) -> pl.DataFrame:
    """What a reader returned as a frame of polars."""
    if isinstance(found, pl.LazyFrame):
        return found.collect()
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        return pl.DataFrame(found, infer_schema_length=None)
    if isinstance(found, pl.DataFrame) or hasattr(found, "__arrow_c_stream__"):
        return pl.DataFrame(found)
    raise InvalidInputError(
        f"trace format '{ref}': must return a table of polars, pandas or Arrow, or a list of dicts, with a "
        f"row per job; found {type(found).__name__}"
    )
