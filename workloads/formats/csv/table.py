"""Conversion of any delimited table that has the schema's column names or a mapping to them.

Times are kept as they are unless the user asks to rebase them; dates become seconds since 1970. A `.tsv`
file is split at tabs, any other at commas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S
from workloads.checks import date_reason, number, number_reason, reason, text_reason
from workloads.formats.csv.mapping import ColumnMapping, part_of_name, read_mapping
from workloads.formats.csv.times import is_iso, with_submissions
from workloads.formats.text import TextSource, collect_text, open_text, read_rows, reject_frame, with_blanks
from workloads.progress import Meter
from workloads.rows import DUPLICATE_JOB, Replaced, height, keep_best, repeats
from workloads.schema import BY_NAME, COLUMNS, SCHEMA, Column, gang_tasks
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

REQUIRED = ("submit_s", "duration_s", "num_gpus")

_ALWAYS = ("job_id", "trace_order", "vc")
"""Columns that identify a row."""

_TRUTH = {"true": "1", "false": "0"}
"""Truth values in lower case as numbers; a column of seconds has none."""

_UNIQUE = {"job_id", "trace_order"}
"""Columns of a file that have no repeats: over all rows, and within a vc."""

_MAPPING = "in a mapping file (--map)"

SHOWN = 100
"""Characters of a value that advice shows."""

_LINES = "fields are separated by commas, in a .tsv file by tabs, and as many as line 1 names"


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
    """Parse tables; without a column for them, job_id and trace_order are the row's number.

    Raises
    ------
    InvalidInputError : the mapping file is wrong
    InvalidWorkloadError : a file is missing, unreadable, or without a required column
    """
    sources = [open_text(path, delimiter_of(path)) for path in paths]
    mapping = ColumnMapping()
    if options.mapping is not None:
        mapping = read_mapping(options.mapping, sources)
    for source in sources:
        _require(source, mapping)
    query = partial(_query, mapping=mapping, rebase=options.rebase)
    named = {name for source in sources for name in mapping.names(source)}
    meter.expect(len(_UNIQUE & named) * meter.all_bytes)  # rows are compared after they are read
    rows = read_rows(sources, query, folder, meter).with_columns(
        job_id=pl.coalesce("job_id", pl.col("row").cast(pl.String)),
        trace_order=pl.coalesce("trace_order", "row"),
    )
    rows, replaced = _reject_repeats(rows, named, folder, meter)
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
        read=height(rows),
        options={"rebase": options.rebase, "mapping": mapping.model_dump(exclude_defaults=True)},
        notes={**notes, **replaced.notes(), "ignored_columns": list(ignored)},
        warnings=(
            *((f"ignored columns: {', '.join(ignored)}",) if ignored else ()),
            *forms.warnings(mapping),
            *form_warnings(rows, sources, mapping),
            *replaced.warnings(),
        ),
        advice="" if forms.jobs else advice_on(rows, sources, mapping),
    )


def delimiter_of(path: Path) -> str:
    """Character between the fields of a file, by its name."""
    return "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ","


def _require(source: TextSource, mapping: ColumnMapping) -> None:
    have = {*mapping.names(source), *mapping.constants}
    if missing := [name for name in REQUIRED if name not in have]:
        raise InvalidWorkloadError(
            f"{source.path}: required columns missing: {', '.join(missing)};"
            f" found: {', '.join(source.header)}"
            f"{source.other_separator or '; name theirs under `columns` in a mapping file (--map)'}"
        )


def _query(source: TextSource, mapping: ColumnMapping, rebase: bool) -> pl.LazyFrame:
    """Our columns of one file, why a row is rejected, and how its submission is written."""
    names = mapping.names(source)
    rows = _texts(source, mapping)
    no = pl.lit(value=False)
    values: dict[str, pl.Expr] = {"dated": no, "local": no, "ambiguous": no}
    reasons: list[pl.Expr] = []
    for column in COLUMNS:
        text, value = pl.col(_text(column.name)), pl.col(column.name)
        if column.name not in names:
            if column.name in mapping.constants or column.name in _ALWAYS:
                values[column.name] = pl.lit(mapping.constants.get(column.name), dtype=column.dtype)
        elif column.name == "submit_s" and column.name not in mapping.derived:
            rows = with_submissions(rows, text, mapping.time_format, mapping.time_zone or "UTC")
            read, why = _submission(mapping, _bounds(column, rebase), text)
            values |= read
            reasons.append(why)
        elif column.is_number:
            value_here = _number(mapping, column, text)
            if rule := mapping.derived.get(column.name):
                entry = rule.lookup.find([pl.col(_their_text(by)) for by in rule.lookup.by])
                reasons.append(reason(pl.when(entry.is_null()).then(pl.lit("no_entry")), column.name))
                value_here = rule.value(value_here, entry)
            values[column.name] = value_here
            reasons.append(number_reason(_bounds(column, rebase), text, value))
        else:
            values[column.name] = text
            reasons.append(text_reason(column, text))
    if "birth_s" in names:
        late = pl.col("birth_s") > pl.col("submit_s")
        reasons.append(reason(pl.when(late).then(pl.lit("late")), "birth_s"))
    if mapping.per_job:
        values.setdefault("num_tasks", pl.lit(None, dtype=pl.Int64))
    typed = [pl.col(name).cast(SCHEMA[name], strict=False) for name in values if name in SCHEMA]
    # Two steps, or polars would compute a value again for each use.
    valued = rows.with_columns(**values)
    if mapping.per_job:
        valued = valued.with_columns(pl.col(name) / gang_tasks() for name in mapping.per_job if name in names)
    return valued.select("line", "dated", "local", "ambiguous", *typed, reason=pl.coalesce("fault", *reasons))


def _texts(source: TextSource, mapping: ColumnMapping) -> pl.LazyFrame:
    """Texts of our columns and of the columns used in lookups."""
    used = mapping.used(source)
    rows = source.rows({_their_text(name): name for name in source.header if name in used})
    parts = {_their_text(name): part_of_name(form, source) for name, form in mapping.file_name.items()}
    rows = rows.with_columns(pl.lit(part).alias(name) for name, part in parts.items())
    return rows.with_columns(
        (pl.col if BY_NAME[name].null is None else with_blanks)(_their_text(theirs)).alias(_text(name))
        for name, theirs in mapping.names(source).items()
    )


def _their_text(name: str) -> str:
    return f"their {name}"


def _text(name: str) -> str:
    """Name of the helper column that holds the text of one of our columns."""
    return f"text of {name}"


def _bounds(column: Column, rebase: bool) -> Column:
    """Range allowed in the file: before rebasing, times may be negative."""
    if column.name == "submit_s" and rebase:
        return replace(column, minimum=-MAX_TIME_S / 2, maximum=MAX_TIME_S / 2)
    return column


def _number(mapping: ColumnMapping, column: Column, text: pl.Expr) -> pl.Expr:
    multiplier, divisor = mapping.scale(column)
    counted = text if column.unit == "s" else text.str.to_lowercase().replace(_TRUTH)
    return number(counted) * multiplier / divisor


def _submission(mapping: ColumnMapping, bounds: Column, text: pl.Expr) -> tuple[dict[str, pl.Expr], pl.Expr]:
    """The submission of each row, how it is written, and why the row is rejected; see `with_submissions`."""
    naive, first, second = pl.col("naive"), pl.col("first_s"), pl.col("second_s")
    dated = naive.is_not_null()
    flags = {"dated": dated, "local": dated & pl.col("local"), "ambiguous": first != second}
    why = date_reason(text, naive, first, pl.col("outside"))
    if mapping.time_format is not None:
        return {"submit_s": first, **flags}, why
    seconds = _number(mapping, bounds, text)
    why = pl.when(dated).then(why).otherwise(number_reason(bounds, text, seconds))
    return {"submit_s": pl.when(dated).then(first).otherwise(seconds), **flags}, why


def _reject_repeats(
    rows: pl.LazyFrame, named: Collection[str], folder: Path, meter: Meter
) -> tuple[pl.LazyFrame, Replaced]:
    """Reject all but the best record of each job, and rows whose order in their vc an earlier row has.

    A job whose best record has the order of another's keeps its best one with an order of its own.
    """
    while True:
        kept, replaced = rows, Replaced()
        if "job_id" in named:
            kept, replaced = keep_best(rows, folder, meter.step(meter.all_bytes, "comparing job_id"))
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


def _submission_forms(jobs: pl.LazyFrame, sources: Sequence[TextSource]) -> _SubmissionForms:
    counts = [pl.col(name).sum() for name in ("dated", "local", "ambiguous")]
    facts = jobs.select(pl.len().alias("jobs"), *counts, first_s=pl.col("submit_s").min().fill_null(0))
    forms = facts.collect(engine="streaming").row(0, named=True)
    place = ""
    if 0 < forms["local"] < forms["dated"]:
        lines = jobs.filter("local").select("source", "line").sort("source", "line").head(1)
        source, line = lines.collect(engine="streaming").row(0)
        place = f"{sources[source].path.name}, line {line}"
    return _SubmissionForms(**forms, first_local=place)


def _ignored(sources: Sequence[TextSource], mapping: ColumnMapping) -> tuple[str, ...]:
    """Columns of the files that are not read, in file order."""
    unused: dict[str, None] = {}
    for source in sources:
        used = mapping.used(source)
        unused |= dict.fromkeys(name for name in source.header if name not in used)
    return tuple(unused)


def advice_on(rows: pl.LazyFrame, sources: Sequence[TextSource], mapping: ColumnMapping) -> str:
    """Describe the first row with the most common reject reason, and how to correct it.

    Parameters
    ----------
    rows : `source`, `line` and `reason` of rows that are all rejected
    """
    found = _by_reason(rows).sort("len", "reason", descending=[True, False]).head(1)
    if found.is_empty():
        return ""
    return _described(found["reason"].item(), found["first"].item(), sources, mapping)


def form_warnings(rows: pl.LazyFrame, sources: Sequence[TextSource], mapping: ColumnMapping) -> Iterator[str]:
    """Describe the first row that is rejected for each column of texts of a form, and how to correct it.

    Parameters
    ----------
    rows : `source`, `line` and `reason` of all rows, null for those that are kept
    """
    named = {name for source in sources for name in mapping.names(source)}
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
    reason: str, place: Mapping[str, int], sources: Sequence[TextSource], mapping: ColumnMapping
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


FORMAT = TraceFormat(
    name="csv",
    version="3",
    source="any",
    files="one table with a header, or its parts; --map where its columns have other names",
    page="docs/workloads.md#format-csv",
    read=read,
    options=frozenset({"mapping", "rebase"}),
)
