"""Seconds of printed facts as days, hours, minutes and seconds, for pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ray_sim.model.readable import duration

_SECONDS = re.compile(r" s(?=$|,)")
"""The unit in a label such as ``JCT s, mean`` or ``makespan s``."""


def in_human_units(rows: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Rows (label, value) with values in seconds as durations, and labels without the unit."""
    return [
        (_SECONDS.sub("", label), duration(value))
        if isinstance(value, int | float) and _SECONDS.search(label)
        else (label, value)
        for label, value in rows
    ]
