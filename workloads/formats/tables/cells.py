"""Cells of foreign tables: words for absent values, parts of a text, durations, quantities, dates.

Called by the reader of tables with the section `cells` of a mapping file.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Annotated, Literal

import polars as pl
from pydantic import BeforeValidator, Field, JsonValue

from workloads.documents import Entry
from workloads.formats.tables.times import form_problem
from workloads.formats.text import BLANK_WORDS

_TRUTH = {"true": "1", "false": "0"}
"""Truth values in lower case as numbers; a column of seconds has none."""

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"

_CLOCK = rf"^(?:([0-9]+)(?:-| days?,? ))?(?:([0-9]+):)?([0-9]+):{_NUMBER}$"
"""Days, hours, minutes and seconds such as ``1-02:03:04``, ``01:02:03``, ``2 days 01:02:03``, ``02:03``."""

_WORDS = {"d(?:ays?)?": 86_400, "h(?:ours?|rs?)?": 3600, "m(?:in(?:ute)?s?)?": 60, "s(?:ec(?:ond)?s?)?": 1}

_SPELLED = "^(?i)" + "".join(rf"(?:{_NUMBER} ?{word},? ?)?" for word in _WORDS) + "$"
"""Days, hours, minutes and seconds such as ``90m``, ``1h30m``, ``2 days 3 h``."""

_PERIOD = rf"^(?i)P(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?$"
"""The same by ISO 8601, such as ``PT1H30M``; ``P1M`` is a month, which has no length."""

_THOUSANDS = "^-?[0-9]{1,3}(,[0-9]{3})+(\\.[0-9]*)?$"

_PREFIXES = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

_SUFFIXES = (
    {f"{prefix}i": 1024.0**power for prefix, power in _PREFIXES.items()}
    | {prefix: 1000.0**power for prefix, power in _PREFIXES.items()}
    | {"m": 1 / 1000, "u": 1 / 1_000_000, "n": 1 / 1_000_000_000}
)
"""Factors of Kubernetes' suffixes."""

_BINARY = {prefix: 1024.0**power for prefix, power in _PREFIXES.items()}

_EXCEL_1970 = 25_569
"""Number of the day 1970-01-01 in Excel, whose day 0 is 1899-12-30."""

_US_PER_DAY = 86_400_000_000


def as_list(names: object) -> object:
    """A list of texts, of which a user may write a single one as it is."""
    return names if isinstance(names, list) else [names]


class Cell(Entry):
    """How the cells of one column of a file are read."""

    as_: Literal["number", "date", "duration", "quantity", "binary_quantity", "excel_date"] | None = Field(
        None, alias="as"
    )
    """None for a number or a date, whichever it is."""
    pattern: Annotated[list[str], BeforeValidator(as_list)] = Field([])
    """Regular expressions with named groups, each of which becomes a column; null where it does not match."""
    null_values: list[str] | None = None
    """Words for an absent value, in place of `BLANK_WORDS`."""
    default: JsonValue = None
    """Text or number in place of an absent value."""
    values: dict[str, JsonValue] = Field({})
    """Text or number in place of a text; `*` stands for any other."""
    time_format: str | None = None
    """Form of dates in codes of chrono's strftime, in place of the mapping's."""

    def problems(self, zone: str | None) -> list[str]:
        """What is wrong with the entry."""
        found = []
        if self.time_format is not None and (problem := form_problem(self.time_format, zone)):
            found.append(f"time_format: {problem}")
        if self.time_format is not None and self.as_ not in (None, "date"):
            found.append("time_format: only dates have a form; drop it or `as`")
        for pattern in self.pattern:
            if problem := pattern_fault(pattern):
                found.append(f"pattern: {problem}")
            elif not _group_names(pattern):
                found.append(f"pattern: '{pattern}' must have a named group, as in gpu=(?P<gpus>[0-9]+)")
        sound = [
            name for pattern in self.pattern if not pattern_fault(pattern) for name in _group_names(pattern)
        ]
        found += [
            f"pattern: two patterns have a group '{name}'; rename one, and choose by first(a, b)"
            for name in sorted(set(sound))
            if sound.count(name) > 1
        ]
        entries = {"default": self.default} | {f"values.{key}": entry for key, entry in self.values.items()}
        for key, value in entries.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
                found.append(f"{key}: must be a text or a number, is {value!r}")
        return found

    @property
    def has_dates(self) -> bool:
        """Whether the entry says that the cells are dates, so that none is a number."""
        return self.as_ in ("date", "excel_date") or self.time_format is not None

    @property
    def groups(self) -> dict[str, str]:
        """Patterns by the columns that they make."""
        sound = [pattern for pattern in self.pattern if pattern_fault(pattern) is None]
        return {name: pattern for pattern in sound for name in _group_names(pattern)}

    def text(self, raw: pl.Expr, words: Sequence[str] | None) -> pl.Expr:
        """Text of a cell: null where it is one of the words, replaced by `values`, and by `default` if null.

        Parameters
        ----------
        words : for an absent value, where the entry has none; None for the `BLANK_WORDS` without a value of
            their own, where there is a default or a value for any text
        """
        own = self.null_values if self.null_values is not None else words
        by_default = (
            set(BLANK_WORDS) - set(self.values) if self.default is not None or "*" in self.values else ()
        )
        absent = own if own is not None else sorted(by_default)
        text = pl.when(~raw.is_in(list(absent))).then(raw) if absent else raw
        if self.values:
            new = {word: plain(value) for word, value in self.values.items()}
            other = pl.lit(new.pop("*")) if "*" in new else text
            text = pl.when(text.is_in(list(new))).then(text.replace(new)).when(text.is_not_null()).then(other)
        return text if self.default is None else text.fill_null(plain(self.default))


def plain(value: JsonValue) -> str:
    """A text or number of a mapping file as the text of a cell."""
    return value if isinstance(value, str) else f"{value:.17g}" if isinstance(value, float) else str(value)


def pattern_fault(pattern: str) -> str | None:
    """Why a text is no regular expression; None where it is one."""
    try:
        _group_names(pattern)
        pl.Series(["x"]).str.contains(pattern)
    except (re.error, OverflowError, RecursionError, pl.exceptions.PolarsError) as error:
        lines = str(error).splitlines()
        told = next((line for line in lines if line.startswith("error: ")), lines[0])
        return f"is no regular expression ({told.removeprefix('error: ')})"
    return None


def _group_names(pattern: str) -> list[str]:
    """Names of the groups of a regular expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of [[:alpha:]], which polars reads otherwise
        return list(re.compile(pattern).groupindex)


def plain_number(text: pl.Expr, *, decimal: str = ".", truth: bool = True) -> pl.Expr:
    """Stripped text as Float64, null where it is none; ``nan`` and ``inf`` are read as such."""
    if decimal != ".":
        text = text.str.replace(decimal, ".", literal=True)
    if truth:
        text = text.str.to_lowercase().replace(_TRUTH)
    return text.cast(pl.Float64, strict=False)


def duration_s(text: pl.Expr, unit_s: float) -> pl.Expr:
    """Seconds of a text of the forms `_CLOCK`, `_SPELLED`, `_PERIOD`, or a number; null where it is none.

    Parameters
    ----------
    unit_s : seconds of a bare number's unit
    """
    clock, spelled, period = (text.str.extract_groups(form) for form in (_CLOCK, _SPELLED, _PERIOD))
    factors = (86_400, 3600, 60, 1)

    def total(groups: pl.Expr) -> pl.Expr:
        parts = [groups.struct.field(str(at + 1)).cast(pl.Float64, strict=False) for at in range(4)]
        known = pl.any_horizontal(part.is_not_null() for part in parts)
        return pl.when(known).then(
            pl.sum_horizontal(part.fill_null(0) * factor for part, factor in zip(parts, factors, strict=True))
        )

    return pl.coalesce(total(clock), _without_thousands(text) * unit_s, total(spelled), total(period))


def quantity(text: pl.Expr, bare: float | None, *, binary: bool) -> pl.Expr:
    """Number of a text with a suffix such as ``16Gi``, ``500m``, ``8G`` or ``1,234``; null where it is none.

    Parameters
    ----------
    bare : factor of a number without a suffix; None to read it as none
    binary : K, M, G, ... are powers of 1024 in either case, as in Slurm and PBS
    """
    groups = text.str.extract_groups(r"^(-?[0-9.,]+(?:[eE][-+]?[0-9]+)?) ?([kKmMgGtTpP]i?|[un])?[bBcn]?$")
    suffix, factors = groups.struct.field("2"), _SUFFIXES
    if binary:
        suffix, factors = suffix.str.to_uppercase().str.strip_suffix("I"), _BINARY
    factor = (
        pl.when(suffix.is_null())
        .then(pl.lit(bare, pl.Float64))
        .otherwise(suffix.replace_strict(factors, default=None, return_dtype=pl.Float64))
    )
    return _without_thousands(groups.struct.field("1")) * factor


def _without_thousands(text: pl.Expr) -> pl.Expr:
    whole = (
        pl.when(text.str.contains(_THOUSANDS))
        .then(text.str.replace_all(",", "", literal=True))
        .otherwise(text)
    )
    return whole.cast(pl.Float64, strict=False)


def excel_dates(text: pl.Expr, decimal: str) -> pl.Expr:
    """Local date and time of an Excel day number, to the millisecond, as Excel shows it."""
    days = plain_number(text, decimal=decimal, truth=False) - _EXCEL_1970
    sound = pl.when(days.is_between(0, 2**16)).then(days)
    return ((sound * (_US_PER_DAY / 1000)).round() * 1000).cast(pl.Int64).cast(pl.Datetime("us"))
