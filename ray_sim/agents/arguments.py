"""Checks of numbers that a user gives to agents and environments."""

from __future__ import annotations

import numpy as np

from ray_sim.model.errors import InvalidInputError

MOST_ROWS = 2**20
"""Largest number of rows of jobs in an observation."""


def whole_number(name: str, given: object, least: int, most: int) -> int:
    """The number as a plain one; fractions and truth values are refused, also those that would be whole.

    Raises
    ------
    InvalidInputError : it is no whole number from ``least`` to ``most``
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        number = int(given)
        if least <= number <= most:
            return number
    raise InvalidInputError(f"{name}: must be a whole number from {least:,} to {most:,}, got {given!r}")
