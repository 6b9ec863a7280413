"""Checks of values, shared by the converters and the store, and of whole workload frames.

A fault is one word for the defect of a value, null for a sound value: `missing`, `invalid` (not a
number, NaN, infinite, or not whole where it must be), `negative` or `too_small` (below the column's
minimum), `absurd` (above its maximum). A reject reason is the fault, an underscore and the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, partial

import polars as pl

from ray_sim.model.errors import InvalidWorkloadError, problems_text
from ray_sim.model.units import US_PER_S
from workloads.rows import repeated
from workloads.schema import BY_NAME, COLUMNS, SCHEMA, Column, TextForm

EPOCH_RANGE_S = 2**32
"""Instants given as a date must lie in 1970 .. 2106 in UTC; others are broken."""

LAST_ZONED = datetime(2100, 1, 1)
"""End of the readable dates of a zone: polars knows no summer time from then on."""

_MOST_OFFSET = timedelta(days=1)
"""Larger than the UTC offset of any zone."""


_MOST_SHOWN = 200
"""Characters of a text that an error message shows."""


class RowError(Exception):
    """A row is rejected; the message is the reason."""


def number(text: pl.Expr) -> pl.Expr:
    """Stripped text as Float64, null where it is none; ``nan`` and ``inf`` are read as such."""
    return text.cast(pl.Float64, strict=False)


def value_fault(column: Column, value: pl.Expr) -> pl.Expr:
    """Fault of a number of ``column``; null where the number is null or sound."""
    assert column.minimum is not None
    assert column.maximum is not None
    too_low = "negative" if column.minimum == 0 else "too_small"
    wrong = ~value.is_finite()
    if column.is_whole:
        wrong = wrong | (value != value.round())
    return (
        pl.when(wrong)
        .then(pl.lit("invalid"))
        .when(value < column.minimum)
        .then(pl.lit(too_low))
        .when(value > column.maximum)
        .then(pl.lit("absurd"))
    )


def number_reason(column: Column, text: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Reject reason of a ``value`` read from stripped ``text``; null if it is sound."""
    fault = (
        pl.when(text.is_null())
        .then(pl.lit("missing" if column.null is None else None, dtype=pl.String()))
        .when(value.is_null())
        .then(pl.lit("invalid"))
        .otherwise(value_fault(column, value))
    )
    return reason(fault, column.name)


def text_reason(column: Column, text: pl.Expr) -> pl.Expr:
    """Reject reason of a stripped ``text`` in a column of strings; null if it is sound."""
    missing = text.is_null() & pl.lit(column.null is None)
    fault = pl.when(missing).then(pl.lit("missing")).otherwise(text_fault(column, text))
    return reason(fault, column.name)


def text_fault(column: Column, text: pl.Expr) -> pl.Expr:
    """Fault of a text of ``column``; null where the text is null or sound."""
    wrong = pl.lit(value=False)
    if column.choices:
        wrong = ~text.is_in(column.choices)
    elif column.form is not None:
        check = partial(_of_no_form, column.form)
        wrong = text.map_batches(check, return_dtype=pl.Boolean(), is_elementwise=True)
    return pl.when(wrong).then(pl.lit("invalid"))


def _of_no_form(form: TextForm, texts: pl.Series) -> pl.Series:
    """Whether each text lacks the form; each distinct text is parsed once."""
    return texts.is_in(form.wrong(texts.drop_nulls().unique()))


def reason(fault: pl.Expr, column: str) -> pl.Expr:
    """A fault of a column as a reject reason, e.g. ``negative_duration_s``."""
    return fault + f"_{column}"


def instants(naive: pl.Expr, local: pl.Expr, zone: str) -> dict[str, pl.Expr]:
    """The instants of dates, and which dates are outside the range.

    Parameters
    ----------
    naive : dates as written where they are local, in UTC where they are not; null where there is none
    local : whether a date is one of the zone

    Returns
    -------
    `first_s` and `second_s`, seconds since 1970 in UTC: two where the hour came twice, null where the
    clocks skipped it or the date is outside; `outside`, whether the instant is not in `EPOCH_RANGE_S`, or
    the date is one of a zone from `LAST_ZONED` on
    """
    begin = datetime(1970, 1, 1)
    end = begin + timedelta(seconds=EPOCH_RANGE_S)
    # Dates that are years away overflow a zone's arithmetic.
    near = pl.when(naive.is_between(begin - _MOST_OFFSET, end + _MOST_OFFSET)).then(naive)
    zoned = near if zone == "UTC" else pl.when(near < LAST_ZONED).then(near)
    first, second = (
        pl.when(local)
        .then(_utc_from_local(zoned, zone, ambiguous))
        .otherwise(near.dt.replace_time_zone("UTC"))
        .dt.replace_time_zone(None)
        for ambiguous in ("earliest", "latest")
    )
    inside = first.is_between(begin, end)
    out_of_reach = naive.is_not_null() & pl.when(local).then(zoned).otherwise(near).is_null()
    return {
        "first_s": epoch_seconds(pl.when(inside).then(first)),
        "second_s": epoch_seconds(pl.when(inside).then(second)),
        "outside": out_of_reach | ~inside.fill_null(value=True),
    }


def _utc_from_local(naive: pl.Expr, zone: str, ambiguous: str) -> pl.Expr:
    """Naive local times of a zone as UTC; null where the clocks skip them.

    Where the clocks go back an hour happens twice: ``ambiguous`` takes its first pass
    (``earliest``) or its second (``latest``).
    """
    local = naive.dt.replace_time_zone(zone, ambiguous=pl.lit(ambiguous), non_existent="null")
    return local.dt.convert_time_zone("UTC")


def epoch_seconds(instant: pl.Expr) -> pl.Expr:
    """Seconds since 1970 in UTC, the nearest number to the microseconds."""
    time_us = instant.dt.epoch("us")
    # A division by a constant is a product with its inverse, which is one digit off for every third number.
    return time_us // US_PER_S + time_us % US_PER_S / US_PER_S


def date_reason(text: pl.Expr, naive: pl.Expr, first_s: pl.Expr, outside: pl.Expr) -> pl.Expr:
    """Reject reason of a submission given as a date, ``naive`` parsed from stripped ``text``; null if sound.

    Parameters
    ----------
    first_s, outside : see `instants`
    """
    fault = (
        pl.when(text.is_null())
        .then(pl.lit("missing"))
        .when(naive.is_null())
        .then(pl.lit("invalid"))
        .when(outside)
        .then(pl.lit("absurd"))
        .when(first_s.is_null())
        .then(pl.lit("skipped"))
    )
    return reason(fault, "submit_s")


def check_frame(frame: pl.DataFrame, source: str) -> None:
    """Raise unless the frame is a workload: exact schema, sound numbers, unique names and order.

    Columns that may hold a null may be absent.

    Raises
    ------
    InvalidWorkloadError : names ``source`` and, for each column at fault, the first row (from 0) and value
    """
    _check(frame, source, [_value_problems, _birth_problems, _uniqueness_problems])


def check_values(frame: pl.DataFrame, source: str) -> None:
    """Raise unless each row by itself is sound; see `check_frame`, which also compares rows."""
    _check(frame, source, [_value_problems, _birth_problems])


def refuse_absurd(frame: pl.DataFrame, names: Iterable[str], advice: str) -> None:
    """Raise InvalidWorkloadError where a derived number exceeds the maximum of its column."""
    for name in names:
        most = BY_NAME[name].maximum
        beyond = frame.filter(pl.col(name) > most)
        if beyond.height:
            raise InvalidWorkloadError(
                f"{name}: job {beyond['job_id'][0]} would have {beyond[name][0]:.3g}, at most {most:.3g} are "
                f"possible ({beyond.height} such jobs); {advice}"
            )


def _check(
    frame: pl.DataFrame, source: str, looks: Sequence[Callable[[pl.DataFrame], Iterable[str]]]
) -> None:
    if problems := _schema_problems(frame):
        advice = "  if it was edited elsewhere, read it by `ray-sim convert parquet`"
        raise InvalidWorkloadError("\n".join([problems_text(source, problems), advice]))
    if frame.is_empty():
        raise InvalidWorkloadError(f"{source}: the workload holds no jobs; convert a trace that has some")
    if problems := [problem for look in looks for problem in look(frame)]:
        advice = "  rows count from 0; correct them, or convert the trace again"
        raise InvalidWorkloadError("\n".join([problems_text(source, problems), advice]))


def _schema_problems(frame: pl.DataFrame) -> list[str]:
    found = dict(frame.schema)
    missing = [
        f"{column.name}: column missing, expected {column.dtype}"
        for column in COLUMNS
        if column.name not in found and column.null is None
    ]
    wrong = [
        f"{name}: expected {SCHEMA[name]}, found {dtype}"
        for name, dtype in found.items()
        if name in SCHEMA and dtype != SCHEMA[name]
    ]
    unknown = [f"{name}: not a column of a workload; drop it" for name in found if name not in SCHEMA]
    return [*missing, *wrong, *unknown]


def _value_problems(frame: pl.DataFrame) -> Iterable[str]:
    """One line per column with a null or a number that it must not hold."""
    columns = [column for column in COLUMNS if column.name in frame.columns]
    faults = frame.select(_frame_fault(column).alias(column.name) for column in columns)
    for column in columns:
        at = faults[column.name].is_not_null()
        if not at.any():
            continue
        row = at.arg_max()
        assert row is not None
        others = f" ({at.sum()} such rows)" if at.sum() > 1 else ""
        value = frame[row, column.name]
        yield (
            f"{column.name}: row {row} is {_clipped(value)}: {faults[row, column.name]},"
            f" expected {_expectation(column)}{_detail(column, value)}{others}"
        )


def _clipped(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _detail(column: Column, value: object) -> str:
    """What exactly is wrong with a text that must have a form."""
    if column.form is None or not isinstance(value, str):
        return ""
    return f"; {column.form.fault(value)}"


def _birth_problems(frame: pl.DataFrame) -> Iterable[str]:
    """A line where a job is announced after it arrives."""
    if "birth_s" not in frame.columns:
        return
    late = (frame["birth_s"] > frame["submit_s"]).fill_null(value=False)
    row = late.arg_max()
    if row is None or not late[row]:
        return
    others = f" ({late.sum()} such rows)" if late.sum() > 1 else ""
    yield (
        f"birth_s: row {row} is {frame[row, 'birth_s']}, after its submit_s {frame[row, 'submit_s']}: a job "
        f"is announced before it arrives; correct one of the two, or leave birth_s empty{others}"
    )


@cache
def _frame_fault(column: Column) -> pl.Expr:
    value = pl.col(column.name)
    fault = value_fault(column, value) if column.is_number else text_fault(column, value)
    if column.null is None:
        fault = pl.when(value.is_null()).then(pl.lit("missing")).otherwise(fault)
    return fault


def _expectation(column: Column) -> str:
    if not column.is_number:
        return column.wanted_text
    kind = "a whole number" if column.is_whole else "a number"
    return (
        f"{kind} in {column.minimum:.16g} .. {column.maximum:.16g}{f' {column.unit}' if column.unit else ''}"
    )


def _uniqueness_problems(frame: pl.DataFrame) -> Iterable[str]:
    for keys, what in ((["job_id"], "unique"), (["vc", "trace_order"], "unique within a vc")):
        again = repeated(frame, [key for key in keys if key in frame.columns])
        if again.any():
            row = again.arg_max()
            assert row is not None
            value = frame[row, keys[-1]]
            yield f"{keys[-1]}: row {row} repeats {value}, must be {what} ({again.sum()} repeated rows)"
