"""Stopping by signal: the first one asks the work to end well, or unwinds it; the second ends it at once."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import _exit, getpid, kill
from traceback import walk_stack
from types import FrameType

from ray_sim.model.errors import RunFailedError

LAST_S = 10.0
"""Seconds for work whose time is over to end by itself."""

AGAIN_S = 0.1
"""Seconds after which a signal that came at a bad moment is sent again."""

_TO_FINISH = ("importlib", "numba", "llvmlite")
"""Parts of files that must not be broken off: a half-imported module fails the next run in the process."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Whether the work has been asked to end, and by which signal."""

    def __init__(self, *, unwinds: bool) -> None:
        self._received: int | None = None
        self._unwinds = unwinds
        self._put_off = False

    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    @property
    def exit_code(self) -> int:
        """Exit code of a process that the signal ended, as shells count it: 130, 143 or 129."""
        return 128 + (self._received or signal.SIGINT)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal; a second one ends the process, and the Ray it started with it.

        An exception in a callback of the compiler is lost, so there the signal is sent again.
        """
        if self.asked() and not self._put_off:
            _exit(128 + number)
        if not self.asked():
            self._take(number)
        self._put_off = self._unwinds and _is_in(frame, ("llvmlite",))
        if self._put_off:
            again = threading.Timer(AGAIN_S, kill, (getpid(), number))
            again.daemon = True
            again.start()
        elif self._unwinds:
            raise KeyboardInterrupt

    def _take(self, number: int) -> None:
        self._received = number
        done = "stopped" if self._unwinds else "keeping what is done"
        with suppress(OSError):  # the terminal is gone, as SIGHUP says
            sys.stderr.write(f"\n{signal.Signals(number).name}: {done}; again to end at once\n")


def _is_in(frame: FrameType | None, parts: tuple[str, ...]) -> bool:
    """Whether a function of these files is at work."""
    return any(part in each.f_code.co_filename for each, _ in walk_stack(frame) for part in parts)


def stops(error: BaseException) -> bool:
    """Whether an error is the user's Ctrl-C, and not raised by code while `interruptible` saw no signal."""
    receiver = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    unsignalled = isinstance(receiver, Interruption) and not receiver.asked()
    return isinstance(error, KeyboardInterrupt) and not unsignalled


@contextmanager
def interruptible(*, unwinds: bool = False) -> Iterator[Interruption]:
    """Answer SIGINT, SIGTERM and SIGHUP with an `Interruption`; SIGHUP stays ignored under `nohup`.

    Outside the main thread, where Python allows no handlers, signals stay as they are.

    Parameters
    ----------
    unwinds : also raise KeyboardInterrupt, so that the blocks under way remove their temporary files
    """
    interruption = Interruption(unwinds=unwinds)
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, interruption.receive)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise an error in the main thread once the block has taken so long; None for no limit.

    Where that does not help, as in machine code, the process ends `LAST_S` seconds later and shows its stack.

    Raises
    ------
    RunFailedError : the time is over; names the line at work
    """
    if seconds is None:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        if _is_in(frame, _TO_FINISH):
            signal.setitimer(signal.ITIMER_REAL, 1)
            return
        at = f" in {frame.f_code.co_filename}, line {frame.f_lineno}" if frame is not None else ""
        raise RunFailedError(f"stopped after {seconds:,g} s, as --stop-after-s asks: at work{at}")

    before = signal.signal(signal.SIGALRM, end)
    faulthandler.dump_traceback_later(seconds + LAST_S, exit=True, file=sys.__stderr__ or sys.stderr)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
