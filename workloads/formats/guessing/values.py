"""How the values of a column read: as instants, or as amounts of time, memory, ... Called by `columns`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import polars as pl
from pydantic import JsonValue

from workloads.checks import EPOCH_RANGE_S
from workloads.formats.guessing.names import Said
from workloads.formats.tables.cells import duration_s, excel_dates, plain_number, quantity
from workloads.formats.tables.mapping import UNITS
from workloads.formats.tables.times import dates_of
from workloads.formats.text import BLANK_WORDS
from workloads.sanity import EXCEL_DAYS

SECONDS = {unit: multiplier / divisor for unit, (multiplier, divisor) in UNITS["s"].items()}

_EARLIEST_S = 300_000_000
"""Numbers from here (1979) to `EPOCH_RANGE_S` are taken as seconds since 1970, or as ms or us."""

_FORMS_FROM = 50
"""Texts from which forms of dates are made."""

_LARGE = 128
"""More GPUs or cores than this may be in another unit."""

_ABSENT = re.compile(
    r"(?i)-+|\.|\?|none|null|nil|n\.?a\.?|missing|undefined|invalid|un(set|limited|known)|not_set|\((null|none)\)"
)
"""Words for an absent value, besides `BLANK_WORDS`."""

_CODES = (
    (r"^(?:19|20)\d{6}$", "%Y%m%d"),
    (r"^(?:19|20)\d{10}$", "%Y%m%d%H%M"),
    (r"^(?:19|20)\d{12}$", "%Y%m%d%H%M%S"),
    (r"(:.*?)[+-]\d\d:?\d\d$", r"\1%z"),
    (r"\d{1,2}:\d\d:\d\d,\d{3}\b", "%H:%M:%S,%3f"),
    (r"\d{1,2}:\d\d:\d\d,\d{6}\b", "%H:%M:%S,%6f"),
    (r"\d{1,2}:\d\d:\d\d(?:\.\d+)?", "%H:%M:%S%.f"),
    (r"\d{1,2}:\d\d\b", "%H:%M"),
    (r"%H(.*)[AaPp][Mm]\b", r"%I\1%p"),
    (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*", "%A"),
    (r"[A-Z][a-z]{2,8}", "%B"),
    (r"\d{4}", "%Y"),
    (r"(?<![%\d])\d{1,2}(?!\d)", "#"),
    (r" +", " "),
)
"""Parts of a date, replaced in turn, and their codes of strftime; # is a day, a month or a short year."""

_ORDERS = {"%Y%d": [""], "%Y##": ["md"], "##%Y": ["dm", "md"], "###": ["dmy", "mdy"]}
_ORDERS |= {"#%B%Y": ["d"], "%B#%Y": ["d"], "%Y%B#": ["d"], "#%B#": ["dy"]}
"""What each # may be, by the codes of a date."""


class Read(NamedTuple):
    """A column under one reading; the name is that of its texts."""

    texts: pl.Series
    """Null where it is a word for an absent value."""
    values: pl.Series
    """Float64, null where there is none: seconds of times (since 1970 of dates), or amounts."""
    said: str
    """What they are."""
    unit: str | None = None
    """One of `UNITS`; None where there is none to name."""
    cell: Mapping[str, JsonValue] = MappingProxyType({})
    """Entry of the section `cells`."""
    doubts: tuple[str, ...] = ()
    dated: str = ""
    """Of instants: `date`, `local` (a date without an offset from UTC), `epoch`; empty of others."""
    name_says: Said = Said("")

    @property
    def share(self) -> float:
        """Part of the texts that are read."""
        return self.values.count() / max(self.texts.count(), 1)


def _of(texts: pl.Series, expression: pl.Expr) -> pl.Series:
    """An expression of the column `text`."""
    return texts.to_frame("text").select(expression).to_series()


def where(rows: pl.Series, values: pl.Series | float = 1.0) -> pl.Series:
    """The values in some rows, null in others."""
    return pl.select(pl.when(rows).then(values)).to_series()


def numbers(texts: pl.Series, decimal: str) -> pl.Series:
    """Plain finite numbers of texts; null for others."""
    read = _of(texts, plain_number(pl.col("text"), decimal=decimal, truth=False))
    return where(read.is_finite(), read)


def absent_words(raw: pl.Series, decimal: str, *, dated: bool) -> list[str]:
    """Words of a column that stand for an absent value; empty where `BLANK_WORDS` are enough.

    Among them are -1 as the only negative number, and of instants 0 among seconds since 1970.
    """
    texts, number = {*raw.drop_nulls()}, numbers(raw, decimal)
    words = {text for text in texts if _ABSENT.fullmatch(text)} - {*BLANK_WORDS}
    negative = {*raw.filter(number < 0)}
    words |= negative if negative <= {"-1", "-1.0"} else set()
    if dated and (number >= _EARLIEST_S).any():
        words |= {*raw.filter(number == 0)}
    return sorted(words | (texts & {*BLANK_WORDS})) if words else []


def instants(texts: pl.Series, unit: str | None, decimal: str) -> Read:
    """Values as instants: dates of any form, or numbers."""
    seen = texts.unique(maintain_order=True).drop_nulls().head(_FORMS_FROM)
    forms = dict.fromkeys(form for text in seen for form in _forms(text))
    best, *others = sorted((_dates(texts, form) for form in (None, *forms)), key=lambda each: -each.share)
    number = Read(texts, numbers(texts, decimal), "numbers")
    if number.share > best.share:
        return _numbered(texts, number.values, unit, decimal)
    if best.cell and others and others[0].share == best.share > 0:
        either = f"{best.said}, or {others[0].said}?"
        return best._replace(doubts=(f"day and month may be exchanged, no row decides it: {either}",))
    return best


def _forms(text: str) -> Iterator[str]:
    """Forms that a date in a text may have."""
    for pattern, code in _CODES:
        text = re.sub(pattern, code, text)
    for order in _ORDERS.get("".join(re.findall("#|%[YBd]", text)), ()):
        before, *behind = text.split("#")
        yield before + "".join(f"%{code}{rest}" for code, rest in zip(order, behind, strict=True))


def _dates(texts: pl.Series, form: str | None) -> Read:
    found = _of(texts, dates_of(pl.col("text"), form).alias("date")).struct.unnest()
    seconds = found["naive"].dt.epoch("us") / 1_000_000
    sound = where(seconds.is_between(0, EPOCH_RANGE_S), seconds)
    utc = form is not None and form.endswith(("UTC", "GMT", "Z"))
    local = not utc and found["local"].filter(sound.is_not_null()).any()
    cell: dict[str, JsonValue] = {} if form is None else {"as": "date", "time_format": form}
    dated = "local" if local else "date"
    return Read(texts, sound, f"dates of {form or 'ISO 8601'}", None, cell, dated=dated)


def _numbered(texts: pl.Series, number: pl.Series, unit: str | None, decimal: str) -> Read:
    """Numbers as instants: since 1970, days of Excel, or relative."""
    known = number.filter(number > 0)
    least, most = (float(known.quantile(at) or 0) for at in (0.01, 0.99))
    for name in ("s", "ms", "us"):
        if _EARLIEST_S <= least * SECONDS[name] <= most * SECONDS[name] <= EPOCH_RANGE_S:
            other = f"the name says {unit}, the values are {name} since 1970"
            doubts = () if unit in (None, name) else (other,)
            return Read(texts, number * SECONDS[name], f"{name} since 1970", name, {}, doubts, "epoch")
    if EXCEL_DAYS[0] <= least <= most <= EXCEL_DAYS[1]:
        days = _of(texts, excel_dates(pl.col("text"), decimal)).dt.epoch("us") / 1_000_000
        doubts = (f"day numbers of Excel, or {unit or 's'}? {least:,.10g} to {most:,.10g}",)
        return Read(texts, days, "day numbers of Excel", None, {"as": "excel_date"}, doubts, "local")
    return amounts(texts, unit, decimal, "s")


def amounts(texts: pl.Series, unit: str | None, decimal: str, dimension: str) -> Read:
    """Values as amounts of time or of a resource: numbers, or texts such as 1h30m, 01:02:03, 16Gi.

    Parameters
    ----------
    unit : that the name says, None for none
    dimension : unit of our column, empty for a count
    """
    number = numbers(texts, decimal)
    if not dimension:
        return Read(texts, number, "counts")
    named, doubts = (unit, ()) if unit else _unit_by_values(number.filter(number > 0), dimension)
    factor = UNITS[dimension][named][0] / UNITS[dimension][named][1]
    is_time, text = dimension == "s", pl.col("text")
    spelled = _of(texts, duration_s(text, factor) if is_time else quantity(text, 1, binary=False))
    if number.count() >= spelled.count():
        said = f"numbers in {named}{' by the name' if unit else ''}"
        return Read(texts, number * factor, said, named, {}, doubts)
    bare = texts.str.contains("^[0-9.,]+$").any()
    if not is_time:
        unitless = bare and not unit and dimension == "GiB"
        doubts = ("values without a unit are rejected; say it under units",) if unitless else ()
        unit = unit if bare else None
        return Read(texts, spelled, "amounts with suffixes", unit, {"as": "quantity"}, doubts)
    clocks = ("clocks of two parts are read as minutes and seconds",)
    doubts = (doubts if bare else ()) + (clocks if texts.str.contains("^[0-9]+:[0-9]+$").any() else ())
    return Read(texts, spelled, "lengths of time", named if bare else None, {"as": "duration"}, doubts)


def _unit_by_values(known: pl.Series, dimension: str) -> tuple[str, tuple[str, ...]]:
    """Unit of amounts whose name has none, and the doubts."""
    named, most = dimension.lower(), float(known.to_numpy().max(initial=0.0))
    if dimension in ("s", "GiB"):
        if dimension == "GiB":
            named = "b" if most > 2**26 else "mib" if most >= 2**9 else "gib"
        return named, (f"neither the name nor the values say the unit; taken as {named}",)
    if len(known) and (known % 25 == 0).all():
        return "percent", ("all are multiples of 25; taken as percent: 100 is one",)
    return named, (f"up to {most:,.10g}; taken as whole ones",) if most > _LARGE else ()
