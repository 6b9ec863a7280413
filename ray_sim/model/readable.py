"""Readable text of numbers."""

from __future__ import annotations

from itertools import pairwise


def number(value: object) -> str:
    """Readable text of a cell: thousands separators, four significant digits, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_UNITS_S = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | None) -> str:
    """Readable text of a time: its two largest units, e.g. ``2 d 3 h``; three digits below 10 s."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.3g} s"
    for (large, large_s), (small, small_s) in pairwise(_UNITS_S):
        parts = round(seconds / small_s)
        whole, rest = divmod(parts, large_s // small_s)
        if whole:
            return f"{whole:,} {large} {rest} {small}" if rest else f"{whole:,} {large}"
    return f"{round(seconds)} s"
