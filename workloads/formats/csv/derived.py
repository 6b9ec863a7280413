"""Computed columns of a table: from a column and a lookup table, or from the file's name.

A mapping file can compute nothing else. It holds names and numbers and no code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from ray_sim.model.errors import nearest
from workloads.formats.text import TextSource

_BETWEEN = "\x1f"
"""Joins the texts of several columns to one key: ASCII's unit separator."""

_MAX_ENTRY = 2**62


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
