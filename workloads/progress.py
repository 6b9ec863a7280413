"""Progress of a conversion in percent of its work, and the types of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from workloads.files import text_bytes

Progress = Callable[[int, int, str], None]
"""Called with the rows or percent done, their total, and the name of the current step."""

Portions = Callable[[int, int], None]
"""Called with the portions of a step done, and their number."""

PORTIONS = 100
"""Portions of the work that are told: percent."""

_ROUNDING = 1e-9


def silent(done: int, total: int, step: str) -> None:
    """Ignore the progress."""


def untold(done: int, portions: int) -> None:
    """Ignore the portions done."""


class Meter:
    """Percent of the work done: files are work by their size, and so is what follows their reading.

    The value is an estimate: a step on all rows counts as much as reading all files. Within a packed file it
    is estimated too.
    """

    def __init__(self, paths: Iterable[Path], progress: Progress = silent) -> None:
        self._sizes = {path: path.stat().st_size for path in paths}
        self._total = self.all_bytes
        self._progress = progress
        self._done = 0.0
        self._size = self._text = self._read = 0
        self._what = ""
        self._reported = (-1, "")

    @property
    def all_bytes(self) -> int:
        """Size of all files."""
        return sum(self._sizes.values())

    def expect(self, size: float) -> None:
        """Add work to the total, as much as reading ``size`` bytes."""
        self._total += int(size)

    def begin(self, path: Path) -> None:
        """Start a file; the file before it counts as read."""
        self.advance(0, f"reading {path.name}")
        self._size, self._text, self._read = self._sizes[path], max(1, text_bytes([path])), 0

    def add(self, size: int) -> None:
        """Record that ``size`` bytes of the file's unpacked text were read."""
        self._read += size
        self._report()

    def advance(self, size: float, what: str) -> None:
        """Finish the current file and work worth ``size`` bytes; ``what`` names the next step."""
        self._done += self._size + size
        self._size = self._read = 0
        self._what = what
        self._report()

    def step(self, size: float, what: str) -> Portions:
        """Start a step worth ``size`` bytes, and return what counts its portions."""
        self.advance(0, what)
        before = self._done

        def count(done: int, portions: int) -> None:
            self._done = before + size * done / portions
            self._report()

        return count

    def _report(self) -> None:
        within = self._size * min(1.0, self._read / self._text) if self._size else 0.0
        done = min((self._done + within) / self._total, 1.0) if self._total else 1.0
        now = int(PORTIONS * done + _ROUNDING), self._what
        if now != self._reported:
            self._reported = now
            self._progress(now[0], PORTIONS, self._what)
