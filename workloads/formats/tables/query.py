"""Rows of a workload from the texts of a table, by a mapping: values, reasons to reject, rows left out.

Called by `table.read` for each file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import polars as pl

from ray_sim.model.units import MAX_TIME_S
from workloads.checks import date_reason, instants, number_reason, reason, text_reason
from workloads.formats.tables.cells import Cell, duration_s, excel_dates, plain_number, quantity
from workloads.formats.tables.expressions import Expression, Input, Quantity, Steps
from workloads.formats.tables.files import LIST_SEPARATOR
from workloads.formats.tables.mapping import LEFT_OUT, UNITS, ColumnMapping, part_of_name
from workloads.formats.tables.times import dates_of, local_dates, with_dates
from workloads.formats.text import BLANK_WORDS, BLANKS, TableSource
from workloads.schema import Column, gang_tasks

_ALWAYS = ("job_id", "trace_order", "vc")
"""Columns that identify a row."""


def rows_of(source: TableSource, mapping: ColumnMapping, rebase: bool) -> pl.LazyFrame:
    """Our columns of one file, why a row is rejected or left out, and how its submission is written.

    Returns
    -------
    `line`, `reason` (null for a job), `left_out` (name of a condition, or null), known columns, and of
    the submission `dated`, `local`, `ambiguous`: it is a date, has no offset, is in an hour that came twice
    """
    names = mapping.names(source)
    rows = _computable(_texts(source, mapping), mapping)
    if "submit_s" in names and "submit_s" not in mapping.derived:
        dates = _dates(mapping, names["submit_s"], pl.col(_text("submit_s")))
        rows = with_dates(rows, "submit_s", dates, _zone(mapping))
    no = pl.lit(value=False)
    values: dict[str, pl.Expr] = {"dated": no, "local": no, "ambiguous": no}
    reasons: list[pl.Expr] = []
    for each in mapping.known.values():
        column = replace(each, null=None) if each.name in mapping.required else each
        found, faults = _column(mapping, _bounds(column, rebase), names.get(column.name))
        values |= found
        reasons += faults
    if "birth_s" in values:
        late = pl.col("birth_s") > pl.col("submit_s")
        reasons.append(reason(pl.when(late).then(pl.lit("late")), "birth_s"))
    if mapping.per_job or mapping.per_task:
        values.setdefault("num_tasks", pl.lit(None, dtype=pl.Int64))
    left_out: list[pl.Expr] = [
        pl.when(each.holds(_with_blanks(mapping, each.column))).then(pl.lit(each.left_out))
        for each in mapping.where
    ]
    if LEFT_OUT in source.header:
        left_out.append(_their(LEFT_OUT))
    values["left_out"] = pl.when(pl.col("fault").is_null()).then(
        pl.coalesce(*left_out, pl.lit(None, pl.String))
    )
    # Steps, or polars would compute a value again for each use.
    valued = rows.with_columns(**values).with_columns(
        pl.col(name) * pl.col("num_tasks").fill_null(1) for name in mapping.per_task
    )
    divided = [name for name in mapping.per_job if name in values]
    valued = valued.with_columns(pl.col(name) / gang_tasks() for name in divided)
    typed = [
        pl.col(name).cast(mapping.known[name].dtype, strict=False) for name in values if name in mapping.known
    ]
    reasoned = pl.when(pl.col("left_out").is_null()).then(pl.coalesce("fault", *reasons))
    return valued.select("line", "dated", "local", "ambiguous", "left_out", *typed, reason=reasoned)


def _column(
    mapping: ColumnMapping, column: Column, theirs: str | None
) -> tuple[dict[str, pl.Expr], list[pl.Expr]]:
    """Values of one of our columns, none where the file has none, and reasons to reject a row for it."""
    text, value = pl.col(_text(column.name)), pl.col(column.name)
    rule = mapping.derived.get(column.name)
    if rule is not None and rule.parsed is not None:
        return _computed(mapping, column, rule.parsed)
    if theirs is None:
        if column.name not in mapping.constants and column.name not in _ALWAYS:
            return {}, []
        return {column.name: pl.lit(mapping.constants.get(column.name), dtype=column.dtype)}, []
    if column.name == "submit_s" and rule is None:
        return _submission(mapping, column, theirs, text)
    if not column.is_number:
        return {column.name: text}, [text_reason(column, text)]
    number, faults = _number(mapping, column, theirs, text)
    if rule is not None:
        entry = rule.lookup.find([_their(by) for by in rule.lookup.by])
        faults.append(reason(pl.when(entry.is_null()).then(pl.lit("no_entry")), column.name))
        number = rule.value(number, entry)
    return {column.name: number}, [*faults, number_reason(column, text, value)]


def _texts(source: TableSource, mapping: ColumnMapping) -> pl.LazyFrame:
    """Texts of our columns, and of theirs that are computed with."""
    used = mapping.used(source)
    rows = source.rows({_their_text(name): name for name in source.header if name in used})
    parts = {_their_text(name): part_of_name(form, source) for name, form in mapping.file_name.items()}
    parts |= {_their_text(name): None for name in mapping.blank_if_missing if name not in source.header}
    rows = rows.with_columns(pl.lit(part, pl.String).alias(name) for name, part in parts.items())
    groups = {base: found for base, found in mapping.groups.items() if base in used}
    made = {name for found in groups.values() for name in found}
    rows = rows.with_columns(_cell_texts(mapping, used - made))
    for base, found in groups.items():
        rows = rows.with_columns(
            _their(base).str.extract_groups(pattern).struct.field(name).alias(_their_text(name))
            for name, pattern in found.items()
        )
        rows = rows.with_columns(_cell_texts(mapping, set(found)))
    return rows.with_columns(
        (_their(theirs) if mapping.known[name].null is None else _with_blanks(mapping, theirs)).alias(
            _text(name)
        )
        for name, theirs in mapping.names(source).items()
    )


def _cell_texts(mapping: ColumnMapping, names: Collection[str]) -> Iterator[pl.Expr]:
    """Texts of cells in which absent values are null and words replaced, of columns where there are such."""
    for name in names:
        cell, words = mapping.cell(name), mapping.null_values
        if "*" in name.split("."):
            usual = [word for word in BLANK_WORDS if word not in cell.values]
            yield _places(cell, _their(name), usual if words is None else words)
        elif words or cell.null_values or cell.values or cell.default is not None:
            yield cell.text(_their(name), words).alias(_their_text(name))


def _places(cell: Cell, joined: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """The joined texts of a list without the places that are absent; null where none is left."""
    stripped = pl.element().str.strip_chars(BLANKS)
    text = cell.text(pl.when(stripped != "").then(stripped), words)
    left = joined.str.split(LIST_SEPARATOR).list.eval(text).list.drop_nulls()
    return pl.when(left.list.len() > 0).then(left.list.join(LIST_SEPARATOR))


def _with_blanks(mapping: ColumnMapping, theirs: str) -> pl.Expr:
    """Text of a cell, null where it is a word for an absent value."""
    text = _their(theirs)
    chosen = mapping.null_values is not None or mapping.cell(theirs).null_values is not None
    return text if chosen else pl.when(~text.is_in(BLANK_WORDS)).then(text)


def _their(name: str) -> pl.Expr:
    return pl.col(_their_text(name))


def _their_text(name: str) -> str:
    return f"their {name}"


def _text(name: str) -> str:
    """Name of the helper column that holds the text of one of our columns."""
    return f"text of {name}"


def _zone(mapping: ColumnMapping) -> str:
    return mapping.time_zone or "UTC"


def _dates(mapping: ColumnMapping, theirs: str, text: pl.Expr) -> pl.Expr:
    """The dates among the cells of a column, see `times.with_dates`."""
    cell = mapping.cell(theirs)
    if cell.as_ == "excel_date":
        return local_dates(excel_dates(text, mapping.read.decimal))
    return dates_of(text, cell.time_format or mapping.time_format)


def _computable(rows: pl.LazyFrame, mapping: ColumnMapping) -> pl.LazyFrame:
    """The rows with number and kind, see `Quantity`, of each input of the mapping's expressions."""
    needed: dict[str, tuple[Input, Column]] = {}
    for ours, rule in mapping.derived.items():
        for each in () if rule.parsed is None else rule.parsed.inputs:
            needed.setdefault(_label(mapping, mapping.known[ours], each), (each, mapping.known[ours]))
    for label, (each, column) in needed.items():
        latest = None
        cell, text = mapping.cell(each.column), _with_blanks(mapping, each.column)
        dated = cell.has_dates
        kind = pl.lit(int(dated))
        if each.function:
            number, latest, kind, local = _of_list(each, mapping, column)
            named = {"first_s": number, "second_s": latest, "local": local}
            rows = rows.with_columns(expr.alias(f"{part} of {each.label}") for part, expr in named.items())
        elif dated or cell.as_ is None:
            rows = with_dates(rows, each.column, _dates(mapping, each.column, text), _zone(mapping))
            is_date = pl.col(f"naive of {each.column}").is_not_null()
            other = pl.lit(None) if dated else _cell_number(mapping, cell, text, column)
            number, latest = (
                pl.when(is_date).then(pl.col(f"{which}_s of {each.column}")).otherwise(other)
                for which in ("first", "second")
            )
            kind = is_date.cast(pl.Int32)
        else:
            number = _cell_number(mapping, cell, text, column)
        rows = rows.with_columns(
            number.alias(f"number of {label}"),
            (number if latest is None else latest).alias(f"latest of {label}"),
            pl.when(number.is_not_null()).then(kind).alias(f"kind of {label}"),
        )
    for ours, rule in mapping.derived.items():
        if rule.parsed is not None:
            rows = _with_result(rows, mapping, mapping.known[ours], rule.parsed)
    return rows


def _with_result(
    rows: pl.LazyFrame, mapping: ColumnMapping, column: Column, expression: Expression
) -> pl.LazyFrame:
    """The rows with value and kind of an expression."""
    inputs = {}
    for each in expression.inputs:
        label = _label(mapping, column, each)
        inputs[each.label] = Quantity(
            *(pl.col(f"{part} of {label}") for part in ("number", "latest", "kind"))
        )
    steps = Steps(rows, f"step of {column.name}", inputs)
    result = expression(steps)
    multiplier, divisor = mapping.scale(column)
    is_date = (result.dates == 1).fill_null(value=False)
    scaled = pl.when(is_date).then(result.value).otherwise(_quotient(result.forward * multiplier, divisor))
    return steps.rows.with_columns(
        scaled.alias(f"result of {column.name}"), result.dates.alias(f"kind of result of {column.name}")
    )


def _quotient(number: pl.Expr, divisor: int) -> pl.Expr:
    """The quotient, correctly rounded whatever the number of rows and threads.

    Polars multiplies by the reciprocal of a constant divisor, unless a thread has a single row.
    """
    return number / (number.is_null().cast(pl.Float64) * 0 + divisor) if divisor != 1 else number


def _label(mapping: ColumnMapping, column: Column, each: Input) -> str:
    """Name of an input; of one that is read in the unit of our column, with that column."""
    in_unit = mapping.cell(each.column).as_ in ("duration", "quantity", "binary_quantity")
    return f"{each.label} for {column.name}" if in_unit else each.label


def _of_list(each: Input, mapping: ColumnMapping, column: Column) -> tuple[pl.Expr, ...]:
    """The parts of a `Quantity`, null where a cell of a list cannot be read, and whether a date is local."""
    cell, element = mapping.cell(each.column), pl.element()
    cells = _their(each.column).str.split(LIST_SEPARATOR)
    size, local = cells.list.len(), pl.lit(value=False)
    if each.function == "count":
        count = size.cast(pl.Float64).fill_null(0)
        return count, count, pl.lit(0), local
    read = [_cell_number(mapping, cell, element, column)] * 2
    if cell.has_dates:
        date = _dates(mapping, each.column, element).struct
        local = cells.list.eval(date.field("local")).list.any()
        found = instants(date.field("naive"), date.field("local"), _zone(mapping))
        read = [found["first_s"], found["second_s"]]
    values = (cells.list.eval(numbers).list for numbers in read)
    joined = (
        pl.when(value.eval(pl.element().is_not_null()).list.all()).then(getattr(value, each.function)())
        for value in values
    )
    kind = pl.lit(int(cell.has_dates))
    return *joined, size * kind if each.function == "sum" else kind, local


def _cell_number(mapping: ColumnMapping, cell: Cell, text: pl.Expr, column: Column) -> pl.Expr:
    """Number in a cell that an expression uses; a duration or quantity in the unit of the computed column."""
    multiplier, divisor = mapping.scale(column)
    if cell.as_ == "duration":
        unit_s = multiplier / divisor if column.unit == "s" else 1
        number = duration_s(text, unit_s) / unit_s
    elif cell.as_ in ("quantity", "binary_quantity"):
        number = _quantity(mapping, column, text, cell)[0] * divisor / multiplier
    else:
        number = plain_number(text, decimal=mapping.read.decimal)
    return pl.when(number.is_finite()).then(number)


def _computed(
    mapping: ColumnMapping, bounds: Column, expression: Expression
) -> tuple[dict[str, pl.Expr], list[pl.Expr]]:
    """Values of a column that an expression computes, and reasons to reject a row for it."""
    result, kind = pl.col(f"result of {bounds.name}"), pl.col(f"kind of result of {bounds.name}")
    is_date = (kind == 1).fill_null(value=False)
    unread = _any(
        _with_blanks(mapping, each.column).is_not_null()
        & pl.col(f"number of {_label(mapping, bounds, each)}").is_null()
        for each in expression.inputs
    )
    no_unit = [
        fault
        for each in expression.inputs
        if mapping.cell(each.column).as_ in ("quantity", "binary_quantity")
        for fault in _quantity(mapping, bounds, _their(each.column), mapping.cell(each.column))[1]
    ]
    kinds = [0, 1] if bounds.name == "submit_s" else [0]
    fault = pl.when(unread).then(pl.lit("invalid")).when(~kind.is_in(kinds)).then(pl.lit("mixed"))
    found = pl.col(bounds.name)
    present = pl.when(found.is_not_null()).then(pl.lit("computed"))
    computed = {bounds.name: result}
    if bounds.name == "submit_s":
        dates = [
            each.label
            for each in expression.inputs
            if each.function or mapping.cell(each.column).as_ in (None, "date", "excel_date")
        ]
        twice = _any(pl.col(f"first_s of {name}") != pl.col(f"second_s of {name}") for name in dates)
        local = _any(pl.col(f"local of {name}") for name in dates)
        computed |= {"dated": is_date, "local": is_date & local, "ambiguous": is_date & twice}
    return computed, [*no_unit, reason(fault, bounds.name), number_reason(bounds, present, found)]


def _any(conditions: Iterable[pl.Expr]) -> pl.Expr:
    return pl.any_horizontal(False, *(each.fill_null(value=False) for each in conditions))


def _bounds(column: Column, rebase: bool) -> Column:
    """Range allowed in the file: before rebasing, times may be negative."""
    if column.name == "submit_s" and rebase:
        return replace(column, minimum=-MAX_TIME_S / 2, maximum=MAX_TIME_S / 2)
    return column


def _number(
    mapping: ColumnMapping, column: Column, theirs: str, text: pl.Expr
) -> tuple[pl.Expr, list[pl.Expr]]:
    """Number of a cell in our unit, and reasons to reject a row for how it is written."""
    multiplier, divisor = mapping.scale(column)
    cell = mapping.cell(theirs)
    if cell.as_ == "duration":
        return duration_s(text, multiplier / divisor), []
    if cell.as_ in ("quantity", "binary_quantity"):
        return _quantity(mapping, column, text, cell)
    plain = plain_number(text, decimal=mapping.read.decimal, truth=column.unit != "s")
    return _quotient(plain * multiplier, divisor), []


def _quantity(
    mapping: ColumnMapping, column: Column, text: pl.Expr, cell: Cell
) -> tuple[pl.Expr, list[pl.Expr]]:
    """Number of a quantity in our unit, and a reason to reject rows whose number lacks a unit."""
    multiplier, divisor = mapping.scale(column)
    base = UNITS.get(column.unit, {}).get("b", (1, 1))
    needs_unit = base != (1, 1) and column.name not in mapping.units
    bare = None if needs_unit else multiplier / divisor * base[1] / base[0]
    value = quantity(text, bare, binary=cell.as_ == "binary_quantity")
    is_bare = quantity(text, 1, binary=False).is_not_null() & value.is_null()
    no_unit = [reason(pl.when(is_bare).then(pl.lit("no_unit")), column.name)] if needs_unit else []
    return value * base[0] / base[1], no_unit


def _submission(
    mapping: ColumnMapping, bounds: Column, theirs: str, text: pl.Expr
) -> tuple[dict[str, pl.Expr], list[pl.Expr]]:
    """The submission of each row, how it is written, and why the row is rejected; see `with_dates`."""
    naive, local, first, second, outside = (
        pl.col(f"{part} of submit_s") for part in ("naive", "local", "first_s", "second_s", "outside")
    )
    cell = mapping.cell(theirs)
    dated = naive.is_not_null()
    flags = {"dated": dated, "local": dated & local, "ambiguous": first != second}
    why = date_reason(text, naive, first, outside)
    if cell.has_dates or mapping.time_format:
        return {"submit_s": first, **flags}, [why]
    seconds, _ = _number(mapping, bounds, theirs, text)
    why = pl.when(dated).then(why).otherwise(number_reason(bounds, text, seconds))
    return {"submit_s": pl.when(dated).then(first).otherwise(seconds), **flags}, [why]
