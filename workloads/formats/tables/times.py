"""Parse dates of a table: ISO 8601, or a given form.

A form is a pattern of dates in the codes of chrono's ``strftime``, which polars uses. Called by the reader of
tables; the same text must give the same instant, or the version of its converter changes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import polars as pl

from workloads.checks import instants

_ISO = (
    "^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9]{2}:[0-9]{2})(?::([0-5][0-9])(?:[.,]([0-9]{1,9}))?)? "
    "?([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?)?$"
)
"""Date, hours and minutes, seconds, fraction, and offset from UTC: the extended form of ISO 8601."""

_ISO_BEGIN = "^[0-9]{4}-"
"""Quick test: a batch without such a text has no ISO 8601 date."""

_WITH_OFFSET = ("%z", "%:z", "%#z", "%+")
_INSTANT = (*_WITH_OFFSET, "%s")
"""Codes that need no time zone."""

_CODES = "write a date and a time with codes such as %Y-%m-%d %H:%M:%S%.f"

_ZONE_NAME = "(?:[A-Za-z]+[/_-])*[A-Za-z]+"

_ZONE_CODE = re.compile("(?<!%)((?:%%)*)%Z")
"""%Z, and the percent signs before it that stand for themselves."""

_PROBE = datetime(2001, 2, 3, 16, 5, 6, 789_123, tzinfo=UTC)
"""Date that a form must be able to write and to read."""


def is_instant(form: str) -> bool:
    """Whether dates of the form carry their offset from UTC, or count from 1970 in UTC."""
    return any(code in form for code in _INSTANT)


def is_iso(text: str) -> bool:
    """Whether a text is an ISO 8601 date that is understood without a form."""
    return iso_dates(pl.Series([text])).struct.field("naive").item() is not None


def form_problem(form: str, zone: str | None) -> str | None:
    """Reason why a form of dates cannot be used, or None.

    The form is tried on the text that it makes of `_PROBE`.
    """
    if "%f" in form:
        return (
            "%f is a count of nanoseconds, so .9 would be read as 0.000000009 s; write %.f for a point and a"
            " fraction, as in %S%.f, or %3f and %6f for 3 and 6 digits behind a point of your own"
        )
    zone_names = len(_ZONE_CODE.findall(form))
    if zone_names and zone is None:
        return "%Z skips the name of a zone; give the zone as time_zone, or offsets as %z"
    if zone_names > 1:
        return "%Z is there more than once; a date has one zone"
    try:
        text = pl.Series([_PROBE]).dt.to_string(form.replace("%#z", "%z"))  # %#z is for reading only
        found = text.to_frame("text").select(**_of_form(pl.col("text"), form))["naive"].item()
    except pl.exceptions.PolarsError as error:
        return f"'{form}' is no form of dates ({str(error).splitlines()[0].rstrip('.')}); {_CODES}"
    if found is None or found.year != _PROBE.year:
        return (
            f"'{form}' writes {_PROBE:%Y-%m-%d} as {text.item()!r}, and reads no date out of that; {_CODES}"
        )
    return None


def with_dates(rows: pl.LazyFrame, name: str, naive: pl.Expr, zone: str) -> pl.LazyFrame:
    """The rows and the instants of dates, in two steps, or polars would compute the dates again for each use.

    Parameters
    ----------
    naive : a `_DATE` per row, such as `dates_of` makes
    zone : of dates without an offset from UTC

    Returns
    -------
    the rows and, with `` of NAME`` behind each, `naive` (the date as written, in UTC if it has an offset;
    null where there is none), `local` (whether it has no offset), and what `checks.instants` returns
    """
    dates = rows.with_columns(naive.alias(_DATES))
    fields = {part: pl.col(_DATES).struct.field(part) for part in ("naive", "local")}
    read = dates.with_columns(expr.alias(f"{part} of {name}") for part, expr in fields.items()).drop(_DATES)
    found = instants(pl.col(f"naive of {name}"), pl.col(f"local of {name}"), zone)
    return read.with_columns(expr.alias(f"{part} of {name}") for part, expr in found.items())


def dates_of(text: pl.Expr, form: str | None) -> pl.Expr:
    """`_DATE` of each stripped text.

    Parameters
    ----------
    form : of all dates; None where they are ISO 8601
    """
    if form is None:
        return text.map_batches(iso_dates, return_dtype=_DATE, is_elementwise=True)
    return pl.struct(read.alias(name) for name, read in _of_form(text, form).items())


def local_dates(naive: pl.Expr) -> pl.Expr:
    """`_DATE` of dates without an offset from UTC."""
    return pl.struct(naive=naive, local=pl.lit(value=True))


def _of_form(text: pl.Expr, form: str) -> dict[str, pl.Expr]:
    """`naive` and `local` of texts by a form, as in `with_dates`."""
    if zone_code := _ZONE_CODE.search(form):
        text = _without_zone_name(text, form[zone_code.end() :])
        form = _ZONE_CODE.sub(r"\1", form)
    parsed = text.str.to_datetime(form, time_unit="us", strict=False)
    has_offset = any(code in form for code in _WITH_OFFSET)
    naive = parsed.dt.replace_time_zone(None) if has_offset else parsed
    return {"naive": naive, "local": pl.lit(not is_instant(form))}


def _without_zone_name(text: pl.Expr, rest: str) -> pl.Expr:
    """The texts without the name of a zone; null for a text without one.

    chrono's %Z takes everything up to the next blank, including a fraction of a second or an offset from UTC.

    Parameters
    ----------
    rest : part of the form after %Z
    """
    words = len(pl.Series([_PROBE]).dt.to_string(rest).item().split())
    parts = text.str.extract_groups(rf"^(.*?){_ZONE_NAME}((?:\s+\S+){{{words}}})$")
    return pl.concat_str(parts.struct.field("1"), parts.struct.field("2"))


_DATES = "dates"
"""Helper column of `with_dates`."""

_DATE = pl.Struct({"naive": pl.Datetime("us"), "local": pl.Boolean()})
"""Type of a date as written, and whether it has no offset from UTC."""


def iso_dates(texts: pl.Series) -> pl.Series:
    """`naive` and `local` of each text; most batches hold numbers only and take the fast path."""
    if not texts.str.contains(_ISO_BEGIN).any():
        return pl.Series([None], dtype=_DATE).new_from_index(0, len(texts))
    return texts.to_frame("text").select(**_iso(pl.col("text"))).to_struct()


def _iso(text: pl.Expr) -> dict[str, pl.Expr]:
    """`naive` and `local` of ISO 8601 texts, as in `with_dates`."""
    date, minute, second, fraction, offset = (
        text.str.extract_groups(_ISO).struct.field(str(group)) for group in range(1, 6)
    )
    canonical = pl.concat_str(
        date,
        pl.lit("T"),
        minute.fill_null("00:00"),
        pl.lit(":") + second.fill_null("00"),
        pl.lit(".") + fraction.fill_null("0"),
    )
    digits = offset.str.replace(":", "", literal=True)
    hours, minutes = (digits.str.slice(at, 2).cast(pl.Int64, strict=False).fill_null(0) for at in (1, 3))
    sign = pl.when(digits.str.starts_with("-")).then(-1).otherwise(1)
    ahead = pl.duration(minutes=sign * (60 * hours + minutes))
    naive = canonical.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
    return {
        "naive": pl.when(offset.is_null()).then(naive).otherwise(naive - ahead),
        "local": offset.is_null(),
    }


def is_time_zone(name: str) -> bool:
    """Whether polars knows a time zone of this name."""
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(name)
    except pl.exceptions.PolarsError:
        return False
    return True
