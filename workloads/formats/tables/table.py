"""Conversion of any table of jobs that has the schema's column names or a mapping to them.

Times are kept as they are unless the user asks to rebase them; dates become seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.checks import date_reason, number_reason, reason, text_reason
from workloads.formats.tables.cells import Cell, duration_s, excel_dates, plain_number, quantity
from workloads.formats.tables.expressions import Expression, Input, Quantity
from workloads.formats.tables.files import LIST_SEPARATOR, JoinedSource, Reading, open_table
from workloads.formats.tables.mapping import (
    UNITS,
    ColumnMapping,
    Join,
    parse_mapping,
    part_of_name,
    require_fit,
)
from workloads.formats.tables.times import dates_of, is_iso, local_dates, with_dates
from workloads.formats.text import BLANK_WORDS, TableSource, collect_text, read_rows, reject_frame
from workloads.progress import Meter
from workloads.rows import DUPLICATE_JOB, DuplicateRule, Replaced, keep_best, repeats
from workloads.schema import BY_NAME, COLUMNS, SCHEMA, Column, gang_tasks
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

REQUIRED = ("submit_s", "duration_s", "num_gpus")

_ALWAYS = ("job_id", "trace_order", "vc")
"""Columns that identify a row."""

_UNIQUE = {"job_id", "trace_order"}
"""Columns of a file that have no repeats: over all rows, and within a vc."""

_MAPPING = "in a mapping file (--map)"

SHOWN = 100
"""Characters of a value that advice shows."""

_LINES = "fields are separated as the header's are, and as many as it names"


def read(
    paths: Sequence[Path],
    options: ConvertOptions,
    folder: Path,
    meter: Meter,
    *,
    preset: Path | None = None,
    opened: Sequence[TableSource] | None = None,
    first: int | None = None,
) -> Parsed:
    """Parse tables; without a column for them, job_id and trace_order are the row's number.

    Parameters
    ----------
    preset : mapping file in place of an option's
    opened : the tables of the paths, where they are no files
    first : read this many records of each table; None for all

    Raises
    ------
    InvalidInputError : the mapping file is wrong
    InvalidWorkloadError : a file is missing, unreadable, or without a required column
    """
    mapping, sources = _opened(paths, options, folder, preset, opened)
    if first is not None:
        sources = [source.head(first) for source in sources]
    for source in sources:
        _require(source, mapping)
    query = partial(_query, mapping=mapping, rebase=options.rebase)
    named = {name for source in sources for name in mapping.named(source)}
    meter.expect(len(_UNIQUE & named) * meter.all_bytes)  # rows are compared after they are read
    every = read_rows(sources, query, folder, meter).with_columns(
        job_id=pl.coalesce("job_id", pl.col("row").cast(pl.String)),
        trace_order=pl.coalesce("trace_order", "row"),
    )
    left_out = every.group_by("left_out").agg(pl.len()).sort("left_out").collect(engine="streaming")
    rows = every.filter(pl.col("left_out").is_null())
    rows, replaced = _reject_repeats(rows, named, folder, meter, mapping.duplicates)
    jobs = rows.filter(pl.col("reason").is_null())
    forms = _submission_forms(jobs, sources)
    notes = forms.notes(mapping)
    if options.rebase:
        held = jobs.collect_schema().names()
        jobs = jobs.with_columns(
            pl.col(name) - forms.first_s for name in ("submit_s", "birth_s") if name in held
        )
        notes |= forms.rebase_notes()
    ignored = _ignored(sources, mapping)
    return Parsed(
        jobs=jobs,
        rejects=reject_frame(sources, rows).lazy(),
        read=sum(left_out["len"]),
        left_out={name: count for name, count in left_out.iter_rows() if name is not None},
        options={
            "rebase": options.rebase,
            "mapping": mapping.model_dump(exclude_defaults=True, exclude={"about"}, by_alias=True),
        },
        notes={**notes, **replaced.notes(), "ignored_columns": list(ignored)},
        warnings=(
            *((f"ignored columns: {', '.join(ignored)}",) if ignored and preset is None else ()),
            *forms.warnings(mapping),
            *form_warnings(rows, sources, mapping),
            *replaced.warnings(),
        ),
        advice="" if forms.jobs else advice_on(rows, sources, mapping),
    )


def _opened(
    paths: Sequence[Path],
    options: ConvertOptions,
    folder: Path,
    preset: Path | None,
    opened: Sequence[TableSource] | None,
) -> tuple[ColumnMapping, list[TableSource]]:
    """The mapping, and the tables that it fits."""
    file = options.mapping or preset
    mapping, problems = (ColumnMapping(), []) if file is None else parse_mapping(file)
    if options.time_zone is not None:
        mapping = mapping.model_copy(update={"time_zone": options.time_zone})
    sources = list(opened or (open_table(path, _reading(path, mapping), folder) for path in paths))
    if mapping.join is not None:
        sources = _joined(sources, mapping.join)
    mapping = mapping.fitted(sources)
    if file is not None or options.time_zone is not None:
        require_fit(mapping, problems, file or Path("--time-zone"), sources)
    return mapping, sources


def _reading(path: Path, mapping: ColumnMapping) -> Reading:
    """How one of the files is read."""
    if mapping.join is None or not fnmatch(path.name, mapping.join.file):
        return mapping.read
    return mapping.read.model_copy(update={"header": mapping.join.header})


def _joined(sources: Sequence[TableSource], join: Join) -> list[TableSource]:
    """The tables without the second one, each with its columns."""
    second = [source for source in sources if fnmatch(source.path.name, join.file)]
    first = [source for source in sources if source not in second]
    if len(second) != 1 or not first:
        names = ", ".join(source.path.name for source in sources)
        raise InvalidInputError(
            f"join.file '{join.file}' fits {len(second)} of the files {names}; name one such table, and the "
            "table of jobs"
        )
    second[0].require(list(join.on.values()))
    for source in first:
        source.require(list(join.on))
    return [JoinedSource.of(source, second[0], join.name, join.on) for source in first]


def _require(source: TableSource, mapping: ColumnMapping) -> None:
    have = {*mapping.named(source), *mapping.constants}
    if missing := [name for name in REQUIRED if name not in have]:
        raise InvalidWorkloadError(
            f"{source.path}: required columns missing: {', '.join(missing)};"
            f" found: {', '.join(source.header)}"
            f"{source.other_separator or '; name theirs under `columns` in a mapping file (--map)'}"
        )


def _query(source: TableSource, mapping: ColumnMapping, rebase: bool) -> pl.LazyFrame:
    """Our columns of one file, why a row is rejected or left out, and how its submission is written."""
    names = mapping.names(source)
    rows = _computable(_texts(source, mapping), mapping)
    no = pl.lit(value=False)
    values: dict[str, pl.Expr] = {"dated": no, "local": no, "ambiguous": no}
    reasons: list[pl.Expr] = []
    for column in COLUMNS:
        text, value = pl.col(_text(column.name)), pl.col(column.name)
        rule = mapping.derived.get(column.name)
        if rule is not None and rule.parsed is not None:
            computed, why = _computed(mapping, _bounds(column, rebase), rule.parsed)
            values |= computed
            reasons += why
        elif column.name not in names:
            if column.name in mapping.constants or column.name in _ALWAYS:
                values[column.name] = pl.lit(mapping.constants.get(column.name), dtype=column.dtype)
        elif column.name == "submit_s" and rule is None:
            rows = with_dates(rows, "submit_s", _dates(mapping, names["submit_s"], text), _zone(mapping))
            read, why_not = _submission(mapping, _bounds(column, rebase), names["submit_s"], text)
            values |= read
            reasons.append(why_not)
        elif column.is_number:
            value_here, faults = _number(mapping, column, names[column.name], text)
            reasons += faults
            if rule is not None:
                entry = rule.lookup.find([pl.col(_their_text(by)) for by in rule.lookup.by])
                reasons.append(reason(pl.when(entry.is_null()).then(pl.lit("no_entry")), column.name))
                value_here = rule.value(value_here, entry)
            values[column.name] = value_here
            reasons.append(number_reason(_bounds(column, rebase), text, value))
        else:
            values[column.name] = text
            reasons.append(text_reason(column, text))
    if "birth_s" in values:
        late = pl.col("birth_s") > pl.col("submit_s")
        reasons.append(reason(pl.when(late).then(pl.lit("late")), "birth_s"))
    if mapping.per_job or mapping.per_task:
        values.setdefault("num_tasks", pl.lit(None, dtype=pl.Int64))
    typed = [pl.col(name).cast(SCHEMA[name], strict=False) for name in values if name in SCHEMA]
    conditions = [
        pl.when(each.holds(_with_blanks(mapping, each.column))).then(pl.lit(each.left_out))
        for each in mapping.where
    ]
    left_out = pl.when(pl.col("fault").is_null()).then(pl.coalesce(*conditions, pl.lit(None, pl.String)))
    # Steps, or polars would compute a value again for each use.
    valued = rows.with_columns(**values, left_out=left_out)
    if mapping.per_task:
        tasks = pl.col("num_tasks").fill_null(1)
        valued = valued.with_columns(pl.col(name) * tasks for name in mapping.per_task)
    if mapping.per_job:
        present = [name for name in mapping.per_job if name in values]
        valued = valued.with_columns(pl.col(name) / gang_tasks() for name in present)
    reasoned = pl.when(pl.col("left_out").is_null()).then(pl.coalesce("fault", *reasons))
    return valued.select("line", "dated", "local", "ambiguous", "left_out", *typed, reason=reasoned)


def _texts(source: TableSource, mapping: ColumnMapping) -> pl.LazyFrame:
    """Texts of our columns, and of theirs that are computed with."""
    used = mapping.used(source)
    rows = source.rows({_their_text(name): name for name in source.header if name in used})
    parts = {_their_text(name): part_of_name(form, source) for name, form in mapping.file_name.items()}
    rows = rows.with_columns(pl.lit(part).alias(name) for name, part in parts.items())
    groups = {base: found for base, found in mapping.groups.items() if base in used}
    rows = rows.with_columns(
        _cell_texts(mapping, used - {name for found in groups.values() for name in found})
    )
    for base, found in groups.items():
        rows = rows.with_columns(
            _their(base).str.extract_groups(pattern).struct.field(name).alias(_their_text(name))
            for name, pattern in found.items()
        )
        rows = rows.with_columns(_cell_texts(mapping, set(found)))
    return rows.with_columns(
        (_their(theirs) if BY_NAME[name].null is None else _with_blanks(mapping, theirs)).alias(_text(name))
        for name, theirs in mapping.names(source).items()
    )


def _cell_texts(mapping: ColumnMapping, names: Collection[str]) -> Iterator[pl.Expr]:
    """Texts of cells in which absent values are null and words replaced, of columns where there are such."""
    for name in names:
        cell, words = mapping.cell(name), mapping.null_values
        if words or cell.null_values or cell.values or cell.default is not None:
            yield cell.text(_their(name), words).alias(_their_text(name))


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
    parsed = (rule.parsed for rule in mapping.derived.values() if rule.parsed is not None)
    for each in sorted({found for expression in parsed for found in expression.inputs}):
        latest = None
        cell, text = mapping.cell(each.column), _with_blanks(mapping, each.column)
        dated = cell.as_ in ("date", "excel_date")
        kind = pl.lit(int(dated))
        if each.function:
            number = _of_list(each, mapping)
            kind = pl.lit(0) if each.function == "count" else kind
        elif dated or cell.as_ is None:
            rows = with_dates(rows, each.column, _dates(mapping, each.column, text), _zone(mapping))
            is_date = pl.col(f"naive of {each.column}").is_not_null()
            other = pl.lit(None) if dated else _cell_number(mapping, cell, text)
            number, latest = (
                pl.when(is_date).then(pl.col(f"{which}_s of {each.column}")).otherwise(other)
                for which in ("first", "second")
            )
            kind = pl.when(number.is_not_null()).then(is_date.cast(pl.Int32))
        else:
            number = _cell_number(mapping, cell, text)
        rows = rows.with_columns(
            number.alias(f"number of {each.label}"),
            (number if latest is None else latest).alias(f"latest of {each.label}"),
            kind.alias(f"kind of {each.label}"),
        )
    return rows


def _of_list(each: Input, mapping: ColumnMapping) -> pl.Expr:
    """A function of the cells of a list; null where one of them cannot be read."""
    cell, element = mapping.cell(each.column), pl.element()
    if cell.as_ in ("date", "excel_date"):
        instants = _dates(mapping, each.column, element).struct.field("naive")
        numbers = instants.dt.epoch("us") / US_PER_S
    else:
        numbers = _cell_number(mapping, cell, element)
    cells = _their(each.column).str.split(LIST_SEPARATOR)
    if each.function == "count":
        return cells.list.len().cast(pl.Float64)
    read = cells.list.eval(numbers)
    known = read.list.eval(pl.element().is_not_null()).list.all()
    value: pl.Expr = getattr(read.list, each.function)()
    return pl.when(known).then(value)


def _cell_number(mapping: ColumnMapping, cell: Cell, text: pl.Expr) -> pl.Expr:
    """Number in a cell that an expression uses."""
    if cell.as_ == "duration":
        return duration_s(text, 1)
    if cell.as_ in ("quantity", "binary_quantity"):
        return quantity(text, 1, binary=cell.as_ == "binary_quantity")
    return plain_number(text, decimal=mapping.read.decimal)


def _computed(
    mapping: ColumnMapping, bounds: Column, expression: Expression
) -> tuple[dict[str, pl.Expr], list[pl.Expr]]:
    """Values of a column that an expression computes, and reasons to reject a row for it."""
    labels = [each.label for each in expression.inputs]
    values = {
        name: Quantity(*(pl.col(f"{part} of {name}") for part in ("number", "latest", "kind")))
        for name in labels
    }
    result = expression(values)
    multiplier, divisor = mapping.scale(bounds)
    is_date = (result.dates == 1).fill_null(value=False)
    scaled = pl.when(is_date).then(result.value).otherwise(result.forward * multiplier / divisor)
    unread = _any(
        _with_blanks(mapping, each.column).is_not_null() & pl.col(f"number of {each.label}").is_null()
        for each in expression.inputs
    )
    kinds = [0, 1] if bounds.name == "submit_s" else [0]
    fault = pl.when(unread).then(pl.lit("invalid")).when(~result.dates.is_in(kinds)).then(pl.lit("mixed"))
    found = pl.col(bounds.name)
    present = pl.when(found.is_not_null()).then(pl.lit("computed"))
    computed = {bounds.name: scaled}
    if bounds.name == "submit_s":
        dates = [name for name in labels if mapping.cell(name).as_ in (None, "date", "excel_date")]
        twice = _any(
            pl.col(f"first_s of {name}") != pl.col(f"second_s of {name}") for name in dates if "(" not in name
        )
        local = _any(pl.col(f"local of {name}") for name in dates if "(" not in name)
        computed |= {"dated": is_date, "local": is_date & local, "ambiguous": is_date & twice}
    return computed, [reason(fault, bounds.name), number_reason(bounds, present, found)]


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
    form = mapping.cell(theirs).as_
    if form == "duration":
        return duration_s(text, multiplier / divisor), []
    if form in ("quantity", "binary_quantity"):
        base = UNITS.get(column.unit, {}).get("b", (1, 1))
        needs_unit = base != (1, 1) and column.name not in mapping.units
        value = quantity(
            text,
            None if needs_unit else multiplier / divisor * base[1] / base[0],
            binary=form == "binary_quantity",
        )
        bare = plain_number(text).is_not_null()
        no_unit = [reason(pl.when(bare).then(pl.lit("no_unit")), column.name)] if needs_unit else []
        return value * base[0] / base[1], no_unit
    plain = plain_number(text, decimal=mapping.read.decimal, truth=column.unit != "s")
    return plain * multiplier / divisor, []


def _submission(
    mapping: ColumnMapping, bounds: Column, theirs: str, text: pl.Expr
) -> tuple[dict[str, pl.Expr], pl.Expr]:
    """The submission of each row, how it is written, and why the row is rejected; see `with_dates`."""
    naive, local, first, second, outside = (
        pl.col(f"{part} of submit_s") for part in ("naive", "local", "first_s", "second_s", "outside")
    )
    cell = mapping.cell(theirs)
    dated = naive.is_not_null()
    flags = {"dated": dated, "local": dated & local, "ambiguous": first != second}
    why = date_reason(text, naive, first, outside)
    if cell.as_ in ("date", "excel_date") or cell.time_format or mapping.time_format:
        return {"submit_s": first, **flags}, why
    seconds, _ = _number(mapping, bounds, theirs, text)
    why = pl.when(dated).then(why).otherwise(number_reason(bounds, text, seconds))
    return {"submit_s": pl.when(dated).then(first).otherwise(seconds), **flags}, why


def _reject_repeats(
    rows: pl.LazyFrame, named: Collection[str], folder: Path, meter: Meter, rule: DuplicateRule
) -> tuple[pl.LazyFrame, Replaced]:
    """Reject all but the best record of each job, and rows whose order in their vc an earlier row has.

    A job whose best record has the order of another's keeps its best one with an order of its own.
    """
    while True:
        kept, replaced = rows, Replaced()
        if "job_id" in named:
            kept, replaced = keep_best(rows, folder, meter.step(meter.all_bytes, "comparing job_id"), rule)
        if "trace_order" not in named:
            return kept, replaced
        sound = kept.filter(pl.col("reason").is_null())
        again = repeats(
            sound, ["vc", "trace_order"], folder, meter.step(meter.all_bytes, "comparing trace_order")
        )
        if again.is_empty():
            return kept, replaced
        repeated = pl.col("row").is_in(again.implode())
        why = pl.coalesce("reason", pl.when(repeated).then(pl.lit("duplicate_trace_order")))
        others = kept.filter(pl.col("reason") == DUPLICATE_JOB).select("job_id").unique()
        lost = kept.filter(repeated).join(others, on="job_id", how="semi").select("row").collect()["row"]
        if lost.is_empty():
            return kept.with_columns(reason=why), replaced
        rows = rows.with_columns(
            reason=pl.coalesce(
                "reason", pl.when(pl.col("row").is_in(lost.implode())).then(pl.lit("duplicate_trace_order"))
            )
        )


@dataclass(frozen=True, slots=True)
class _SubmissionForms:
    """Counts of the forms in which the kept jobs' submissions are written."""

    jobs: int
    dated: int
    """Jobs whose submission is a date; the others have numbers."""
    local: int
    """Jobs whose submission is a date without a UTC offset."""
    ambiguous: int
    """Jobs submitted in an hour that the clocks showed twice."""
    first_s: float
    """Earliest submission; 0 without jobs."""
    first_local: str
    """File and line of the first date without an offset where others have one; empty elsewhere."""

    def notes(self, mapping: ColumnMapping) -> dict[str, JsonValue]:
        if not self.dated:
            return {}
        return {
            "epoch_utc": datetime.fromtimestamp(0, UTC).isoformat(),
            "time_zone": mapping.time_zone or "UTC",
            "ambiguous_local_times": self.ambiguous,
            "ambiguous_local_times_read_as": "earliest",
        }

    def rebase_notes(self) -> dict[str, JsonValue]:
        if not self.dated:
            return {"rebased_by_s": self.first_s}
        zero = datetime.fromtimestamp(self.first_s, UTC).isoformat()
        return {"rebased_by_s": self.first_s, "epoch_utc": zero}

    def warnings(self, mapping: ColumnMapping) -> Iterator[str]:
        if 0 < self.dated < self.jobs:
            yield (
                f"submit_s: {self.dated:,} rows have dates and {self.jobs - self.dated:,} have numbers, which"
                " are taken as seconds since 1970 in UTC"
            )
        if mapping.time_zone is None and self.first_local:
            yield (
                f"submit_s: {self.local:,} of {self.dated:,} dates have no offset from UTC, first in"
                f" {self.first_local}; they are taken as UTC. If they are local times, give their zone as"
                " time_zone in a mapping file (--map)"
            )
        if mapping.time_zone is not None and self.jobs and not self.local:
            yield f"time_zone {mapping.time_zone}: not used, as no kept row has a date without an offset"


def _submission_forms(jobs: pl.LazyFrame, sources: Sequence[TableSource]) -> _SubmissionForms:
    counts = [pl.col(name).sum() for name in ("dated", "local", "ambiguous")]
    facts = jobs.select(pl.len().alias("jobs"), *counts, first_s=pl.col("submit_s").min().fill_null(0))
    forms = facts.collect(engine="streaming").row(0, named=True)
    place = ""
    if 0 < forms["local"] < forms["dated"]:
        lines = jobs.filter("local").select("source", "line").sort("source", "line").head(1)
        source, line = lines.collect(engine="streaming").row(0)
        place = f"{sources[source].path.name}, line {line}"
    return _SubmissionForms(**forms, first_local=place)


def _ignored(sources: Sequence[TableSource], mapping: ColumnMapping) -> tuple[str, ...]:
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
    theirs = mapping.names(source).get(column)
    if theirs not in source.header:
        return _LINES
    only = source.rows({"value": theirs}).filter(pl.col("line") == place["line"])
    value = collect_text(source.path, only)["value"].item()
    name = column if theirs == column else f"{column} (column '{theirs}')"
    shown = "blank" if value is None else repr(value[:SHOWN])
    where = f"line {place['line']} of {source.path.name}"
    return f"{name} is {shown} in {where}: {_mend(reason, column, value, mapping)}"


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


OPTIONS = frozenset({"mapping", "rebase", "time_zone"})

FORMAT = TraceFormat(
    name="csv",
    version="3",
    source="any",
    files="a table (CSV, JSON, Parquet), or its parts; --map where its columns have other names",
    page="docs/workloads.md#format-csv",
    read=read,
    options=OPTIONS,
)
