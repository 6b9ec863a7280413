"""Tables, listings and progress of the command line: within the width of a terminal, if there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from typer import Exit

from ray_sim.cli.heartbeat import heartbeat
from ray_sim.interruption import Interruption
from ray_sim.model.readable import ASCII, constant_columns, number
from ray_sim.model.text import shown
from ray_sim.progress import Report, terminal_bar

if TYPE_CHECKING:
    import polars as pl

    from ray_sim.experiments.sweep import SweepReport
    from ray_sim.reports.page import Table


_GAP = 2
"""Blanks between two columns."""

_DURATION = re.compile(r"\d[\d,.]* (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?")
_TIE = "\N{NO-BREAK SPACE}"  # never in a text of `shown`, which escapes it


def _tied(text: str) -> str:
    """The text with no-break blanks inside durations such as ``2 h 5 min``."""
    return _DURATION.sub(lambda found: found[0].replace(" ", _TIE), text)


def _wrapped(text: str, width: int, head: str = "", indent: str = "") -> list[str]:
    """Lines of at most a width, broken between words, not inside a duration; a longer word stays whole.

    Parameters
    ----------
    head, indent : begin the first line, and the others
    """
    lines = textwrap.wrap(
        _tied(text), width, initial_indent=head, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_TIE, " ") for line in lines]


def terminal_width() -> int | None:
    """Characters in a line of the terminal, or COLUMNS where it is set; None where nothing limits a line."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table as text; `numeric` if it holds numbers."""

    heading: str
    cells: Sequence[str]
    numeric: bool

    def least_width(self) -> int:
        """Its least width: numbers and durations never wrap, headings and text wrap between words."""
        words = [word for cell in self.cells for word in ([cell] if self.numeric else _tied(cell).split(" "))]
        return max(map(len, [*self.heading.split(), *words]), default=0)


def fitted_widths(table: Sequence[TextColumn], width: int | None) -> list[int]:
    """Width of each column in a table of this width, into which it fits: the widest text is wrapped."""
    least = [column.least_width() for column in table]
    widths = [max(map(len, (column.heading, *column.cells))) for column in table]
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
    return _wrapped(value, width, head, " " * len(head))


def records(table: Sequence[TextColumn], width: int | None) -> str:
    """A table that is too wide for columns: one record for each row, a line for each filled cell."""
    label_width = max(len(column.heading) for column in table)
    texts = []
    for row in zip(*(column.cells for column in table), strict=True):
        filled = ((column.heading, cell) for column, cell in zip(table, row, strict=True) if cell)
        texts.append("".join(f"{line}\n" for each in filled for line in labelled(*each, label_width, width)))
    return "\n".join(texts)


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
    for each in cells:
        _write("".join(f"{line}\n" for line in labelled(*each, width, terminal_width())))


def print_facts(facts: Mapping[str, object], *, as_json: bool) -> None:
    """Print facts by name, as JSON or aligned."""
    print_json(facts) if as_json else print_rows(facts.items())


def print_list(
    entries: Iterable[Mapping[str, object]],
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str | None = None,
    *,
    as_json: bool,
) -> None:
    """Print entries as JSON, or their rows as a table."""
    print_json(list(entries)) if as_json else print_table(columns, rows, title)


def _write(text: str) -> None:
    """Write text in characters of the terminal's encoding; bars become ASCII if necessary."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    sys.stdout.write(text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table with numbers aligned to the right, within the width of a terminal.

    Text wraps between words in its column, and numbers do not wrap. If the table is still too wide, columns
    with one value stand in a line below it; if it is too wide without them, it is printed as records.
    Elsewhere, as in a pipe, a row is a line.
    """
    cells = list(rows)
    numeric = [any(isinstance(row[i], int | float) for row in cells) for i in range(len(columns))]
    _print_columns(columns, [[number(cell) for cell in row] for row in cells], numeric, title)


def _print_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], title: str | None
) -> None:
    """Print a table of texts; see `print_table`."""
    width, texts = terminal_width(), [[shown(cell) for cell in row] for row in rows]
    table = [TextColumn(shown(name), [row[i] for row in texts], numeric[i]) for i, name in enumerate(columns)]

    def fits(part: Sequence[TextColumn]) -> bool:
        return width is None or table_width([column.least_width() for column in part]) <= width

    constant = [] if fits(table) else constant_columns(texts)
    varying = [column for i, column in enumerate(table) if i not in constant]
    if title:
        print_text(title)
    if not fits(varying):
        _write(records(table, width))
        return
    _write_columns(varying, fitted_widths(varying, width))
    if constant:
        same = ", ".join(f"{table[i].heading} {table[i].cells[0] or 'none'}" for i in constant)
        print_text(f"in all rows: {same}")


def print_text(text: str, indent: str = "") -> None:
    """Print a paragraph, wrapped between words to the width of a terminal; all lines are indented."""
    line = indent + shown(text)
    _write("\n".join(_wrapped(line, terminal_width() or len(line), indent=indent)) + "\n")


def _write_columns(table: Sequence[TextColumn], widths: Sequence[int]) -> None:
    """Write columns of these widths, with numbers aligned to the right."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(table, widths, strict=True):
        side: Literal["left", "right"] = "right" if column.numeric else "left"
        drawn.add_column(column.heading, justify=side, overflow="fold", width=width)
    for row in zip(*(column.cells for column in table), strict=True):
        drawn.add_row(*("\n".join(_wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)))
    Console(markup=False, highlight=False, width=table_width(widths)).print(drawn)


def print_page_table(table: Table, title: str | None = None) -> None:
    """Print a table of a page, without its note."""
    numeric = [any(row[i].is_number for row in table.rows) for i in range(len(table.columns))]
    _print_columns(table.columns, [[cell.text for cell in row] for row in table.rows], numeric, title)


def print_line(cells: Sequence[str], widths: Sequence[int]) -> None:
    """Write one line of a table whose later lines are still to come.

    Parameters
    ----------
    widths : of the columns, without the last
    """
    *aligned, last = map(shown, cells)
    line = "  ".join([*(f"{cell:<{width}}" for cell, width in zip(aligned, widths, strict=True)), last])
    _write(f"{line}\n")
    sys.stdout.flush()


def print_frame(frame: pl.DataFrame, columns: Mapping[str, str], title: str | None = None) -> None:
    """Print columns of a frame under the given headings; columns that the frame lacks are left out."""
    from ray_sim.reports.page import frame_table

    print_page_table(frame_table(frame, columns), title)


def print_legend(texts: Iterable[str]) -> None:
    """Print the `legend` of the headings and cells of a table, if any needs it."""
    from ray_sim.reports.tables import legend

    if line := legend(texts):
        print_text(line)


def print_sweep(report: SweepReport) -> None:
    """Print a sweep's table of means over seeds, its counts, and its failures."""
    from ray_sim.reports.tables import KEYS, sweep_headings

    headings = {
        **{key: key for key in KEYS if key == "policy" or _varies(report.table, key)},
        **sweep_headings(report.table),
    }
    if report.table.height:
        print_frame(report.table, headings, f"{report.name}: means over seeds")
        print_legend(headings.values())
    done = report.configurations - report.missing - len(report.failures)
    counts: list[tuple[str, object]] = [
        ("already there", report.resumed),
        ("damaged, run again", len(report.damaged)),
        ("of other code, run again", report.other_code),
        ("the same run as another", report.repeated),
        ("tried more than once", len(report.retried)),
        ("missing", report.missing and f"{report.missing:,}; go on with the same command and --resume"),
    ]
    if (logged := report.logged) is not None:
        counts += [("MLflow", logged.tracking_uri), ("charts", logged.charts), ("shown by", logged.serve)]
    rows = [("results", report.directory), ("done", f"{done} of {report.configurations}")]
    rows += [(label, value) for label, value in counts if value]
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
    say_failures(report)
    say_stopped(report, "")


def say_failures(report: SweepReport) -> None:
    """Print the configurations of a sweep that failed, with the whole error."""
    for failure in report.failures:
        error = (failure.error or "").replace("\n", "\n  ")
        say(f"failed: {failure.entry.label}\n  {error}")


def say_stopped(report: SweepReport, mend: str = "; go on with the same command and --resume") -> None:
    """Print why a sweep stopped, and why it could not be logged."""
    if report.stopped:
        say(f"stopped: {report.stopped}{mend}")
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


def exit_unless(ok: bool, sweep: SweepReport | None, interruption: Interruption) -> None:
    """End a command of many runs: with the code of the signal that stopped it, or 1 where not all is well."""
    from ray_sim.experiments.sweep import INTERRUPTED

    if sweep is not None and sweep.stopped == INTERRUPTED:
        raise Exit(interruption.exit_code)
    if not ok:
        raise Exit(1)


def with_failures(report: Report) -> Callable[[int, int, int], None]:
    """Callback for the runs that are done, those of them that failed, and all."""
    return lambda done, failed, total: report(done, total, f"({failed} failed)" if failed else "")


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
