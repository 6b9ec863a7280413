"""Readable text of numbers."""

from __future__ import annotations


def number(value: object) -> str:
    """Readable text of a cell: thousands separators, four significant digits, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
