"""Layout of tables and listings: within the width of a terminal, as wide as their content elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

_GAP = 2
"""Blanks between two columns."""


def terminal_width() -> int | None:
    """Characters in a line of the terminal, or COLUMNS where it is set; None where nothing limits a line."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def least_widths(lines: Sequence[Sequence[str]], numeric: Sequence[bool]) -> list[int]:
    """Least width of each column: numbers are never wrapped, headings and text are wrapped between words.

    Parameters
    ----------
    lines : cells of the heading, then of all rows
    numeric : whether each column holds numbers
    """

    def least(cell: str, whole: bool) -> int:
        return len(cell) if whole else max(map(len, cell.split()), default=0)

    return [
        max(least(line[index], number and row > 0) for row, line in enumerate(lines))
        for index, number in enumerate(numeric)
    ]


def fitted_widths(lines: Sequence[Sequence[str]], least: Sequence[int], width: int | None) -> list[int]:
    """Width of each column in a table that is no wider than `width`: the widest columns of text are wrapped.

    Parameters
    ----------
    lines : cells of the heading and of all rows
    least : of each column, see `least_widths`; together they fit
    width : None where nothing limits a line
    """
    widths = [max(len(line[index]) for line in lines) for index in range(len(least))]
    while width is not None and table_width(widths) > width:
        _, widest = max((each, index) for index, each in enumerate(widths) if each > least[index])
        widths[widest] -= 1
    return widths


def table_width(widths: Sequence[int]) -> int:
    """Width of a table with columns of these widths."""
    return sum(widths) + _GAP * (len(widths) - 1)


def labelled(label: str, value: str, label_width: int, width: int | None) -> list[str]:
    """Lines of a label and its value; further lines of the value are indented.

    Words are never broken: a path stays whole.
    """
    head = f"{label:<{label_width}}  "
    if width is None or len(head) + len(value) <= width or width <= len(head):
        return [head + value]
    return textwrap.wrap(
        value,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def records(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lines of a table that is too wide for columns: one record for each row, a line for each filled cell."""
    label_width = max(map(len, columns))
    lines: list[str] = []
    for row in rows:
        filled = ((column, cell) for column, cell in zip(columns, row, strict=True) if cell)
        lines += [line for column, cell in filled for line in labelled(column, cell, label_width, width)]
        lines.append("")
    return lines[:-1]
