"""Stopping by signal: the first one asks the work to end well, the second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the work has been asked to end, and by which signal."""

    def __init__(self) -> None:
        self._received: int | None = None

    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    @property
    def exit_code(self) -> int:
        """Exit code of a process that the signal ended, as shells count it: 130 or 143."""
        return 128 + (self._received or signal.SIGINT)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal; a second one ends the process, and the Ray it started with it."""
        if self.asked():
            os._exit(128 + number)
        self._received = number
        sys.stderr.write(f"\n{signal.Signals(number).name}: keeping what is done; again to end at once\n")


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Answer SIGINT and SIGTERM with an `Interruption` instead of an exception."""
    interruption = Interruption()
    before = {number: signal.signal(number, interruption.receive) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
