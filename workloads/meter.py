"""Progress of a conversion in megabytes read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workloads.files import text_bytes
from workloads.progress import Portions, Progress, silent

BYTES_PER_MB = 1_000_000


class Meter:
    """Megabytes of a trace's files that have been read, plus further work counted as bytes.

    The value is an estimate within a packed file and exact at the end of each file.
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
        done = min(self._done + within, self._total)
        now = int(done) // BYTES_PER_MB, self._what
        if now != self._reported:
            self._reported = now
            self._progress(now[0], max(1, self._total // BYTES_PER_MB), self._what)
