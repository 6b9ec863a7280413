"""Distributions of the numbers and texts of a training profile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from workloads.schema import MAX_COUNT, Column

FORMS = (
    "a value, [LOW, HIGH], {whole: [LOW, HIGH]}, {whole: [LOW, HIGH], times: X}, {times: X, column: NAME} "
    "or {mix: [{weight: W, value: ...}, ...]}"
)
"""Forms of a distribution in a profile file, for error messages."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A fixed number or text."""

    value: float | str


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform from `low` to `high`; whole numbers include both ends."""

    low: float
    high: float
    whole: bool = False

    def at(self, uniform: FloatArray, low: FloatArray | None = None) -> FloatArray:
        """The draw for each number in [0, 1); ``low`` is another lower end, at most `high`."""
        start = np.full(len(uniform), self.low) if low is None else low
        if not self.whole:
            return start + uniform * (self.high - start)
        values: FloatArray = np.minimum(np.floor(start + uniform * (self.high - start + 1)), self.high)
        return values


@dataclass(frozen=True, slots=True)
class WholeUnits:
    """A whole number of units, such as of slots: the count times the unit."""

    count: Uniform
    """Range of the count, whole numbers."""
    unit: float
    """> 0."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """A constant times the job's value of another column."""

    times: float
    column: str


@dataclass(frozen=True, slots=True)
class Mixture:
    """One of several distributions, chosen by weight."""

    weights: tuple[float, ...]
    parts: tuple[Part, ...]


Part = Constant | Uniform | WholeUnits
"""A draw that needs no other."""

Draw = Part | Multiple | Mixture


def choose(weights: Sequence[float], uniform: FloatArray) -> tuple[IntArray, FloatArray]:
    """Index of the part that each number in [0, 1) falls into, and where in that part, in [0, 1)."""
    upper = np.cumsum(weights) / math.fsum(weights)
    upper[-1] = 1.0
    part = np.searchsorted(upper, uniform, side="right")
    lower = np.concatenate([[0.0], upper[:-1]])
    within = (uniform - lower[part]) / (upper[part] - lower[part])
    return part, np.minimum(within, 1 - 2.0**-53)


def numbers(draw: Draw, uniform: FloatArray, drawn: Mapping[str, FloatArray]) -> FloatArray:
    """The numbers that a draw gives.

    Parameters
    ----------
    uniform : (N,) in [0, 1)
    drawn : (N,) each, columns that a `Multiple` may refer to
    """
    match draw:
        case Constant(value):
            return np.full(len(uniform), float(value))
        case Uniform():
            return draw.at(uniform)
        case WholeUnits(count, unit):
            return unit * count.at(uniform)
        case Multiple(times, column):
            return times * drawn[column]
        case Mixture(weights, parts):
            chosen, within = choose(weights, uniform)
            values = np.empty(len(uniform))
            for index, part in enumerate(parts):
                of_part = chosen == index
                values[of_part] = numbers(part, within[of_part], {})
            return values


def texts(draw: Draw, uniform: FloatArray) -> list[str]:
    """The texts that a draw of texts gives."""
    if isinstance(draw, Mixture):
        chosen, _ = choose(draw.weights, uniform)
        names = [str(part.value) for part in draw.parts if isinstance(part, Constant)]
        return [names[index] for index in chosen]
    assert isinstance(draw, Constant)
    return [str(draw.value)] * len(uniform)


def draw_range(draw: Draw) -> tuple[float, float]:
    """The least and the largest number that a draw gives; a multiple's are not known."""
    match draw:
        case Constant(value):
            return float(value), float(value)
        case Uniform(low, high):
            return low, high
        case WholeUnits(count, unit):
            return unit * count.low, unit * count.high
        case Mixture(_, parts):
            of_parts = [draw_range(part) for part in parts]
            return min(low for low, _ in of_parts), max(high for _, high in of_parts)
        case Multiple():
            return -math.inf, math.inf


def parse_draw(given: object, column: Column) -> Draw:
    """A draw as a file has it, for a column.

    Raises
    ------
    ValueError : another form, or values that the column must not hold; the text says which
    """
    match given:
        case {"mix": [_, *_] as entries, **rest} if not rest:
            return _mixture(entries, column)
        case {"times": int() | float() as times, "column": str(name), **rest} if not rest:
            if not column.is_number or column.is_whole:
                raise ValueError(f"must be {_wanted(column)}, got a multiple")
            if not (math.isfinite(times) and times > 0):
                raise ValueError(f"times: must be above 0, got {times}")
            return Multiple(float(times), name)
        case _:
            return _part(given, column)


def _mixture(entries: Sequence[object], column: Column) -> Mixture:
    weights, parts = [], []
    for index, entry in enumerate(entries):
        match entry:
            case {"weight": int() | float() as weight, "value": value, **rest} if not rest:
                if not (math.isfinite(weight) and weight > 0):
                    raise ValueError(f"mix[{index}].weight: must be above 0, got {weight}")
                weights.append(float(weight))
                try:
                    parts.append(_part(value, column))
                except ValueError as error:
                    raise ValueError(f"mix[{index}].value: {error}") from error
            case _:
                raise ValueError(f"mix[{index}]: must be {{weight: W, value: ...}}, got {entry!r}")
    return Mixture(tuple(weights), tuple(parts))


def _part(given: object, column: Column) -> Part:
    match given:
        case [_, _] if column.is_number:
            return _range(given, column, whole=column.is_whole)
        case {"whole": [_, _] as ends, **rest} if column.is_number and not rest:
            return _range(ends, column, whole=True)
        case {"whole": [_, _] as counts, "times": unit, **rest} if column.is_number and not rest:
            return _whole_units(counts, unit, column)
        case dict() | list():
            raise ValueError(f"must be {FORMS}, got {given!r}")
        case _:
            return Constant(_value(given, column, whole=column.is_whole))


def _range(ends: Sequence[object], column: Column, *, whole: bool) -> Uniform:
    low, high = (_value(end, column, whole=whole) for end in ends)
    assert isinstance(low, float)
    assert isinstance(high, float)
    return _rising(Uniform(low, high, whole))


def _whole_units(counts: Sequence[object], unit: object, column: Column) -> WholeUnits:
    assert column.maximum is not None
    if not _is_number(unit) or not 0 < unit <= column.maximum or (column.is_whole and unit != int(unit)):
        kind = "a whole number" if column.is_whole else "a number"
        raise ValueError(f"times: must be {kind} above 0 and at most {column.maximum:.10g}, got {unit!r}")
    ends: list[float] = []
    for count in counts:
        if not _is_number(count) or not 0 <= count <= MAX_COUNT or count != int(count):
            raise ValueError(f"whole: must be whole numbers from 0 to {MAX_COUNT}, got {count!r}")
        _value(unit * count, column, whole=column.is_whole)
        ends.append(float(count))
    low, high = ends
    return WholeUnits(_rising(Uniform(low, high, whole=True)), float(unit))


def _rising(draw: Uniform) -> Uniform:
    if draw.low > draw.high:
        raise ValueError(f"must be [LOW, HIGH] with LOW at most HIGH, got [{draw.low:g}, {draw.high:g}]")
    return draw


def _is_number(given: object) -> TypeGuard[int | float]:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _value(given: object, column: Column, *, whole: bool) -> float | str:
    if not column.is_number:
        if not isinstance(given, str) or not column.holds(given):
            raise ValueError(f"must be {_wanted(column)}, got {given!r}")
        return given
    assert column.minimum is not None
    assert column.maximum is not None
    if _is_number(given):
        inside = column.minimum <= given <= column.maximum
        if inside and (not whole or given == int(given)):
            return float(given)
    kind = "a whole number" if whole else "a number"
    ends = f"from {column.minimum:.10g} to {column.maximum:.10g}"
    raise ValueError(f"must be {kind} {ends}{f' {column.unit}' if column.unit else ''}, got {given!r}")


def _wanted(column: Column) -> str:
    if column.is_number:
        return "a whole number" if column.is_whole else "a number"
    return column.wanted_text
