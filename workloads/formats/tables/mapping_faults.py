"""What is wrong with a mapping for given files: one line for each entry, with its dotted path.

Called by `table.read` through `require_fit`, once the files are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError, UnknownNameError, nearest, problems_text
from workloads.checks import value_fault
from workloads.formats.tables.advice import SHOWN
from workloads.formats.tables.expressions import ExpressionError
from workloads.formats.tables.mapping import (
    UNITS,
    ColumnMapping,
    Lookup,
    leaves,
    part_of_name,
)
from workloads.formats.tables.times import form_problem, is_instant, is_time_zone
from workloads.formats.text import TableSource, collect_text, listed
from workloads.schema import DEMAND_COLUMNS, Column

_MAX_ENTRY = 2**62

_TRIED = 100
"""Rows in which a sample value is looked for."""

_PER_ROW = ("job_id", "trace_order")

_PER_TASK = ("num_gpus",)
"""Columns of the whole job that a file may have for one task instead."""

PER_TASK = tuple(name for name in DEMAND_COLUMNS if name.endswith("_per_task"))
"""Columns that a file may have for the whole job instead."""


def require_fit(
    mapping: ColumnMapping,
    problems: Sequence[str],
    path: Path,
    sources: Sequence[TableSource],
    required: Sequence[str] = (),
) -> None:
    """Raise InvalidInputError unless a mapping fits the trace files; names all problems by dotted paths.

    Parameters
    ----------
    problems : what is wrong with other entries of the mapping file ``path``
    required : our columns that each file must give
    """
    found = [*problems, *(mapping.section + each for each in _problems(mapping, sources, not problems))]
    if found:
        found += [
            f"columns.{name}: required, and no entry gives it"
            for name in required
            if not problems and name not in mapping.constants
            if not all(name in mapping.named(source) for source in sources)
        ]
        raise InvalidInputError(problems_text(str(path), found))


def _problems(mapping: ColumnMapping, sources: Sequence[TableSource], complete: bool) -> Iterator[str]:
    """Problems of a mapping for these files, one line each, with the dotted path.

    Parameters
    ----------
    complete : whether the file has no other entries, which may be columns
    """
    yield from _column_problems(mapping, sources)
    yield from _name_problems(mapping.file_name, sources)
    yield from _derived_problems(mapping, sources)
    yield from _constant_problems(mapping)
    yield from _unit_problems(mapping, sources, complete)
    yield from _task_problems(mapping, sources, complete)
    yield from _cell_problems(mapping, sources)
    yield from _where_problems(mapping, sources)
    yield from _time_problems(mapping)


def _unknown(mapping: ColumnMapping, section: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in mapping.known:
            yield f"{section}.{name}: {UnknownNameError(mapping.kind, name, mapping.known)}"


def _column_problems(mapping: ColumnMapping, sources: Sequence[TableSource]) -> Iterator[str]:
    yield from _unknown(mapping, "columns", mapping.columns)
    for name in mapping.derived:
        if name in mapping.columns or name in mapping.constants:
            yield f"derived.{name}: also a column or a constant; keep one of them"
    for name, (theirs, *_) in mapping.columns.items():
        if name in mapping.constants:
            yield f"columns.{name}: also a constant; keep one of the two"
        yield from _lacking(mapping, sources, f"columns.{name}", theirs)


def _constant_problems(mapping: ColumnMapping) -> Iterator[str]:
    yield from _unknown(mapping, "constants", mapping.constants)
    for name, value in mapping.constants.items():
        if name in _PER_ROW:
            yield f"constants.{name}: must differ from row to row; leave it out to number the rows"
        elif (column := mapping.known.get(name)) is not None and not _fits(column, value):
            expected = "a whole number" if column.is_whole else "a number"
            text = f"{column.wanted_text} (in quotes)"
            kind = f"{expected} in the column's range" if column.is_number else text
            yield f"constants.{name}: must be {kind}, is {value!r}"


def _fits(column: Column, value: JsonValue) -> bool:
    if not column.is_number:
        return isinstance(value, str) and bool(value.strip()) and column.holds(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 2**62:
        return False
    return pl.select(value_fault(column, pl.lit(float(value)))).item() is None


def _unit_problems(mapping: ColumnMapping, sources: Sequence[TableSource], complete: bool) -> Iterator[str]:
    yield from _unknown(mapping, "units", mapping.units)
    for name, unit in mapping.units.items():
        if name not in mapping.known:
            continue
        known = UNITS.get(mapping.known[name].unit, {})
        if unit not in known:
            allowed = f"one of {', '.join(known)}" if known else "left out, the column has no unit"
            yield f"units.{name}: must be {allowed}, is '{unit}'"
        if complete and not any(name in mapping.named(source) for source in sources):
            yield f"units.{name}: no column of the file is {name}; units are for columns only"


def _task_problems(mapping: ColumnMapping, sources: Sequence[TableSource], complete: bool) -> Iterator[str]:
    for section, names in (("optional", mapping.optional), ("required", mapping.required)):
        yield from _unknown(mapping, section, names)
    for section, names, kind, possible in (
        ("per_job", mapping.per_job, "column of a task's demand", PER_TASK),
        ("per_task", mapping.per_task, "column of a whole job's demand", _PER_TASK),
    ):
        for name in names:
            if name not in possible:
                yield f"{section}.{name}: {UnknownNameError(kind, name, possible)}"
            elif complete and not any(name in mapping.named(source) for source in sources):
                yield f"{section}.{name}: no column of the file is {name}; name it under `columns`"


def _cell_problems(mapping: ColumnMapping, sources: Sequence[TableSource]) -> Iterator[str]:
    for theirs, cell in mapping.cells.items():
        for problem in cell.problems(mapping.time_zone):
            yield f"cells.{theirs}.{problem}"
        yield from _lacking(mapping, sources, f"cells.{theirs}", theirs)
        for source in sources:
            for group in cell.groups if not cell.problems(mapping.time_zone) else ():
                if group in source.header:
                    named = f"{source.path.name} has a column '{group}'"
                    yield f"cells.{theirs}.pattern: {named}; rename the group"
    made: set[str] = set()
    everything = {name for groups in mapping.groups.values() for name in groups}
    for base, groups in mapping.groups.items():
        if base in everything - made:
            yield f"cells.{base}.pattern: makes the column that it is made of"
        if twice := made & {*groups}:
            yield f"cells.{base}.pattern: another column's pattern makes '{min(twice)}' too; rename the group"
        made |= {*groups}
    for name, (theirs, *_) in mapping.columns.items():
        column, form = mapping.known.get(name), mapping.cell(theirs).as_
        if column is None or form is None:
            continue
        fits = "s" if form in ("duration", "date", "excel_date") else column.unit
        dated = form in ("date", "excel_date")
        if not column.is_number or column.unit != fits or (dated and name != "submit_s"):
            yield (
                f"cells.{theirs}.as: {name} is no {form.replace('_', ' ')}"
                f"{'; subtract dates under `derived`' if dated else ''}"
            )


def _where_problems(mapping: ColumnMapping, sources: Sequence[TableSource]) -> Iterator[str]:
    for index, condition in enumerate(mapping.where):
        if problem := condition.problem():
            yield f"where[{index}]: {problem}"
        yield from _lacking(mapping, sources, f"where[{index}].column", condition.column)


def _time_problems(mapping: ColumnMapping) -> Iterator[str]:
    if mapping.time_zone is not None and not is_time_zone(mapping.time_zone):
        yield f"time_zone: unknown zone '{mapping.time_zone}'; use a name like America/Los_Angeles or UTC"
    if mapping.time_format is None:
        return
    if problem := form_problem(mapping.time_format, mapping.time_zone):
        yield f"time_format: {problem}"
    if "submit_s" in mapping.units:
        yield "units.submit_s: a date has no unit; drop it or time_format"
    if "submit_s" in mapping.constants:
        yield "constants.submit_s: a constant is a number of seconds; drop it or time_format"
    if is_instant(mapping.time_format) and mapping.time_zone is not None:
        yield "time_zone: the dates carry their offset from UTC, or count from 1970; drop one of the two"


def _name_problems(file_name: Mapping[str, str], sources: Sequence[TableSource]) -> Iterator[str]:
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


def _derived_problems(mapping: ColumnMapping, sources: Sequence[TableSource]) -> Iterator[str]:
    """Problems of computed columns, one line each."""
    numbers = [column.name for column in mapping.known.values() if column.is_number]
    for name, rule in mapping.derived.items():
        where = f"derived.{name}"
        if name not in numbers:
            yield f"{where}: only columns of numbers can be computed: {', '.join(numbers)}"
        try:
            columns = rule.columns
        except ExpressionError as error:
            yield f"{where}: {error}, in '{rule.expression}'"
            continue
        if rule.expression is None and (rule.column is None or len(rule.lookups) != 1):
            yield f"{where}: give an expression, or a column and one of times, divided_by and plus"
        if rule.expression is not None and (rule.column is not None or rule.lookups):
            yield f"{where}: has an expression and a lookup table; keep one of the two"
        for operation, lookup in rule.lookups.items():
            for problem in _entry_problems(lookup, zero=operation != "divided_by"):
                yield f"{where}.{operation}.table.{problem}"
        for key, column in columns:
            yield from _lacking(mapping, sources, f"{where}.{key}", column)


def _lacking(mapping: ColumnMapping, sources: Sequence[TableSource], where: str, name: str) -> Iterator[str]:
    """Say that files have no column of that name, and which column is like it, with its first value."""
    lacking = [source for source in sources if mapping.lacks(source, name)]
    if not lacking:
        return
    first, header = lacking[0], mapping.header(lacking[0])
    near = nearest(name, header)
    hint = f"; did you mean '{near}'{_first_value(first, near)}? Found" if near else "; found"
    more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
    found = f"no column '{name}'{hint}: {listed(header)}{first.other_separator}"
    yield f"{where}: {first.path.name}{more} has {found}"


def _first_value(source: TableSource, name: str) -> str:
    """The first value of a column of a file, in words; empty where its first rows have none."""
    if name not in source.header:
        return ""  # made of a pattern or of the file's name
    cells = collect_text(source.path, source.head(_TRIED).rows({"value": name}))["value"].drop_nulls()
    return f" (as {cells[0][:SHOWN]!r})" if len(cells) else ""


def _entry_problems(lookup: Lookup, zero: bool) -> Iterator[str]:
    wanted = "a number" if zero else "a number other than 0"
    for path, entry in leaves(lookup.table):
        if len(path) != len(lookup.by):
            yield f"{'.'.join(path)}: must be {len(lookup.by)} levels deep, like `by`, is {len(path)}"
        elif isinstance(entry, bool) or not isinstance(entry, int | float) or not abs(entry) <= _MAX_ENTRY:
            yield f"{'.'.join(path)}: must be {wanted}, is {entry!r}"
        elif entry == 0 and not zero:
            yield f"{'.'.join(path)}: must be {wanted}, is 0"
