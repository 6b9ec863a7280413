"""The three event tables of Google's trace of 2011 that describe jobs and machines: files and columns.

Headerless CSV in parts, plain or gzip. C. Reiss, J. Wilkes, J. Hellerstein, Google cluster-usage traces:
format and schema, version 2; https://github.com/google/cluster-data (CC-BY 4.0).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.column import MAX_NORM
from workloads.event_lines import Field, Table
from workloads.files import open_unpacked, require_file

AFTER_END_US = 2**63 - 1
"""The time of what happened after the trace ended."""

SUBMIT, SCHEDULE, FINISH = 0, 1, 4
STATUS = {2: "EVICT", 3: "FAIL", FINISH: "FINISH", 5: "KILL", 6: "LOST"}
"""Events of a task or job that end its run, or its wait."""

MAX_ID = 2**62
MAX_INDEX = 2**24

_LIFE_EVENTS = {SUBMIT: "SUBMIT", SCHEDULE: "SCHEDULE", **STATUS, 7: "UPDATE_PENDING", 8: "UPDATE_RUNNING"}
EVENT_NAMES = {
    "job_events": _LIFE_EVENTS,
    "task_events": _LIFE_EVENTS,
    "machine_events": {0: "ADD", 1: "REMOVE", 2: "UPDATE"},
}
"""By table, what the codes of its events mean."""

_PART = re.compile(r"part-(\d+)-of-(\d+)")


def _code(name: str, maximum: int, required: bool = False) -> Field:
    return Field(name, pl.Int8(), maximum, required)


def _norm(name: str) -> Field:
    return Field(name, pl.Float64(), MAX_NORM)


_TIME = Field("time", pl.Int64(), MAX_TIME_S * US_PER_S, required=True, beyond=AFTER_END_US)
_JOB = Field("job", pl.Int64(), MAX_ID, required=True)
_USER = Field("user", pl.String())
_MISSING = _code("missing_info", 2)
_EVENT = _code("event", 8, required=True)
_CLASS = _code("scheduling_class", 3)


JOB_EVENTS = Table(
    "job_events",
    (
        *(_TIME, _MISSING, _JOB, _EVENT, _USER, _CLASS),
        *(Field("job_name", pl.String()), Field("logical_job_name", pl.String())),
    ),
)
TASK_EVENTS = Table(
    "task_events",
    (
        *(_TIME, _MISSING, _JOB, Field("task", pl.Int64(), MAX_INDEX, required=True)),
        *(Field("machine", pl.Int64(), MAX_ID), _EVENT, _USER, _CLASS, _code("priority", 11)),
        *(_norm("cpu"), _norm("memory"), _norm("disk"), _code("different_machines", 1)),
    ),
)
MACHINE_EVENTS = Table(
    "machine_events",
    (
        *(_TIME, Field("machine", pl.Int64(), MAX_ID, required=True), _code("event", 2, required=True)),
        *(Field("platform", pl.String()), _norm("cpu"), _norm("memory")),
    ),
)

TABLES = {table.name: table for table in (JOB_EVENTS, TASK_EVENTS, MACHINE_EVENTS)}


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a table."""

    path: Path
    table: Table

    @property
    def label(self) -> str:
        """Its name in the provenance: parts of two tables have the same file name."""
        return self.path.name if self.table.name in self.path.name else f"{self.table.name}/{self.path.name}"


def find_parts(paths: Sequence[Path]) -> list[Part]:
    """The parts that files and folders hold, table by table, in the order of their numbers.

    A folder is the trace's, with a folder per table, or one of these. A file belongs to the table that
    its folder or its own name has in its name; without, to the one with as many columns as its first line.

    Raises
    ------
    InvalidWorkloadError : a path is missing, a folder holds no part, a file is of no table, or the parts
        are not of one trace: a number twice, or of different totals
    """
    parts = [part for path in paths for part in (_in_folder(path) if path.is_dir() else [_of_file(path)])]
    if len({part.path.resolve() for part in parts}) < len(parts):
        raise InvalidWorkloadError("a part is named twice; its events would be counted twice")
    for table in TABLES.values():
        _check_numbers([part for part in parts if part.table == table])
    order = list(TABLES)
    return sorted(parts, key=lambda part: (order.index(part.table.name), _number(part) or 0))


def _in_folder(folder: Path) -> Iterator[Part]:
    folders = [folder / name for name in TABLES] if folder.name not in TABLES else [folder]
    files = [path for sub in folders if sub.is_dir() for path in sorted(sub.iterdir()) if _is_part(path)]
    if not files:
        raise InvalidWorkloadError(
            f"{folder}: holds no part of the trace; expected folders {', '.join(TABLES)} with files"
            " *.csv.gz or *.csv"
        )
    yield from map(_of_file, files)


def _is_part(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".csv", ".csv.gz")) and not path.name.startswith(".")


def _of_file(path: Path) -> Part:
    require_file(path)
    for name, table in TABLES.items():
        if name in path.name or name == path.absolute().parent.name:
            return Part(path, table)
    return Part(path, _by_columns(path))


def _by_columns(path: Path) -> Table:
    try:
        with open_unpacked(path) as stream:
            columns = stream.readline(2**16).count(",") + 1
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidWorkloadError(f"{path}: cannot be read ({error}); fetch the file again") from error
    for table in TABLES.values():
        if len(table.fields) == columns:
            return table
    wanted = ", ".join(f"{len(table.fields)} ({name})" for name, table in TABLES.items())
    raise InvalidWorkloadError(
        f"{path}: cannot tell its table: line 1 has {columns} columns, expected {wanted};"
        " put it into a folder named after its table"
    )


def _number(part: Part) -> int | None:
    match = _PART.search(part.path.name)
    return int(match[1]) if match else None


def _check_numbers(parts: Sequence[Part]) -> None:
    totals: dict[str, Part] = {}
    numbers: dict[int, Part] = {}
    for part in parts:
        match = _PART.search(part.path.name)
        if match is None:
            continue
        other = numbers.setdefault(int(match[1]), part)
        if other is not part:
            raise InvalidWorkloadError(
                f"{other.path} and {part.path}: the same part of {part.table.name} twice"
            )
        totals.setdefault(match[2], part)
        if len(totals) > 1:
            raise InvalidWorkloadError(
                f"{' and '.join(str(part.path) for part in totals.values())}: parts of two different traces"
            )
