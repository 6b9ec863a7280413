"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 600.0
"""For a condition that comes within seconds on a free machine; on a busy one only a hang takes longer."""


def until(condition: Callable[[], object], what: str) -> None:
    """Return once the condition holds; fail, naming it, if it does not come to hold."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
