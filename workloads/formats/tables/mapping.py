"""Mapping file of a table: how it is read, names of columns, units, cells, computed columns, rows left out.

A computed column is an expression of a closed grammar, or made from a column and a lookup table, or from a
file name. A mapping file can compute nothing else; it holds no code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Self

import polars as pl
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from ray_sim.model.errors import InvalidInputError, problems_text
from workloads.documents import dotted_problems, parse_yaml, read_text
from workloads.formats.tables.cells import Cell, as_list, pattern_fault, plain
from workloads.formats.tables.expressions import Expression, ExpressionError, parse_expression
from workloads.formats.tables.files import Reading
from workloads.formats.text import TableSource
from workloads.rows import DuplicateRule
from workloads.schema import BY_NAME, MAX_GIB, Column

LEFT_OUT = "left_out"
"""Column of a table that names why a row is no job; blank for jobs."""

_BETWEEN = "\x1f"
"""Joins the texts of several columns to one key: ASCII's unit separator."""

UNITS: dict[str, dict[str, tuple[int, int]]] = {
    "s": {
        "us": (1, 1_000_000),
        "ms": (1, 1000),
        "s": (1, 1),
        "min": (60, 1),
        "h": (3600, 1),
        "d": (86_400, 1),
    },
    "GPU": {"gpu": (1, 1), "milli": (1, 1000), "percent": (1, 100)},
    "core": {"core": (1, 1), "milli": (1, 1000), "percent": (1, 100)},
    "GiB": {
        "gib": (1, 1),
        "mib": (1, 1024),
        "kib": (1, 2**20),
        "b": (1, 2**30),
        "gb": (10**9, 2**30),
        "mb": (10**6, 2**30),
    },
    "MB": {"mb": (1, 1), "gb": (1000, 1), "b": (1, 10**6), "mib": (2**20, 10**6), "gib": (2**30, 10**6)},
    "Mbps": {"mbps": (1, 1), "gbps": (1000, 1)},
}
"""Allowed units of a file by the schema's unit, as multiplier and divisor."""


def _with_text_keys(table: object) -> object:
    """Convert integer keys to the text that the file has."""
    if not isinstance(table, dict):
        return table
    return {str(key) if type(key) is int else key: _with_text_keys(entry) for key, entry in table.items()}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Lookup(_Part):
    """A number for each value of a column, or for each combination of the values of several."""

    by: Annotated[list[str], BeforeValidator(as_list), Field(min_length=1)]
    """Columns of the file, one for each level of the table."""
    table: Annotated[dict[str, JsonValue], BeforeValidator(_with_text_keys), Field(min_length=1)]

    def find(self, texts: Sequence[pl.Expr]) -> pl.Expr:
        """The number for the stripped texts of its columns; null where the table has none."""
        found = leaves(self.table)
        entries = {
            _BETWEEN.join(path): float(entry) for path, entry in found if isinstance(entry, int | float)
        }
        key = pl.concat_str(texts, separator=_BETWEEN)
        return key.replace_strict(entries, default=None, return_dtype=pl.Float64)


class Derived(_Part):
    """A workload column computed by an expression, or from a column and a number from a lookup table."""

    expression: str | None = None
    column: str | None = None
    times: Lookup | None = None
    divided_by: Lookup | None = None
    plus: Lookup | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, entry: object) -> object:
        return {"expression": str(entry)} if isinstance(entry, str | int | float) else entry

    @cached_property
    def parsed(self) -> Expression | None:
        """The expression; None where there is none. Raises ExpressionError for a text that is none."""
        return None if self.expression is None else parse_expression(self.expression)

    @property
    def is_sound(self) -> bool:
        """Whether the expression can be read, if there is one."""
        try:
            _ = self.parsed
        except ExpressionError:
            return False
        return True

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Columns that the rule reads, each with the key of the entry that names it."""
        computed = [] if self.parsed is None else [("expression", each.column) for each in self.parsed.inputs]
        column = [] if self.column is None else [("column", self.column)]
        by = [(f"{key}.by", name) for key, lookup in self.lookups.items() for name in lookup.by]
        return [*computed, *column, *by]

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


def part_of_name(pattern: str, source: TableSource) -> str | None:
    """Part of a file's name that matches the pattern's star; None if the name does not match."""
    before, _, after = pattern.partition("*")
    match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", source.path.name)
    return match[1] if match else None


def leaves(table: Mapping[str, JsonValue]) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """The entries of a lookup table, each with its keys."""
    for key, entry in table.items():
        if isinstance(entry, dict):
            yield from (((key, *path), leaf) for path, leaf in leaves(entry))
        else:
            yield (key,), entry


class Condition(_Part):
    """Rows that are left out: those whose text of a column is one of some, matches a pattern, or is blank."""

    left_out: Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]
    """Name under which the rows are counted."""
    column: str
    is_: list[JsonValue] | None = Field(None, alias="is")
    matches: str | None = None
    blank: bool | None = None

    def holds(self, text: pl.Expr) -> pl.Expr:
        """Whether a row is left out."""
        if self.is_ is not None:
            return text.is_in([plain(value) for value in self.is_])
        if self.matches is not None:
            return text.str.contains(self.matches)
        return text.is_null() if self.blank else text.is_not_null()

    def problem(self) -> str | None:
        """What is wrong with the condition; None for nothing."""
        if sum(each is not None for each in (self.is_, self.matches, self.blank)) != 1:
            return "give one of is, matches and blank"
        return None if self.matches is None else pattern_fault(self.matches)


class Join(_Part):
    """Columns of a second table, one row of which belongs to each record; they are named NAME.COLUMN."""

    file: str
    """Name of the second table among the files of the conversion; a star stands for any characters."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    header: list[str] | None = None
    """Names of its columns where the file does not name them."""
    on: Annotated[dict[str, str], Field(min_length=1)]
    """Columns of the second table by those of the first that must be equal."""

    @model_validator(mode="before")
    @classmethod
    def _with_on(cls, entry: object) -> object:
        """The key `on`, which YAML 1.1 reads as a truth value."""
        return (
            {"on" if key is True else key: it for key, it in entry.items()}
            if isinstance(entry, dict)
            else entry
        )


class ColumnMapping(BaseModel):
    """Content of a mapping file. Columns with the schema's names need no entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    known: ClassVar[Mapping[str, Column]] = BY_NAME
    """Our columns by name."""
    kind: ClassVar[str] = "column of a workload"
    section: ClassVar[str] = ""
    """Path of the mapping within its file."""

    about: dict[str, str] = {}
    """What the mapping is for: source, files and page, as listed by `ray-sim formats`."""
    read: Reading = Reading()
    join: Join | None = None
    columns: dict[str, Annotated[list[str], BeforeValidator(as_list), Field(min_length=1)]] = {}
    """Column of the file by our name; of several, the first that the files have."""
    optional: list[str] = []
    """Our columns that are left out where the files lack what they are read from."""
    blank_if_missing: list[str] = []
    """Columns of the file that are blank in every row where a file lacks them."""
    required: list[str] = []
    """Our columns without which a row is rejected, besides those that are never null."""
    derived: dict[str, Derived] = {}
    """Rule of a computed column by our name."""
    cells: dict[str, Cell] = {}
    """How cells are read, by column of the file."""
    file_name: dict[str, str] = {}
    """Pattern of file names by column name; the column's value is the part that matches the star."""
    constants: dict[str, JsonValue] = {}
    """One value for all rows, by our name."""
    units: dict[str, str] = {}
    """The file's unit, by our name."""
    per_job: list[str] = []
    """Our columns per task that the file gives for the whole job; they are divided by the job's tasks."""
    per_task: list[str] = []
    """Our columns of the whole job that the file gives for a task; they are multiplied by the job's tasks."""
    null_values: list[str] | None = None
    """Words for an absent value in all columns; None: `BLANK_WORDS` in those that may be null."""
    where: list[Condition] = []
    duplicates: Annotated[DuplicateRule, Field(strict=False)] = DuplicateRule.BEST
    time_format: str | None = None
    """Form of submit_s in codes of chrono's strftime, for dates that are not ISO 8601."""
    time_zone: str | None = None
    """Zone of dates without an offset; None means UTC."""
    nodes: NodeMapping | None = None
    """The list of servers among the files."""

    def names(self, source: TableSource) -> dict[str, str]:
        """Column of the file for each of ours; for one with a lookup table, the one that it is made from."""
        header = self.header(source)
        same = {name: name for name in header if name in self.known and name not in self.constants}
        same = {name: theirs for name, theirs in same.items() if name not in self.derived}
        derived = {name: rule.column for name, rule in self.derived.items() if rule.column is not None}
        return {**same, **{name: theirs[0] for name, theirs in self.columns.items()}, **derived}

    def recorded(self) -> dict[str, JsonValue]:
        """The entries of a mapping that fits its files, as a file's provenance has them."""
        entries = self.model_dump(exclude_defaults=True, exclude={"about", "columns"}, by_alias=True)
        columns: dict[str, JsonValue] = {name: theirs[0] for name, theirs in self.columns.items()}
        return {**({"columns": columns} if columns else {}), **entries}

    def fitted(self, sources: Sequence[TableSource]) -> Self:
        """The mapping without what these files need not have, with one of their columns for each of ours."""
        headers = [{*self.header(source), *self.blank_if_missing} for source in sources]
        there = set.intersection(*headers)
        columns = {
            name: [next((each for each in theirs if each in there), theirs[0])]
            for name, theirs in self.columns.items()
        }
        needs = {name: set(theirs) for name, theirs in columns.items()}
        needs |= {
            name: {column for _, column in rule.columns}
            for name, rule in self.derived.items()
            if rule.is_sound
        }
        lacking = {name for name in self.optional if not needs.get(name, set()) <= there}
        spare = {each for theirs in self.columns.values() if len(theirs) > 1 for each in theirs}
        spare |= {column for name in lacking for column in needs[name]}
        gone = spare - there
        gone |= {base for base, groups in self.groups.items() if base not in there and gone & {*groups}}
        return self.model_copy(
            update={
                "columns": {name: theirs for name, theirs in columns.items() if name not in lacking},
                "derived": {name: rule for name, rule in self.derived.items() if name not in lacking},
                "units": {name: unit for name, unit in self.units.items() if name not in lacking},
                "per_job": [name for name in self.per_job if name not in lacking],
                "cells": {name: cell for name, cell in self.cells.items() if name not in gone},
                "where": [each for each in self.where if each.column not in gone],
            }
        )

    def named(self, source: TableSource) -> set[str]:
        """Our columns that the file has or that are computed from it."""
        return {*self.names(source), *self.derived}

    def header(self, source: TableSource) -> tuple[str, ...]:
        """Columns of a file, those taken from its name, and those that patterns make."""
        return (
            *source.header,
            *self.file_name,
            *(group for groups in self.groups.values() for group in groups),
        )

    def lacks(self, source: TableSource, name: str) -> bool:
        """Whether a file has no column of that name, and must have one."""
        return name not in self.header(source) and name not in self.blank_if_missing

    @cached_property
    def groups(self) -> dict[str, dict[str, str]]:
        """By the column of the cells, patterns by the columns that they make; makers before what is made."""
        waiting = {name: cell.groups for name, cell in self.cells.items() if cell.groups}
        ordered: dict[str, dict[str, str]] = {}
        while waiting:
            made = {name for groups in waiting.values() for name in groups}
            ready = [name for name in waiting if name not in made] or list(waiting)
            ordered |= {name: waiting.pop(name) for name in ready}
        return ordered

    def used(self, source: TableSource) -> set[str]:
        """Columns of the file that are read, those that patterns make among them."""
        computed = {column for rule in self.derived.values() for _, column in rule.columns}
        used = {*self.names(source).values(), *computed, *(condition.column for condition in self.where)}
        used |= {LEFT_OUT}.intersection(source.header)
        for base, groups in reversed(self.groups.items()):
            used |= set() if used.isdisjoint(groups) else {base}
        return used

    def scale(self, column: Column) -> tuple[int, int]:
        """Multiplier and divisor from the file's unit to ours."""
        return UNITS[column.unit][self.units[column.name]] if column.name in self.units else (1, 1)

    def cell(self, theirs: str) -> Cell:
        """How cells of a column of the file are read."""
        return self.cells.get(theirs, PLAIN)


_MOST_CAPACITY = 2**20

NODE_COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column("name", pl.String(), "Name of the server."),
        Column("gpus", pl.Float64(), "GPUs.", "0", "GPU", 0, _MOST_CAPACITY),
        Column("cpus", pl.Float64(), "CPU cores.", "0", "core", 0, _MOST_CAPACITY),
        Column("memory_gib", pl.Float64(), "Memory.", "0", "GiB", 0, MAX_GIB),
        Column("disk_gib", pl.Float64(), "Disk.", "0", "GiB", 0, MAX_GIB),
        Column("count", pl.Int64(), "Number of such servers.", "1", "", 1, _MOST_CAPACITY),
        Column("gpu_type", pl.String(), "Model of its GPUs.", "not stated"),
        Column("vc", pl.String(), "Virtual cluster of the server.", "none"),
    )
}
"""What a list of servers may say of each."""


class NodeMapping(ColumnMapping):
    """The section `nodes`: how a list of servers is read, by the same keys."""

    known: ClassVar[Mapping[str, Column]] = NODE_COLUMNS
    kind: ClassVar[str] = "column of a list of servers"
    section: ClassVar[str] = "nodes."

    file: str = "*"
    """Name of the list among the files of the conversion; a star stands for any characters."""


ColumnMapping.model_rebuild()

PLAIN = Cell()
"""How cells without an entry are read."""


def parse_mapping(path: Path) -> tuple[ColumnMapping, list[str]]:
    """The sound entries of a mapping file, and the problems of the others, one line each.

    Raises
    ------
    InvalidInputError : unreadable, no YAML, or a section `read` that cannot be
    """
    content = parse_yaml(read_text(path, InvalidInputError), str(path), InvalidInputError)
    mapping, problems = _parsed({} if content is None else content)
    if problem := mapping.read.problem():
        problems.append(f"read.{problem}")
    if any(problem.startswith("read") for problem in problems):
        raise InvalidInputError(problems_text(str(path), problems))
    return mapping, problems


def _parsed(content: object) -> tuple[ColumnMapping, list[str]]:
    """Sound entries of a mapping file, and the problems of the others."""
    models = (ColumnMapping, Derived, Lookup, Reading, Cell, Condition, Join)
    known = [field.alias or name for model in models for name, field in model.model_fields.items()]
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
