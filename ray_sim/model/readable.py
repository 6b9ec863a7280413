"""Readable text of numbers, times and lists, and bars of characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import fmean


def number(value: object) -> str:
    """Readable text of a cell: thousands separators, four significant digits, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def told_apart(amounts: Sequence[float]) -> list[str]:
    """Texts with three decimals, or as many as tell the amounts and 0 apart; without zeros at the end."""
    texts: list[str] = []
    for decimals in range(3, 11):
        texts = [f"{amount:,.{decimals}f}".rstrip("0").rstrip(".") for amount in amounts]
        if len({"0", *texts}) == len({0.0, *amounts}):
            break
    return texts


def constant_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Columns after the first that have the same text in all of two or more rows."""
    if len(rows) < 2:
        return []
    return [index for index in range(1, len(rows[0])) if len({row[index] for row in rows}) == 1]


_UNITS_S = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | None) -> str:
    """Readable text of a time: its two largest units, e.g. ``2 d 3 h``; three digits below 10 s."""
    if seconds is None or math.isinf(seconds):
        return number(seconds)
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.3g} s"
    finer_s = [unit_s for _, unit_s in _UNITS_S[2:]] + [1]
    for ((large, large_s), (small, small_s)), step_s in zip(pairwise(_UNITS_S), finer_s, strict=True):
        if round(seconds / step_s) * step_s >= large_s:  # 23 h 40 min is not yet a day, 23 h 59.9 min is
            whole, rest = divmod(round(seconds / small_s), large_s // small_s)
            return f"{whole:,} {large} {rest} {small}" if rest else f"{whole:,} {large}"
    return f"{round(seconds)} s"


def in_seconds(key: str) -> bool:
    """Whether a column, or a dotted key such as ``jct_s.mean``, holds times: a part ends in _s."""
    return any(part.endswith("_s") for part in key.split("."))


def text_of(key: str) -> Callable[[float | None], str]:
    """Formatter for people of the values of a column or key: `duration` of times, else `number`."""
    return duration if in_seconds(key) else number


DATES_S = 10**9, 2 * 10**9
"""Seconds that are Unix time, of 2001 to 2033: no trace counts 31 years from a zero of its own."""


def instant(time_s: float, epoch_utc: datetime | None = None) -> str:
    """Readable text of an instant: a date such as ``2026-03-20 07:19:48 UTC`` where it is one, else seconds.

    Parameters
    ----------
    epoch_utc : date of second 0; None if the trace does not tell, then the range `DATES_S` is Unix time
    """
    if epoch_utc is None and DATES_S[0] <= time_s < DATES_S[1]:
        epoch_utc = datetime.fromtimestamp(0, tz=UTC)
    if epoch_utc is None:
        return f"second {time_s:,.15g}"
    return f"{epoch_utc + timedelta(seconds=round(time_s)):%Y-%m-%d %H:%M:%S} UTC"


_PLOTTED_S = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}


def time_unit(largest_s: float) -> tuple[str, float]:
    """Name and seconds of the largest unit of which a time has at least two."""
    for name, seconds in _PLOTTED_S.items():
        if largest_s >= 2 * seconds:
            return name, seconds
    return "seconds", 1.0


def first_and_others(names: Sequence[str]) -> str:
    """The first name and the number of others, e.g. ``a.npz and 3 others``."""
    others = len(names) - 1
    return names[0] if not others else f"{names[0]} and {others} other{'s' if others > 1 else ''}"


_LINE = "▁▂▃▄▅▆▇█"
_BAR = "▏▎▍▌▋▊▉█"

ASCII = str.maketrans(dict(zip(_LINE + _BAR[:-1], "__.-=+*#" + "   ####", strict=True)))
"""ASCII replacements of the bar characters."""


def sparkline(values: Sequence[float], width: int) -> str:
    """Numbers >= 0 as a line of bars, the highest full; a bar shows the mean of several if necessary."""
    n = len(values)
    places = min(n, width)
    ends = [place * n // places for place in range(places + 1)]
    heights = [fmean(values[begin:end]) for begin, end in pairwise(ends)]
    top = max(heights) or 1.0
    return "".join(_LINE[round(height / top * (len(_LINE) - 1))] for height in heights)


def bar(share: float, width: int) -> str:
    """Bar for a share in [0, 1] of the width, to an eighth of a character; not empty for a share above 0."""
    eighths = round(share * width * len(_BAR)) or int(share > 0)
    whole, part = divmod(eighths, len(_BAR))
    return _BAR[-1] * whole + (_BAR[part - 1] if part else "")
