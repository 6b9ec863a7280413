"""Mapping file of the csv format: names of a table's columns, units, constants, computed columns.

A computed column is made from a column and a lookup table, or from a file name. A mapping file can compute
nothing else; it holds names and numbers and no code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from ray_sim.model.errors import InvalidInputError, UnknownNameError, nearest, problems_text
from workloads.checks import value_fault
from workloads.documents import dotted_problems, parse_yaml, read_text
from workloads.formats.csv.times import form_problem, is_instant, is_time_zone
from workloads.formats.text import TextSource
from workloads.schema import BY_NAME, COLUMNS, DEMAND_COLUMNS, Column

_BETWEEN = "\x1f"
"""Joins the texts of several columns to one key: ASCII's unit separator."""

_MAX_ENTRY = 2**62

UNITS: dict[str, dict[str, tuple[int, int]]] = {
    "s": {
        "us": (1, 1_000_000),
        "ms": (1, 1000),
        "s": (1, 1),
        "min": (60, 1),
        "h": (3600, 1),
        "d": (86_400, 1),
    },
    "GPU": {"gpu": (1, 1), "milli": (1, 1000)},
    "core": {"core": (1, 1), "milli": (1, 1000)},
    "GiB": {"gib": (1, 1), "mib": (1, 1024)},
    "MB": {"mb": (1, 1), "gb": (1000, 1)},
    "Mbps": {"mbps": (1, 1), "gbps": (1000, 1)},
}
"""Allowed units of a file by the schema's unit, as multiplier and divisor."""

_PER_ROW = ("job_id", "trace_order")

PER_TASK = tuple(name for name in DEMAND_COLUMNS if name.endswith("_per_task"))
"""Columns that a file may have for the whole job instead."""


def _as_list(names: object) -> object:
    return [names] if isinstance(names, str) else names


def _with_text_keys(table: object) -> object:
    """Convert integer keys to the text that the file has."""
    if not isinstance(table, dict):
        return table
    return {str(key) if type(key) is int else key: _with_text_keys(entry) for key, entry in table.items()}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Lookup(_Part):
    """A number for each value of a column, or for each combination of the values of several."""

    by: Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]
    """Columns of the file, one for each level of the table."""
    table: Annotated[dict[str, JsonValue], BeforeValidator(_with_text_keys), Field(min_length=1)]

    def find(self, texts: Sequence[pl.Expr]) -> pl.Expr:
        """The number for the stripped texts of its columns; null where the table has none."""
        leaves = _leaves(self.table)
        entries = {
            _BETWEEN.join(path): float(entry) for path, entry in leaves if isinstance(entry, int | float)
        }
        key = pl.concat_str(texts, separator=_BETWEEN)
        return key.replace_strict(entries, default=None, return_dtype=pl.Float64)


class Derived(_Part):
    """A workload column computed from a column of the file and a number from a lookup table."""

    column: str
    times: Lookup | None = None
    divided_by: Lookup | None = None
    plus: Lookup | None = None

    @property
    def lookups(self) -> dict[str, Lookup]:
        """Lookups by operation; a valid file gives exactly one."""
        operations = {"times": self.times, "divided_by": self.divided_by, "plus": self.plus}
        return {name: lookup for name, lookup in operations.items() if lookup is not None}

    @property
    def lookup(self) -> Lookup:
        """The single lookup of a valid rule."""
        (lookup,) = self.lookups.values()
        return lookup

    def value(self, column: pl.Expr, entry: pl.Expr) -> pl.Expr:
        """The column's number and the entry, put together."""
        if self.times is not None:
            return column * entry
        return column / entry if self.divided_by is not None else column + entry


def part_of_name(pattern: str, source: TextSource) -> str | None:
    """Part of a file's name that matches the pattern's star; None if the name does not match."""
    before, _, after = pattern.partition("*")
    match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", source.path.name)
    return match[1] if match else None


def name_problems(file_name: Mapping[str, str], sources: Sequence[TextSource]) -> Iterator[str]:
    """Problems of the columns taken from files' names, one line each."""
    for name, pattern in file_name.items():
        if pattern.count("*") != 1:
            yield f"file_name.{name}: must have one star for the part that is wanted, is '{pattern}'"
            continue
        for source in sources:
            if part_of_name(pattern, source) is None:
                yield f"file_name.{name}: {source.path.name} is not of the form '{pattern}'"
            if name in source.header:
                yield f"file_name.{name}: {source.path.name} has a column of that name; choose another"


def derived_problems(
    derived: Mapping[str, Derived], known: Mapping[str, Sequence[str]], numbers: Sequence[str]
) -> Iterator[str]:
    """Problems of computed columns, one line each.

    Parameters
    ----------
    known : by file name, the columns there are
    numbers : our columns that may be computed
    """
    for name, rule in derived.items():
        where = f"derived.{name}"
        if name not in numbers:
            yield f"{where}: only columns of numbers can be computed: {', '.join(numbers)}"
        if len(rule.lookups) != 1:
            yield f"{where}: give one of times, divided_by and plus"
        columns = [("column", rule.column)]
        for operation, lookup in rule.lookups.items():
            columns += [(f"{operation}.by", column) for column in lookup.by]
            for problem in _entry_problems(lookup, zero=operation != "divided_by"):
                yield f"{where}.{operation}.table.{problem}"
        for place, column in columns:
            for file, header in known.items():
                if column not in header:
                    yield f"{where}.{place}: {no_column(file, column, header)}"


def no_column(file: str, name: str, header: Sequence[str]) -> str:
    """Say that a file has no column of that name, and which are like it."""
    near = nearest(name, header)
    hint = f"; did you mean '{near}'? Found" if near else "; found"
    return f"{file} has no column '{name}'{hint}: {', '.join(header)}"


def _entry_problems(lookup: Lookup, zero: bool) -> Iterator[str]:
    wanted = "a number" if zero else "a number other than 0"
    for path, entry in _leaves(lookup.table):
        if len(path) != len(lookup.by):
            yield f"{'.'.join(path)}: must be {len(lookup.by)} levels deep, like `by`, is {len(path)}"
        elif isinstance(entry, bool) or not isinstance(entry, int | float) or not abs(entry) <= _MAX_ENTRY:
            yield f"{'.'.join(path)}: must be {wanted}, is {entry!r}"
        elif entry == 0 and not zero:
            yield f"{'.'.join(path)}: must be {wanted}, is 0"


def _leaves(table: Mapping[str, JsonValue]) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    for key, entry in table.items():
        if isinstance(entry, dict):
            yield from (((key, *path), leaf) for path, leaf in _leaves(entry))
        else:
            yield (key,), entry


class ColumnMapping(BaseModel):
    """Content of a mapping file. Columns with the schema's names need no entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    columns: dict[str, str] = {}
    """Column of the file by our name."""
    derived: dict[str, Derived] = {}
    """Rule of a computed column by our name."""
    file_name: dict[str, str] = {}
    """Pattern of file names by column name; the column's value is the part that matches the star."""
    constants: dict[str, JsonValue] = {}
    """One value for all rows, by our name."""
    units: dict[str, str] = {}
    """The file's unit, by our name."""
    per_job: list[str] = []
    """Our columns per task that the file gives for the whole job; they are divided by the job's tasks."""
    time_format: str | None = None
    """Form of submit_s in codes of chrono's strftime, for dates that are not ISO 8601."""
    time_zone: str | None = None
    """Zone of dates without an offset; None means UTC."""

    def names(self, source: TextSource) -> dict[str, str]:
        """Column of the file for each of our columns; for a computed column, the one it is computed from."""
        same = {name: name for name in self.header(source) if name in BY_NAME and name not in self.constants}
        derived = {name: rule.column for name, rule in self.derived.items()}
        return {**same, **self.columns, **derived}

    def header(self, source: TextSource) -> tuple[str, ...]:
        """Columns of a file, and those taken from its name."""
        return (*source.header, *self.file_name)

    def used(self, source: TextSource) -> set[str]:
        """Columns of the file that are read."""
        looked_up = {column for rule in self.derived.values() for column in rule.lookup.by}
        return {*self.names(source).values(), *looked_up}

    def scale(self, column: Column) -> tuple[int, int]:
        """Multiplier and divisor from the file's unit to ours."""
        return UNITS[column.unit][self.units[column.name]] if column.name in self.units else (1, 1)


def read_mapping(path: Path, sources: Sequence[TextSource]) -> ColumnMapping:
    """Read a mapping file and check it against the trace files.

    Raises
    ------
    InvalidInputError : unreadable, no YAML, or entries that cannot be; names every one by its dotted path
    """
    content = parse_yaml(read_text(path, InvalidInputError), str(path), InvalidInputError)
    mapping, problems = _parsed({} if content is None else content)
    problems += _problems(mapping, sources, complete=not problems)
    if problems:
        raise InvalidInputError(problems_text(str(path), problems))
    return mapping


def _parsed(content: object) -> tuple[ColumnMapping, list[str]]:
    """Sound entries of a mapping file, and the problems of the others."""
    known = [*ColumnMapping.model_fields, *Derived.model_fields, *Lookup.model_fields]
    problems: list[str] = []
    while True:
        try:
            return ColumnMapping.model_validate(content), problems
        except ValidationError as failure:
            problems += dotted_problems(failure, known)
            for detail in failure.errors(include_url=False):
                content = _without(content, detail["loc"])


def _without(content: object, place: tuple[int | str, ...]) -> object:
    """Content without the entry (or else the section) at a path."""
    if not isinstance(content, dict) or not place:
        return {}
    section = content.get(place[0])
    if len(place) > 1 and isinstance(section, dict) and place[1] in section:
        rest = {name: entry for name, entry in section.items() if name != place[1]}
        return {**content, place[0]: rest}
    rest = {name: entry for name, entry in content.items() if name != place[0]}
    return rest if len(rest) < len(content) else {}  # a key that is no text has another name as a place


def _problems(mapping: ColumnMapping, sources: Sequence[TextSource], complete: bool) -> Iterator[str]:
    """Problems of a mapping for these files, one line each, with the dotted path.

    Parameters
    ----------
    complete : whether the file has no other entries, which may be columns
    """
    yield from _column_problems(mapping, sources)
    yield from name_problems(mapping.file_name, sources)
    yield from derived_problems(
        mapping.derived,
        {source.path.name: mapping.header(source) for source in sources},
        [column.name for column in COLUMNS if column.is_number],
    )
    yield from _constant_problems(mapping)
    yield from _unit_problems(mapping, sources, complete)
    yield from _per_job_problems(mapping, sources, complete)
    yield from _time_problems(mapping)


def _unknown(section: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in BY_NAME:
            yield f"{section}.{name}: {UnknownNameError('column of a workload', name, BY_NAME)}"


def _column_problems(mapping: ColumnMapping, sources: Sequence[TextSource]) -> Iterator[str]:
    yield from _unknown("columns", list(mapping.columns))
    for name in mapping.derived:
        if name in mapping.columns or name in mapping.constants:
            yield f"derived.{name}: also a column or a constant; keep one of them"
    for name, theirs in mapping.columns.items():
        if name in mapping.constants:
            yield f"columns.{name}: also a constant; keep one of the two"
        for source in sources:
            if theirs not in mapping.header(source):
                problem = no_column(source.path.name, theirs, mapping.header(source))
                yield f"columns.{name}: {problem}{source.other_separator}"


def _constant_problems(mapping: ColumnMapping) -> Iterator[str]:
    yield from _unknown("constants", list(mapping.constants))
    for name, value in mapping.constants.items():
        if name in _PER_ROW:
            yield f"constants.{name}: must differ from row to row; leave it out to number the rows"
        elif name in BY_NAME and not _fits(BY_NAME[name], value):
            expected = "a whole number" if BY_NAME[name].is_whole else "a number"
            text = f"{BY_NAME[name].wanted_text} (in quotes)"
            kind = f"{expected} in the column's range" if BY_NAME[name].is_number else text
            yield f"constants.{name}: must be {kind}, is {value!r}"


def _fits(column: Column, value: JsonValue) -> bool:
    if not column.is_number:
        return isinstance(value, str) and bool(value.strip()) and column.holds(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 2**62:
        return False
    return pl.select(value_fault(column, pl.lit(float(value)))).item() is None


def _unit_problems(mapping: ColumnMapping, sources: Sequence[TextSource], complete: bool) -> Iterator[str]:
    yield from _unknown("units", list(mapping.units))
    for name, unit in mapping.units.items():
        if name not in BY_NAME:
            continue
        known = UNITS.get(BY_NAME[name].unit, {})
        if unit not in known:
            allowed = f"one of {', '.join(known)}" if known else "left out, the column has no unit"
            yield f"units.{name}: must be {allowed}, is '{unit}'"
        if complete and not any(name in mapping.names(source) for source in sources):
            yield f"units.{name}: no column of the file is {name}; units are for columns only"


def _per_job_problems(mapping: ColumnMapping, sources: Sequence[TextSource], complete: bool) -> Iterator[str]:
    for name in mapping.per_job:
        if name not in PER_TASK:
            nearest_text = UnknownNameError("column of a task's demand", name, PER_TASK)
            yield f"per_job.{name}: {nearest_text}"
        elif complete and not any(name in mapping.names(source) for source in sources):
            yield f"per_job.{name}: no column of the file is {name}; name it under `columns`"


def _time_problems(mapping: ColumnMapping) -> Iterator[str]:
    if mapping.time_zone is not None and not is_time_zone(mapping.time_zone):
        yield f"time_zone: unknown zone '{mapping.time_zone}'; use a name like America/Los_Angeles or UTC"
    if mapping.time_format is None:
        return
    if problem := form_problem(mapping.time_format, mapping.time_zone):
        yield f"time_format: {problem}"
    if "submit_s" in mapping.units:
        yield "units.submit_s: a date has no unit; drop it or time_format"
    if "submit_s" in mapping.derived:
        yield "derived.submit_s: a date cannot be computed with; drop it or time_format"
    if "submit_s" in mapping.constants:
        yield "constants.submit_s: a constant is a number of seconds; drop it or time_format"
    if is_instant(mapping.time_format) and mapping.time_zone is not None:
        yield "time_zone: the dates carry their offset from UTC, or count from 1970; drop one of the two"
