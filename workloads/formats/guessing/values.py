"""How the values of a column read: instants, lengths of time, amounts. Called by the guess of a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl
from pydantic import JsonValue

from workloads.checks import EPOCH_RANGE_S
from workloads.formats.tables.cells import duration_s, excel_dates, plain_number, quantity
from workloads.formats.tables.mapping import UNITS
from workloads.formats.tables.times import dates_of
from workloads.formats.text import BLANK_WORDS

SECONDS = {unit: multiplier / divisor for unit, (multiplier, divisor) in UNITS["s"].items()}

_EARLIEST_S = 300_000_000
"""Numbers from here (1979) to `EPOCH_RANGE_S` are taken as seconds since 1970, or as ms or us."""

_EXCEL = (20_000, 60_000)
"""Excel's numbers of days of 1954 to 2064."""

_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Forms of dates as numbers, by their digits."""

_FORMS_FROM = 50
"""Texts from which forms of dates are made."""

_LARGE = 128
"""More GPUs or cores than this may be in another unit."""

_ABSENT = re.compile(
    r"(?i)-+|\.|\?|none|null|nil|n\.?a\.?|missing|undefined|invalid|un(set|limited|known)|not_set|\((null|none)\)"
)
"""Words for an absent value, besides `BLANK_WORDS`."""


class Read(NamedTuple):
    """Values of a column under one reading."""

    values: pl.Series
    """Float64: seconds of times (since 1970 of dates), amounts in our unit; null where there is none."""
    said: str
    """What they are."""
    unit: str | None = None
    """One of `UNITS`; None where there is none to name."""
    cell: dict[str, JsonValue] = {}  # noqa: RUF012  # never changed
    """Entry of the section `cells`."""
    doubts: tuple[str, ...] = ()
    dated: str = ""
    """Of instants: `date`, `local` (a date without an offset from UTC), `epoch`; empty of others."""


_TEXT = pl.col("text")


def _of(texts: pl.Series, expression: pl.Expr) -> pl.Series:
    """An expression of `_TEXT` for each text."""
    return texts.to_frame("text").select(expression).to_series()


def numbers(texts: pl.Series, decimal: str) -> pl.Series:
    """Plain numbers of texts; null for others."""
    read = _of(texts, plain_number(_TEXT, decimal=decimal, truth=False))
    return read.set(~read.is_finite().fill_null(value=True), None)


def share(read: pl.Series, texts: pl.Series) -> float:
    """Part of the texts that are read."""
    return int((read.is_not_null() & texts.is_not_null()).sum()) / max(texts.count(), 1)


def absent_words(raw: pl.Series, number: pl.Series) -> list[str]:
    """Words of a column that stand for an absent value; empty where those of every column are enough.

    Parameters
    ----------
    number : the numbers of the column, of which -1 stands for none where it is the only negative one
    """
    texts = set(raw.drop_nulls())
    words = {text for text in texts if _ABSENT.fullmatch(text)} - {*BLANK_WORDS}
    negative = set(raw.filter(number < 0))
    words |= negative if negative <= {"-1", "-1.0"} else set()
    return sorted(words | (texts & {*BLANK_WORDS})) if words else []


def instants(texts: pl.Series, unit: str | None, decimal: str) -> Read:
    """Values as instants: dates of any form, or numbers."""
    number, iso = numbers(texts, decimal), _dates(texts, None)
    if share(number, texts) > share(iso.values, texts):
        return _numeric_instants(texts, number, unit, decimal)
    seen = texts.unique(maintain_order=True).drop_nulls().head(_FORMS_FROM)
    forms = dict.fromkeys(form for text in seen for form in _forms(text))
    best, *others = sorted(
        (iso, *(_dates(texts, form) for form in forms)), key=lambda each: -share(each.values, texts)
    )
    for other in others[:1]:
        if share(other.values, texts) == share(best.values, texts) > 0 and best is not iso:
            text = f"day and month may be exchanged, no row decides it: {best.said}, or {other.said}?"
            return best._replace(doubts=(text,))
    return best


def _dates(texts: pl.Series, form: str | None) -> Read:
    found = _of(texts, dates_of(_TEXT, form).alias("date")).struct.unnest()
    seconds = found["naive"].dt.epoch("us") / 1_000_000
    sound = seconds.set(~seconds.is_between(0, EPOCH_RANGE_S).fill_null(value=True), None)
    utc = form is not None and form.endswith(("UTC", "GMT", "Z"))
    local = not utc and found["local"].filter(sound.is_not_null()).any()
    cell: dict[str, JsonValue] = {} if form is None else {"as": "date", "time_format": form}
    return Read(sound, f"dates of {form or 'ISO 8601'}", None, cell, dated="local" if local else "date")


def _numeric_instants(texts: pl.Series, number: pl.Series, unit: str | None, decimal: str) -> Read:
    for digits, form in _DIGITS.items():
        if texts.drop_nulls().str.contains(f"^(19|20)[0-9]{{{digits - 2}}}$").all():
            read = _dates(texts, form)
            if share(read.values, texts) == 1:
                return read
    known = number.filter(number > 0)
    least, most = (float(known.quantile(at) or 0) for at in (0.01, 0.99))
    for name in ("s", "ms", "us"):
        if _EARLIEST_S <= least * SECONDS[name] <= most * SECONDS[name] <= EPOCH_RANGE_S:
            other = (f"the name says {unit}, the values are {name} since 1970",)
            doubts = () if unit in (None, name) else other
            return Read(number * SECONDS[name], f"{name} since 1970", name, {}, doubts, "epoch")
    named = unit or "s"
    if _EXCEL[0] <= least <= most <= _EXCEL[1]:
        days = _of(texts, excel_dates(_TEXT, decimal)).dt.epoch("us") / 1_000_000
        doubts = (f"day numbers of Excel, or {named}? {least:,.10g} to {most:,.10g}",)
        return Read(days, "day numbers of Excel", None, {"as": "excel_date"}, doubts, "local")
    return Read(number * SECONDS[named], f"numbers in {named}", named, {}, _unsaid(unit, "s"))


def _unsaid(unit: str | None, taken: str) -> tuple[str, ...]:
    return () if unit else (f"neither the name nor the values say the unit; taken as {taken}",)


_DATE = {
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}": ["%Y{0}%m{0}%d"],
    r"\d{1,2}([-/.])\d{1,2}\1\d{4}": ["%d{0}%m{0}%Y", "%m{0}%d{0}%Y"],
    r"\d{1,2}([-/.])\d{1,2}\1\d{2}": ["%d{0}%m{0}%y", "%m{0}%d{0}%y"],
    r"\d{1,2}([-/ ])[A-Za-z]{3,9}\1\d{4}": ["%d{0}%B{0}%Y"],
    r"[A-Za-z]{3,9} +\d{1,2}(,?) \d{4}": ["%B %d{0} %Y"],
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2}( )\d\d:\d\d:\d\d \d{4}": ["%a %b %e %H:%M:%S %Y"],
}
"""Forms of the dates that match a pattern, with its separator."""

_CLOCK = re.compile(
    r"(?:(?P<day>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*)(?P<comma>,?) (?=\d))?(?P<date>.+?)"
    r"(?:(?P<gap>[T:]|,? +)\d{1,2}:\d\d(?P<s>:\d\d(?P<fraction>[.,]\d+)?)?(?P<half> ?[AaPp][Mm])?"
    r"(?:(?P<blank> ?)[+-]\d\d:?\d\d|(?P<utc>Z| UTC| GMT))?)?"
)


def _forms(text: str) -> Iterator[str]:
    """Forms that a date in a text may have, in codes of chrono's strftime."""
    parts = _CLOCK.fullmatch(text)
    for pattern, forms in _DATE.items() if parts else ():
        if parts is not None and (date := re.fullmatch(pattern, parts["date"])):
            day = "" if parts["day"] is None else f"%A{parts['comma']} "
            yield from (day + form.format(date[1]) + _clock_form(parts) for form in forms)


def _clock_form(parts: re.Match[str]) -> str:
    """Form of the part of a text behind its date."""
    if parts["gap"] is None:
        return ""
    fraction = parts["fraction"] or ""
    fine = f",%{len(fraction) - 1}f" if fraction.startswith(",") else "%.f"
    second = f":%S{fine}" if parts["s"] else ""
    hour, half = ("%I", f"{parts['half'][:-2]}%p") if parts["half"] else ("%H", "")
    zone = parts["utc"] or "" if parts["blank"] is None else f"{parts['blank']}%z"
    return f"{parts['gap']}{hour}:%M{second}{half}{zone}"


def lengths(texts: pl.Series, unit: str | None, decimal: str) -> Read:
    """Values as lengths of time: numbers, clocks such as 01:02:03, or texts such as 1h30m."""
    number, named = numbers(texts, decimal), unit or "s"
    read = _of(texts, duration_s(_TEXT, SECONDS[named]))
    by = f"in {named}{' by the name' if unit else ''}"
    if share(number, texts) >= share(read, texts):
        return Read(number * SECONDS[named], f"numbers {by}", named, {}, _unsaid(unit, "s"))
    bare = texts.str.contains("^[0-9.,]+$").any()
    doubts = _unsaid(unit, "s") if bare else ()
    if texts.str.contains("^[0-9]+:[0-9]+$").any():
        doubts += ("clocks of two parts are read as minutes and seconds",)
    return Read(read, "lengths of time", named if bare else None, {"as": "duration"}, doubts)


def amounts(texts: pl.Series, unit: str | None, decimal: str, *, dimension: str) -> Read:
    """Values as amounts of a resource in the unit ``dimension`` of our column, empty for a count."""
    number = numbers(texts, decimal)
    suffixed = _of(texts, quantity(_TEXT, 1, binary=False))
    if dimension and share(number, texts) < share(suffixed, texts):
        bare = dimension == "GiB" and number.is_not_null().any()
        without = ("values without a unit are rejected; say it under units",) if bare and not unit else ()
        return Read(suffixed, "amounts with suffixes", unit if bare else None, {"as": "quantity"}, without)
    known = number.filter(number > 0)
    named, doubts = (unit, ()) if unit or not dimension else _unit_by_values(known.to_list(), dimension)
    multiplier, divisor = UNITS[dimension][named] if named else (1, 1)
    return Read(
        number * multiplier / divisor, f"numbers in {named}" if named else "counts", named, {}, doubts
    )


def _unit_by_values(known: Sequence[float], dimension: str) -> tuple[str, tuple[str, ...]]:
    """Unit of amounts whose name has none, and the doubts."""
    most = max(known, default=0)
    if dimension == "GiB":
        named = "b" if most > 2**26 else "mib" if most >= 2**9 else "gib"
        return named, _unsaid(None, f"{named}, as the most is {most:,.10g}")
    if known and all(each % 25 == 0 for each in known):
        return "percent", ("all are multiples of 25; taken as percent: 100 is one",)
    return dimension.lower(), (f"up to {most:,.10g}; taken as whole ones",) if most > _LARGE else ()
