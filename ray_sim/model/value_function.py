"""Value functions of announced jobs: what a completion is worth, by the time after the birth.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
section 2: values never increase with the finish time and are 0 in the end. The forms are ours.

A completion exactly at a deadline still earns: a function is left-continuous, and 0 strictly after `end_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import polars as pl

from ray_sim.model.text import number_of, short_text
from ray_sim.model.units import MAX_TIME_S, FloatArray

MAX_WORTH = 2**30
"""Largest worth of a completion in units; in 1e-9 of a unit it fits into 64 bits."""

MAX_RATE_PER_S = 2**20
"""Largest rate of a sigmoid."""

VALUE_FORM = (
    "deadline V D, step V1@D1 V2@D2 ..., linear V D0 D1, sigmoid V RATE DUE END or table D0:V0 D1:V1 ..., "
    "in units and seconds after the birth"
)
"""Forms that `parse_value` reads, for messages."""


class Shape(Enum):
    """Course of a value function between its points."""

    STEPS = "steps"
    """The worth of a point holds from the point before until its time."""
    LINES = "lines"
    """Straight lines between the points; the first worth before the first point."""
    SIGMOID = "sigmoid"
    """worth / (1 + exp(rate (d - due))), with the points (worth, due) and (0, end)."""


@dataclass(frozen=True, slots=True)
class ValueFunction:
    """Worth of a completion by seconds after the birth: non-increasing, >= 0, and 0 after `end_s`."""

    shape: Shape
    time_s: tuple[float, ...]
    """Times of the points, strictly increasing."""
    worth: tuple[float, ...]
    """Worth at each point in units, non-increasing; see `Shape`."""
    rate_per_s: float = 0.0
    """Rate of a sigmoid; 0 for other shapes."""

    @property
    def end_s(self) -> float:
        """Last time with a worth; strictly after it the worth is 0."""
        return self.time_s[-1]

    def at(self, delay_s: FloatArray) -> FloatArray:
        """Worth of completions this long after the birth, in units.

        Parameters
        ----------
        delay_s : any shape; negative delays count as 0, infinite ones are allowed
        """
        within = np.clip(delay_s, 0.0, self.end_s)
        match self.shape:
            case Shape.STEPS:
                values = self._steps(within)
            case Shape.LINES:
                values = self._lines(within)
            case Shape.SIGMOID:
                values = self.worth[0] * remaining_share(self.rate_per_s * (within - self.time_s[0]))
        return np.where(delay_s > self.end_s, 0.0, values)

    def _steps(self, within: FloatArray) -> FloatArray:
        step = np.searchsorted(np.array(self.time_s), within, side="left")
        values: FloatArray = np.array(self.worth)[step]
        return values

    def _lines(self, within: FloatArray) -> FloatArray:
        time_s, worth = np.array(self.time_s), np.array(self.worth)
        after = np.searchsorted(time_s, within, side="left")
        before = np.maximum(after - 1, 0)
        length = np.where(after > 0, time_s[after] - time_s[before], 1.0)
        share = np.where(after > 0, (within - time_s[before]) / length, 0.0)
        drawn = worth[before] + (worth[after] - worth[before]) * share
        values: FloatArray = np.maximum(drawn, worth[after])  # rounding must not end a line below its point
        return values

    def __str__(self) -> str:
        """A text from which `parse_value` makes an equal function."""
        time_s, worth = map(short_text, self.time_s), map(short_text, self.worth)
        match self.shape:
            case Shape.STEPS if len(self.worth) == 1:
                return f"deadline {next(worth)} {next(time_s)}"
            case Shape.STEPS:
                return " ".join(["step", *(f"{v}@{d}" for d, v in zip(time_s, worth, strict=True))])
            case Shape.LINES:
                return " ".join(["table", *(f"{d}:{v}" for d, v in zip(time_s, worth, strict=True))])
            case Shape.SIGMOID:
                return " ".join(["sigmoid", next(worth), short_text(self.rate_per_s), *time_s])


def parse_value(text: str) -> ValueFunction:
    """Parse a value function.

    ========================  ============================================================
    deadline V D              V until D, then 0
    step V1@D1 V2@D2 ...      V1 until D1, V2 until D2, ..., then 0
    linear V D0 D1            V until D0, 0 at D1, a line between
    sigmoid V RATE DUE END    V / (1 + exp(RATE (d - DUE))) until END, then 0
    table D0:V0 D1:V1 ...     V0 until D0, lines between the points, 0 after the last
    ========================  ============================================================

    Parameters
    ----------
    text : V in 0 .. `MAX_WORTH` units, D in 0 .. `MAX_TIME_S` seconds after the birth, RATE in 0 ..
        `MAX_RATE_PER_S` per second

    Raises
    ------
    ValueError : another form, a number out of range, times that do not increase or a worth that does; the
        text says which point
    """
    form, *parts = text.split() or [""]
    if form not in _READERS:
        raise ValueError(f"begins with {form[:20]!r}, which is no form; must be {VALUE_FORM}")
    return _READERS[form](parts)


def value_faults(texts: pl.Series) -> Mapping[int, str]:
    """What is wrong with each text that `parse_value` refuses, by its index."""
    faults = {}
    for index, text in enumerate(texts):
        try:
            parse_value(text)
        except ValueError as error:
            faults[index] = str(error)
    return faults


def _deadline(parts: Sequence[str]) -> ValueFunction:
    worth, due_s = _fields("deadline V D", parts)
    return _checked(Shape.STEPS, (_time_s(due_s),), (_worth(worth),))


def _step(parts: Sequence[str]) -> ValueFunction:
    points = [_pair(part, "@", "step V1@D1 V2@D2 ...") for part in parts]
    return _of_points(Shape.STEPS, [(due_s, worth) for worth, due_s in points])


def _table(parts: Sequence[str]) -> ValueFunction:
    return _of_points(Shape.LINES, [_pair(part, ":", "table D0:V0 D1:V1 ...") for part in parts])


def _linear(parts: Sequence[str]) -> ValueFunction:
    worth, full_s, end_s = _fields("linear V D0 D1", parts)
    return _checked(Shape.LINES, (_time_s(full_s), _time_s(end_s)), (_worth(worth), 0.0))


def _sigmoid(parts: Sequence[str]) -> ValueFunction:
    worth, rate, due_s, end_s = _fields("sigmoid V RATE DUE END", parts)
    rate_per_s = _number(rate, "RATE", MAX_RATE_PER_S)
    return _checked(Shape.SIGMOID, (_time_s(due_s), _time_s(end_s)), (_worth(worth), 0.0), rate_per_s)


_READERS: dict[str, Callable[[Sequence[str]], ValueFunction]] = {
    "deadline": _deadline,
    "step": _step,
    "linear": _linear,
    "sigmoid": _sigmoid,
    "table": _table,
}


def _of_points(shape: Shape, points: Sequence[tuple[str, str]]) -> ValueFunction:
    if not points:
        raise ValueError("has no points; must have at least one")
    return _checked(shape, tuple(_time_s(d) for d, _ in points), tuple(_worth(v) for _, v in points))


def _checked(
    shape: Shape, time_s: tuple[float, ...], worth: tuple[float, ...], rate_per_s: float = 0.0
) -> ValueFunction:
    """The function, if its times increase and its worth does not."""
    for k in range(1, len(time_s)):
        if time_s[k] <= time_s[k - 1]:
            raise ValueError(
                f"point {k + 1}: time {time_s[k]:g} must be above {time_s[k - 1]:g}, that of point {k}"
            )
        if worth[k] > worth[k - 1]:
            raise ValueError(
                f"point {k + 1}: worth {worth[k]:g} is above {worth[k - 1]:g}, that of point {k}; "
                "a later completion must not be worth more"
            )
    return ValueFunction(shape, time_s, worth, rate_per_s)


def _fields(form: str, parts: Sequence[str]) -> Sequence[str]:
    if len(parts) != form.count(" "):
        raise ValueError(f"must be {form}, has {len(parts)} numbers")
    return parts


def _pair(part: str, between: str, form: str) -> tuple[str, str]:
    first, found, second = part.partition(between)
    if not found:
        raise ValueError(f"must be {form}; cannot read {part[:40]!r}")
    return first, second


def _time_s(text: str) -> float:
    return _number(text, "time", MAX_TIME_S)


def _worth(text: str) -> float:
    return _number(text, "worth", MAX_WORTH)


def _number(text: str, what: str, most: float) -> float:
    try:
        number = number_of(text)
    except ValueError:
        raise ValueError(f"{what} {text[:40]!r} is no number") from None
    if not 0 <= number <= most:
        raise ValueError(f"{what} must be in 0 .. {most:,}, is {number:g}")
    return number + 0.0  # no negative zero


def remaining_share(late: FloatArray) -> FloatArray:
    """Share 1 / (1 + exp(late)) that a sigmoid has left; it never overflows."""
    small = np.exp(-np.abs(late))
    share: FloatArray = np.where(late > 0, small, 1.0) / (1.0 + small)
    return share
