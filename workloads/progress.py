"""Type of progress callbacks for work on workload rows or trace files."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with the rows or percent done, their total, and the name of the current step."""

Portions = Callable[[int, int], None]
"""Called with the portions of a step done, and their number."""


def silent(done: int, total: int, step: str) -> None:
    """Ignore the progress."""


def untold(done: int, portions: int) -> None:
    """Ignore the portions done."""
