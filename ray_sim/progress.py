"""Progress of long work: a bar on a terminal, or in the output of a notebook's cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, Protocol

from ray_sim.model.html import escaped
from ray_sim.model.text import shown

SHOWN_AFTER_S = 1.0
"""Calls from Python that are shorter show nothing."""

INTERVAL_S = 0.2
"""Least seconds between two updates in a notebook."""


class Report(Protocol):
    """Callback for progress; `note` is a remark that follows the numbers."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


KNOWN_AFTER = (3, 10.0)
"""Units of work and seconds after the first unit from which on a remaining time is shown."""


class Pace:
    """Rate of work since the first unit of a step, and the remaining time of the step at that rate.

    The time before the first unit has other work in it: compilation, the start of Ray.

    Parameters
    ----------
    clock : monotonic seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = 0.0, 0
        self._last, self._started = -1, False

    def text(self, done: int, total: int) -> str:
        """Text such as ``85/s, 0:01:44 left``; no remaining time before `KNOWN_AFTER`, no rate at first."""
        now = self._clock()
        new_step = self._last < 0 or done < self._last
        if new_step or (not self._started and done > self._last):
            self._began, self._started = (now, done), not new_step
        self._last = done
        began_s, at_first = self._began
        units, seconds = done - at_first, now - began_s
        if units == 0 or seconds == 0:
            return ""
        rate = f"{units / seconds:,.0f}/s" if units >= 10 * seconds else f"{units / seconds:.2g}/s"
        if units < KNOWN_AFTER[0] or seconds < KNOWN_AFTER[1]:
            return rate
        return f"{rate}, {timedelta(seconds=round((total - done) * seconds / units))} left"

    def line(self, done: int, total: int, note: str = "") -> str:
        """Text such as ``80 of 100, 4/s, 0:00:05 left, 1 failed``, with the parts that are not empty."""
        return ", ".join(filter(None, [f"{done:,} of {total:,}", self.text(done, total), note]))


@contextmanager
def terminal_bar(label: str) -> Iterator[Report]:
    """Show a bar on standard error, which is a terminal, until the block ends."""
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.text import Text

    class WithNote(Progress):
        """A bar, and its note in a line of its own, so that neither is cut by the other."""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield from super().get_renderables()
            notes = (task.fields["note"] for task in self.tasks)
            yield from (Text(f"  {note}", no_wrap=True, overflow="ellipsis") for note in notes if note)

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}", markup=False),
    )
    pace = Pace()
    with WithNote(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(shown(label), total=None, pace="", note="")

        def report(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, pace=pace.text(done, total), note=shown(note))

        yield report


@contextmanager
def notebook_bar(label: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Show a bar in the output of the running cell until the block ends.

    It needs IPython only. The bar of rich needs ipywidgets, which other front ends lack.
    """
    from IPython.display import display

    pace = Pace(clock)
    cell: Any = display(_bundle("", ""), raw=True, display_id=True)
    updated = -INTERVAL_S

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal updated
        text = f"{label} {pace.line(done, total, note)}"
        if (now := clock()) - updated >= INTERVAL_S:
            updated = now
            bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
            cell.update(_bundle(text, f"{bar} {escaped(text)}"), raw=True)

    try:
        yield report
    finally:
        cell.update(_bundle("", ""), raw=True)


def _bundle(text: str, markup: str) -> dict[str, str]:
    """Forms of one output, of which a front end shows the best that it can."""
    return {"text/plain": shown(text), "text/html": markup}


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def shown_progress(
    label: str, show: bool, *, compiles: bool = True, clock: Callable[[], float] = time.monotonic
) -> Iterator[Report]:
    """Show the progress of a call from Python in a notebook or on a terminal, and nowhere else.

    A call of less than `SHOWN_AFTER_S` shows nothing, unless kernels are compiled first.

    Parameters
    ----------
    show : False shows nothing
    compiles : whether the call uses kernels
    clock : monotonic seconds
    """
    notebook = in_notebook()
    if not show or not (notebook or sys.stderr.isatty()):
        yield lambda done, total, note="": None
        return
    from ray_sim.kernels.compile import COMPILING, compiled_before  # takes a moment, commands need a bar only

    began = clock()
    visible: Report | None = None
    with ExitStack() as stack:

        def report(done: int, total: int, note: str = "") -> None:
            nonlocal visible
            if visible is None and (note == COMPILING or clock() - began >= SHOWN_AFTER_S):
                visible = stack.enter_context(notebook_bar(label) if notebook else terminal_bar(label))
            if visible is not None:
                visible(done, total, note)

        if compiles and not compiled_before():
            report(0, 1, COMPILING)
        yield report
