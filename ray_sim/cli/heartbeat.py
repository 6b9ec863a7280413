"""Lines on standard error while a command of `main` works, where no terminal shows a bar."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from ray_sim.progress import Pace, Report

LINE_INTERVAL_S = 8.0
"""Seconds between two lines: below ten, since a kernel that holds Python's lock may delay one."""


class Heartbeat:
    """Text on the present work of a command, of which `beat` prints a line; at first, its name."""

    def __init__(
        self, name: str, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = self._text = name
        self._write = write
        self._clock = clock
        self._began_s = clock()
        self._printed = ""

    def beat(self) -> None:
        """Print the text, with the time since the command began."""
        self._printed = self._text
        so_far = timedelta(seconds=round(self._clock() - self._began_s))
        self._write(f"{self._text} ({so_far} so far)")

    def announce(self, text: str) -> None:
        """Print a text at once; it is that of the work until the next one."""
        self._text = text
        self._printed = self._printed and text  # the end of a step does not repeat it
        self._write(text)

    @contextmanager
    def step(self, label: str) -> Iterator[Report]:
        """Text of a step from its first report on; its last is printed at its end, if a beat came within."""
        pace = Pace(self._clock)
        self._printed = ""

        def report(done: int, total: int, note: str = "") -> None:
            self._text = f"{label}: {pace.line(done, total, note)}"

        try:
            yield report
        finally:
            if self._printed not in ("", self._text):
                self._write(self._text)
            self._text = self._name


_OF_COMMAND: ContextVar[Heartbeat] = ContextVar("heartbeat")


def heartbeat(write: Callable[[str], None]) -> Heartbeat:
    """Heartbeat of the running command; outside of one a heartbeat that never beats."""
    return _OF_COMMAND.get(None) or Heartbeat("ray-sim", write)


@contextmanager
def beating(name: str, write: Callable[[str], None]) -> Iterator[None]:
    """Print a line on the work of a command every `LINE_INTERVAL_S` seconds until the block ends."""
    mine, ended = Heartbeat(name, write), threading.Event()

    def repeat() -> None:
        while not ended.wait(LINE_INTERVAL_S):
            mine.beat()

    repeater = threading.Thread(target=repeat, daemon=True)
    before = _OF_COMMAND.set(mine)
    repeater.start()
    try:
        yield
    finally:
        _OF_COMMAND.reset(before)
        ended.set()
        repeater.join()
