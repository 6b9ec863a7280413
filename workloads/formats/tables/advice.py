"""What to tell a user of a table: columns that are not read, rejected rows and how to correct them.

Called by `table.read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from workloads.formats.tables.files import LIST_SEPARATOR
from workloads.formats.tables.mapping import ColumnMapping
from workloads.formats.tables.times import is_iso
from workloads.formats.text import TableSource, collect_text
from workloads.schema import BY_NAME

_MAPPING = "in a mapping file (--map)"

SHOWN = 100
"""Characters of a value that advice shows."""

_LINES = "fields are separated as the header's are, and as many as it names"


def ignored_columns(sources: Sequence[TableSource], mapping: ColumnMapping) -> tuple[str, ...]:
    """Columns of the files that are not read, in file order."""
    unused: dict[str, None] = {}
    for source in sources:
        used = {*mapping.used(source), *source.keys}
        unused |= dict.fromkeys(name for name in source.header if name not in used)
    return tuple(unused)


def advice_on(rows: pl.LazyFrame, sources: Sequence[TableSource], mapping: ColumnMapping) -> str:
    """Describe the first row with the most common reject reason, and how to correct it.

    Parameters
    ----------
    rows : `source`, `line` and `reason` of rows that are all rejected
    """
    found = _by_reason(rows).sort("len", "reason", descending=[True, False]).head(1)
    if found.is_empty():
        return ""
    return _described(found["reason"].item(), found["first"].item(), sources, mapping)


def form_warnings(
    rows: pl.LazyFrame, sources: Sequence[TableSource], mapping: ColumnMapping
) -> Iterator[str]:
    """Describe the first row that is rejected for each column of texts of a form, and how to correct it.

    Parameters
    ----------
    rows : `source`, `line` and `reason` of all rows, null for those that are kept
    """
    named = {name for source in sources for name in mapping.named(source)}
    reasons = [f"invalid_{name}" for name in BY_NAME if name in named and BY_NAME[name].form is not None]
    if not reasons:
        return
    found = _by_reason(rows.filter(pl.col("reason").is_in(reasons))).sort("reason")
    for why, count, place in found.iter_rows():
        many = "1 row" if count == 1 else f"{count:,} rows"
        yield f"{why}: {many} rejected; {_described(why, place, sources, mapping)}"


def _by_reason(rows: pl.LazyFrame) -> pl.DataFrame:
    """Columns `reason`, `len` (rows) and `first`, the source and line of the first such row."""
    first = pl.struct("source", "line").first().alias("first")
    return rows.group_by("reason").agg(pl.len(), first).collect(engine="streaming")


def _described(
    reason: str, place: Mapping[str, int], sources: Sequence[TableSource], mapping: ColumnMapping
) -> str:
    """Say what the row at a source and line has, and how to correct it."""
    column = max((name for name in BY_NAME if reason.endswith(f"_{name}")), key=len, default="")
    source = sources[place["source"]]
    where = f"line {place['line']} of {source.path.name}"
    rule = mapping.derived.get(column)
    if rule is not None and rule.parsed is not None:
        needed = {f"of {each.column}": each.column for each in rule.parsed.inputs}
        needed = {name: theirs for name, theirs in needed.items() if theirs in source.header}
        only = source.rows(needed).filter(pl.col("line") == place["line"])
        cells = collect_text(source.path, only).row(0, named=True)
        shown = ", ".join(f"{theirs} {_shown(cells[name])}" for name, theirs in needed.items())
        return f"{column} is {rule.expression}, with {shown} in {where}: {_mend_computed(reason)}"
    theirs = mapping.names(source).get(column)
    if theirs not in source.header:
        return _LINES
    only = source.rows({"value": theirs}).filter(pl.col("line") == place["line"])
    value = collect_text(source.path, only)["value"].item()
    name = column if theirs == column else f"{column} (column '{theirs}')"
    return f"{name} is {_shown(value)} in {where}: {_mend(reason, column, value, mapping)}"


def _shown(cell: str | None) -> str:
    return "blank" if cell is None else repr(cell.replace(LIST_SEPARATOR, ", ")[:SHOWN])


def _mend_computed(reason: str) -> str:
    ways = {
        "mixed": "dates and numbers do not mix so; say by `as` which are dates, under `cells`",
        "missing": "give a value for blank cells by first(a, b), or by `default` under `cells`",
    }
    how = "correct the expression, or say how cells are read under `cells`"
    return f"{ways.get(reason.partition('_')[0], how)}, {_MAPPING}"


def _mend(reason: str, column: str, value: str | None, mapping: ColumnMapping) -> str:
    fault = reason.removesuffix(f"_{column}")
    if value is None:
        return f"give one value for all rows under `constants`, or another column under `columns`, {_MAPPING}"
    if fault == "invalid" and column == "submit_s":
        return _mend_date(value, mapping)
    form = BY_NAME[column].form if column in BY_NAME else None
    if fault == "invalid" and form is not None:
        return f"{form.fault(value) or 'correct it'}; wanted: {form.wanted}"
    if fault == "invalid":
        return (
            "a number has a point and no unit; if the column is another, name it under `columns` " + _MAPPING
        )
    if fault == "negative" and column == "submit_s":
        return "count from the first submission with --rebase"
    if fault == "absurd" and (unit := BY_NAME[column].unit):
        return (
            f"the most is {BY_NAME[column].maximum:.0f} {unit}; say the file's unit under `units` {_MAPPING}"
        )
    if fault == "no_entry":
        return f"the table of derived.{column} has no entry for this row; add it"
    return "correct the values, or name another column under `columns` " + _MAPPING


def _mend_date(value: str, mapping: ColumnMapping) -> str:
    if mapping.time_format is None:
        return f"neither a number nor an ISO 8601 date; say how dates are written as `time_format` {_MAPPING}"
    if is_iso(value):
        return "this is an ISO 8601 date, which is understood without `time_format`; leave that out"
    return f"not of the time_format '{mapping.time_format}'; correct that (a fraction of a second is %.f)"
