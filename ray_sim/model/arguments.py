"""Checks of the arguments of the Python interface, for errors that name the argument."""

from __future__ import annotations

from numbers import Integral

from ray_sim.model.errors import InvalidInputError


def expect(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise unless an argument is of one of some types.

    Parameters
    ----------
    expected : noun of what is expected, e.g. ``a path``

    Raises
    ------
    InvalidInputError : it is not; a truth value is no number
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is Integral):
        raise InvalidInputError(f"{name}: expected {expected}, found {type(value).__name__}")


def in_range(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise unless an argument is a whole number in a range, both ends included.

    Raises
    ------
    InvalidInputError : it is not
    """
    expect(name, value, Integral, "a whole number")
    assert isinstance(value, Integral)
    if int(value) < low or (high is not None and int(value) > high):
        span = f"at least {low}" if high is None else f"{low} to {high:,}"
        raise InvalidInputError(f"{name}: expected {span}, found {value}")
