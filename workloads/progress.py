"""Type of progress callbacks for work on workload rows or trace files."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with the rows or megabytes done, their total, and the name of the current step."""


def silent(done: int, total: int, step: str) -> None:
    """Ignore the progress."""
