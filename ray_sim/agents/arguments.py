"""Checks of arguments that a user passes to environments and agents.

`ray_sim/environments` and the modules of `ray_sim/agents` call them. Each returns a plain Python value or
raises an error that begins with the argument's name. A check that only one module needs belongs there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ray_sim.model.errors import InvalidInputError

MOST_ROWS = 2**20
"""Largest number of rows of jobs in an observation."""


def whole_number(name: str, given: object, least: int, most: int) -> int:
    """Return the number as an int. Floats, 2.0 too, and booleans are refused.

    Raises
    ------
    InvalidInputError : it is no whole number from ``least`` to ``most``
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        number = int(given)
        if least <= number <= most:
            return number
    raise InvalidInputError(f"{name}: must be a whole number from {least:,} to {most:,}, got {given!r}")


def switch(name: str, given: object) -> bool:
    """Return the boolean as a Python one. Numbers and other objects are refused.

    Raises
    ------
    InvalidInputError : it is neither True nor False
    """
    if isinstance(given, bool | np.bool_):
        return bool(given)
    raise InvalidInputError(f"{name}: must be True or False, got {given!r}")


def names_in(name: str, given: object) -> tuple[str, ...]:
    """Return the names. A single text is refused: each of its letters would be a name.

    Raises
    ------
    InvalidInputError : it is no list of texts
    """
    if isinstance(given, Iterable) and not isinstance(given, str):
        names = tuple(given)
        if all(isinstance(each, str) for each in names):
            return names
    raise InvalidInputError(f"{name}: must be a list of names, got {given!r}")
