"""Readable text of numbers and lists, as all reports print them."""

from __future__ import annotations

from collections.abc import Sequence

from ray_sim.model.readable import duration as duration
from ray_sim.model.readable import number as number


def first_and_others(names: Sequence[str]) -> str:
    """The first name and the number of others, e.g. ``a.npz and 3 others``."""
    others = len(names) - 1
    return names[0] if not others else f"{names[0]} and {others} other{'s' if others > 1 else ''}"
