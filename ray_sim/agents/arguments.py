"""Checks of what a user gives to agents and environments."""

from __future__ import annotations

from collections.abc import Iterable

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


def switch(name: str, given: object) -> bool:
    """The truth value as a plain one; other objects, though true or false to Python, are refused.

    Raises
    ------
    InvalidInputError : it is neither True nor False
    """
    if isinstance(given, bool | np.bool_):
        return bool(given)
    raise InvalidInputError(f"{name}: must be True or False, got {given!r}")


def names_in(name: str, given: object) -> tuple[str, ...]:
    """The names; a text alone, each letter of which would be one, is refused.

    Raises
    ------
    InvalidInputError : it is no list of texts
    """
    if isinstance(given, Iterable) and not isinstance(given, str):
        names = tuple(given)
        if all(isinstance(each, str) for each in names):
            return names
    raise InvalidInputError(f"{name}: must be a list of names, got {given!r}")
