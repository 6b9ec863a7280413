"""Layout of tables and listings: within the width of a terminal, as wide as their content elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 2
"""Blanks between two columns."""


def terminal_width() -> int | None:
    """Characters in a line of the terminal, or COLUMNS where it is set; None where nothing limits a line."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells of a table as text."""

    columns: Sequence[str]
    """Headings."""
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    """Whether each column holds numbers."""

    def least_widths(self) -> list[int]:
        """Least width of each column: numbers never wrap, headings and text wrap between words."""

        def least(cell: str, whole: bool) -> int:
            return len(cell) if whole else max(map(len, cell.split()), default=0)

        return [
            max([least(column, False), *(least(row[index], self.numeric[index]) for row in self.rows)])
            for index, column in enumerate(self.columns)
        ]

    def fits(self, width: int | None) -> bool:
        """Whether its columns fit into a width; None limits nothing."""
        return width is None or table_width(self.least_widths()) <= width

    def fitted_widths(self, width: int | None) -> list[int]:
        """Width of each column in a table of this width, into which it fits: the widest text is wrapped."""
        least = self.least_widths()
        widths = [max(map(len, cells)) for cells in zip(self.columns, *self.rows, strict=True)]
        while width is not None and table_width(widths) > width:
            _, widest = max((each, index) for index, each in enumerate(widths) if each > least[index])
            widths[widest] -= 1
        return widths

    def only(self, columns: Sequence[int]) -> TextTable:
        """The table with these columns."""
        return TextTable(
            [self.columns[index] for index in columns],
            [[row[index] for index in columns] for row in self.rows],
            [self.numeric[index] for index in columns],
        )


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


def records(table: TextTable, width: int) -> list[str]:
    """Lines of a table that is too wide for columns: one record for each row, a line for each filled cell."""
    label_width = max(map(len, table.columns))
    lines: list[str] = []
    for row in table.rows:
        filled = ((column, cell) for column, cell in zip(table.columns, row, strict=True) if cell)
        lines += [line for column, cell in filled for line in labelled(column, cell, label_width, width)]
        lines.append("")
    return lines[:-1]
