"""Any delimited table, with the schema's column names or a mapping to them.

Times are kept as they are unless the user asks to rebase them. A `.tsv` file is split at tabs,
any other at commas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S
from workloads.checks import (
    date_reason,
    epoch_seconds,
    number,
    number_reason,
    plausible,
    reason,
    text_reason,
    utc_from_local,
)
from workloads.derived import part_of_name
from workloads.mapping import Mapping, check_mapping, load_mapping
from workloads.rows import height, repeats
from workloads.schema import COLUMNS, SCHEMA, Column
from workloads.text import TextSource, open_text, read_rows, reject_frame
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

REQUIRED = ("submit_s", "duration_s", "num_gpus")

_ALWAYS = ("job_id", "trace_order", "vc")
"""Columns by which rows are told apart."""


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path) -> Parsed:
    """Parse tables; without a column for them, job_id and trace_order are the row's number.

    Raises
    ------
    InvalidInputError : the mapping file is wrong
    InvalidWorkloadError : a file is missing, unreadable, or without a required column
    """
    sources = [
        open_text(path, "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ",") for path in paths
    ]
    mapping = Mapping()
    if options.mapping is not None:
        mapping = load_mapping(options.mapping)
        check_mapping(mapping, options.mapping, sources)
    for source in sources:
        _require(source, mapping)
    query = partial(_query, mapping=mapping, rebase=options.rebase)
    rows = read_rows(sources, query, folder).with_columns(
        job_id=pl.coalesce("job_id", pl.col("row").cast(pl.String)),
        trace_order=pl.coalesce("trace_order", "row"),
    )
    named = {name for source in sources for name in mapping.names(source)}
    if "job_id" in named:
        rows = _reject_repeats(rows, ["job_id"], "duplicate_job_id")
    if "trace_order" in named:
        rows = _reject_repeats(rows, ["vc", "trace_order"], "duplicate_trace_order")
    jobs = rows.filter(pl.col("reason").is_null())
    notes = _notes(mapping, jobs)
    if options.rebase:
        origin_s = jobs.select(pl.col("submit_s").min().fill_null(0)).collect(engine="streaming").item()
        jobs = jobs.with_columns(pl.col("submit_s") - origin_s)
        notes |= _rebase_notes(mapping, origin_s)
    ignored = _ignored(sources, mapping)
    return Parsed(
        jobs=jobs,
        rejects=reject_frame(sources, rows).lazy(),
        read=height(rows),
        options={"rebase": options.rebase, "mapping": mapping.model_dump(exclude_defaults=True)},
        notes={**notes, "ignored_columns": list(ignored)},
        warnings=(f"ignored columns: {', '.join(ignored)}",) if ignored else (),
    )


def _require(source: TextSource, mapping: Mapping) -> None:
    have = {*mapping.names(source), *mapping.constants}
    if missing := [name for name in REQUIRED if name not in have]:
        raise InvalidWorkloadError(
            f"{source.path}: required columns missing: {', '.join(missing)};"
            f" found: {', '.join(source.header)}; name theirs under `columns` in a mapping file (--map)"
        )


def _query(source: TextSource, mapping: Mapping, rebase: bool) -> pl.LazyFrame:
    """Our columns of one file, why a row is rejected, and whether its hour came twice."""
    names = mapping.names(source)
    rows = _texts(source, mapping)
    values: dict[str, pl.Expr] = {"ambiguous": pl.lit(False)}
    reasons: list[pl.Expr] = []
    for column in COLUMNS:
        text, value = pl.col(_text(column.name)), pl.col(column.name)
        if column.name not in names:
            if column.name in mapping.constants or column.name in _ALWAYS:
                values[column.name] = pl.lit(mapping.constants.get(column.name), dtype=column.dtype)
        elif column.name == "submit_s" and mapping.time_format is not None:
            rows = rows.with_columns(naive=_naive(mapping, text))
            values |= _date(mapping)
            reasons.append(date_reason(text, pl.col("naive"), value))
        elif column.is_number:
            multiplier, divisor = mapping.scale(column)
            value_here = number(text) * multiplier / divisor
            if rule := mapping.derived.get(column.name):
                entry = rule.lookup.find([pl.col(_their_text(by)) for by in rule.lookup.by])
                reasons.append(reason(pl.when(entry.is_null()).then(pl.lit("no_entry")), column.name))
                value_here = rule.value(value_here, entry)
            values[column.name] = value_here
            reasons.append(number_reason(_bounds(column, rebase), text, value))
        else:
            values[column.name] = text
            reasons.append(text_reason(column, text))
    typed = [pl.col(name).cast(SCHEMA[name], strict=False) for name in values if name in SCHEMA]
    # In two steps, so that no value is computed once per use.
    valued = rows.with_columns(**values)
    return valued.select("line", "ambiguous", *typed, reason=pl.coalesce("fault", *reasons))


def _texts(source: TextSource, mapping: Mapping) -> pl.LazyFrame:
    """The texts that our columns are read from, and those that are looked up in a table."""
    used = mapping.used(source)
    rows = source.rows({_their_text(name): name for name in source.header if name in used})
    parts = {_their_text(name): part_of_name(form, source) for name, form in mapping.file_name.items()}
    rows = rows.with_columns(pl.lit(part).alias(name) for name, part in parts.items())
    ours = {_text(name): pl.col(_their_text(theirs)) for name, theirs in mapping.names(source).items()}
    return rows.with_columns(**ours)


def _their_text(name: str) -> str:
    return f"their {name}"


def _text(name: str) -> str:
    """Where the text of one of our columns is while its value is looked at."""
    return f"text of {name}"


def _bounds(column: Column, rebase: bool) -> Column:
    """What the file may hold: before rebasing, times may lie on either side of its zero."""
    if column.name == "submit_s" and rebase:
        return replace(column, minimum=-MAX_TIME_S / 2, maximum=MAX_TIME_S / 2)
    return column


def _naive(mapping: Mapping, text: pl.Expr) -> pl.Expr:
    """Dates as they are written; in UTC where they carry their offset."""
    assert mapping.time_format is not None
    parsed = text.str.to_datetime(mapping.time_format, time_unit="us", strict=False)
    return parsed.dt.replace_time_zone(None) if mapping.has_offset else parsed


def _date(mapping: Mapping) -> dict[str, pl.Expr]:
    naive = plausible(pl.col("naive"))
    zone = mapping.time_zone or "UTC"
    first, second = (epoch_seconds(utc_from_local(naive, zone, which)) for which in ("earliest", "latest"))
    return {"submit_s": first, "ambiguous": first != second}


def _reject_repeats(rows: pl.LazyFrame, keys: list[str], why: str) -> pl.LazyFrame:
    """Rows sound so far whose keys an earlier sound row has get the reason ``why``."""
    again = repeats(rows.filter(pl.col("reason").is_null()), keys)
    if again.is_empty():
        return rows
    return rows.with_columns(
        reason=pl.when(pl.col("row").is_in(again.implode())).then(pl.lit(why)).otherwise("reason")
    )


def _notes(mapping: Mapping, jobs: pl.LazyFrame) -> dict[str, JsonValue]:
    if mapping.time_format is None:
        return {}
    return {
        "epoch_utc": datetime.fromtimestamp(0, UTC).isoformat(),
        "time_zone": mapping.time_zone or "UTC",
        "ambiguous_local_times": height(jobs.filter("ambiguous")),
        "ambiguous_local_times_read_as": "earliest",
    }


def _rebase_notes(mapping: Mapping, origin_s: float) -> dict[str, JsonValue]:
    if mapping.time_format is None:
        return {"rebased_by_s": origin_s}
    return {"rebased_by_s": origin_s, "epoch_utc": datetime.fromtimestamp(origin_s, UTC).isoformat()}


def _ignored(sources: Sequence[TextSource], mapping: Mapping) -> tuple[str, ...]:
    """Columns of the files that no column of ours is read from, in file order."""
    unused = (name for source in sources for name in source.header if name not in mapping.used(source))
    return tuple(dict.fromkeys(unused))


FORMAT = TraceFormat(name="csv", version="1", read=read, options=frozenset({"mapping", "rebase"}))
