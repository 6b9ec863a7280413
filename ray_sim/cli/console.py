"""Tables, listings and progress of the command line: within the width of a terminal, if there is one."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ray_sim.cli.heartbeat import heartbeat
from ray_sim.model.readable import ASCII, constant_columns, number
from ray_sim.model.text import shown
from ray_sim.progress import Report, terminal_bar

if TYPE_CHECKING:
    import polars as pl

    from ray_sim.experiments.sweep import SweepReport


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


def print_json(content: object) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def say(text: str) -> None:
    """Print a message on standard error; control characters from traces and names are escaped."""
    sys.stderr.write(shown(text, lines=True) + "\n")


def print_rows(rows: Iterable[tuple[str, object]]) -> None:
    """Print labels and values, aligned."""
    cells = [(shown(label), shown(number(value))) for label, value in rows]
    width = max((len(label) for label, _ in cells), default=0)
    for label, value in cells:
        for line in labelled(label, value, width, terminal_width()):
            sys.stdout.write(_printable(f"{line}\n"))


def _printable(text: str) -> str:
    """The text in characters of the terminal's encoding; bars become ASCII if necessary."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table with numbers aligned to the right, within the width of a terminal.

    Text wraps between words in its column, and numbers do not wrap. If the table is still too wide, columns
    with one value stand in a line below it; if it is too wide without them, it is printed as records.
    Elsewhere, as in a pipe, a row is a line.
    """
    cells = list(rows)
    numeric = [any(isinstance(row[i], int | float) for row in cells) for i in range(len(columns))]
    texts = [[shown(number(cell)) for cell in row] for row in cells]
    table, width = TextTable([shown(name) for name in columns], texts, numeric), terminal_width()
    constant = [] if table.fits(width) else constant_columns(texts)
    varying = table.only([index for index in range(len(columns)) if index not in constant])
    if title:
        print_text(title)
    if width is None or varying.fits(width):
        _write_columns(varying, width)
        if constant:
            same = ", ".join(f"{table.columns[index]} {texts[0][index] or 'none'}" for index in constant)
            print_text(f"in all rows: {same}")
    else:
        sys.stdout.write(_printable("\n".join(records(table, width)) + "\n"))


def print_text(text: str, indent: str = "") -> None:
    """Print a paragraph, wrapped between words to the width of a terminal; all lines are indented."""
    line = indent + shown(text)
    wrapped = textwrap.wrap(
        line, terminal_width() or len(line), subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    sys.stdout.write(_printable("\n".join(wrapped) + "\n"))


def _write_columns(table: TextTable, width: int | None) -> None:
    """Write a table that fits into the width, with numbers aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    widths = table.fitted_widths(width)
    for heading, right, column_width in zip(table.columns, table.numeric, widths, strict=True):
        side: Literal["left", "right"] = "right" if right else "left"
        drawn.add_column(heading, justify=side, overflow="fold", width=column_width)
    for row in table.rows:
        drawn.add_row(*row)
    Console(markup=False, highlight=False, width=table_width(widths)).print(drawn)


def print_line(cells: Sequence[str], widths: Sequence[int]) -> None:
    """Write one line of a table whose later lines are still to come.

    Parameters
    ----------
    widths : of the columns, without the last
    """
    *aligned, last = map(shown, cells)
    line = "  ".join([*(f"{cell:<{width}}" for cell, width in zip(aligned, widths, strict=True)), last])
    sys.stdout.write(_printable(f"{line}\n"))
    sys.stdout.flush()


def print_frame(frame: pl.DataFrame, columns: Mapping[str, str], title: str | None = None) -> None:
    """Print columns of a frame under the given headings; columns that the frame lacks are left out."""
    shown = {name: heading for name, heading in columns.items() if name in frame.columns}
    print_table(list(shown.values()), frame.select(list(shown)).iter_rows(), title)


def print_sweep(report: SweepReport) -> None:
    """Print a sweep's table of means over seeds, its counts, and its failures."""
    from ray_sim.reports.tables import KEYS, sweep_headings

    headings = {
        **{key: key for key in KEYS if key == "policy" or _varies(report.table, key)},
        **sweep_headings(report.table),
    }
    if report.table.height:
        print_frame(report.table, headings, f"{report.name}: means over seeds")
    done = report.configurations - report.missing - len(report.failures)
    rows: list[tuple[str, object]] = [
        ("results", report.directory),
        ("done", f"{done} of {report.configurations}"),
    ]
    if report.resumed:
        rows.append(("already there", report.resumed))
    if report.damaged:
        rows.append(("damaged, run again", len(report.damaged)))
    if report.other_code:
        rows.append(("of other code, run again", report.other_code))
    if report.repeated:
        rows.append(("the same run as another", report.repeated))
    if report.retried:
        rows.append(("tried more than once", len(report.retried)))
    if report.missing:
        rows.append(("missing", f"{report.missing:,}; go on with the same command and --resume"))
    if report.logged:
        rows += [("MLflow", report.logged.tracking_uri), ("charts", report.logged.charts)]
        rows += [("shown by", report.logged.serve)] if report.logged.serve else []
    sys.stdout.write("\n")
    print_rows(rows)
    for policy, warning in report.warnings.items():
        say(f"warning: {policy}: {warning}")
    for problem in report.damaged:
        say(f"damaged: {problem}")
    _print_stale(report)
    for retried in report.retried:
        for reason in retried.lost:
            say(f"tried again: {retried.entry.label}\n  {reason}")
    for failure in report.failures:
        error = (failure.error or "").replace("\n", "\n  ")
        say(f"failed: {failure.entry.label}\n  {error}")
    if report.stopped:
        say(f"stopped: {report.stopped}")
    if report.tracking_error:
        say(f"error: {report.tracking_error}")


def _print_stale(report: SweepReport) -> None:
    """Print the results of other code, other versions or dropped configurations."""
    if report.other_code:
        say(f"{report.other_code:,} results are of other code and run again")
    if report.other_versions:
        say(f"results kept that other versions made: {'; '.join(report.other_versions)}")
    dropped = sum(len(each.directories) for each in report.dropped)
    in_mlflow = report.logged.dropped if report.logged else 0
    if dropped or in_mlflow:
        mend = "removed" if report.pruned else "remove them with --prune"
        say(f"no longer in the sweep: {dropped:,} results, {in_mlflow:,} in MLflow; {mend}")
        for each in report.dropped:
            say(f"  {each.label}: {len(each.directories):,}")


def _varies(table: pl.DataFrame, column: str) -> bool:
    return column in table.columns and table[column].n_unique() > 1


def exact(value: object) -> str:
    """Text of a cell with all digits, for exact comparisons."""
    return f"{value:,.15g}" if isinstance(value, float) else number(value)


def announcer(*, quiet: bool = False, compiles: bool = True) -> Callable[[str], None]:
    """Callback that writes a line on standard error before a wait of seconds; silent if `quiet`.

    A command that compiles kernels, asked before the first is called, announces it if none are there.
    """
    from ray_sim.kernels.compile import COMPILING, compiled_before

    announce = (lambda text: None) if quiet else heartbeat(say).announce
    if compiles and not compiled_before():
        announce(COMPILING)
    return announce


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Report]:
    """Show progress, rate and remaining time on standard error.

    A bar on a terminal, the lines of the command's heartbeat elsewhere.
    """
    if quiet:
        yield lambda done, total, note="": None
    else:
        with terminal_bar(label) if sys.stderr.isatty() else heartbeat(say).step(label) as report:
            yield report
