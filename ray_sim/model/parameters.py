"""Named parameters of policies and of the world, declared once and resolved from text or YAML.

Policies and worlds declare their parameters; the readers of scenarios and of ``-p KEY=VALUE`` call
`resolve`. Names, kinds and ranges are part of scenario files. The keys of `Parameter.to_dict`
are part of the JSON output.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError, problems_text
from ray_sim.model.text import number_of
from ray_sim.model.units import MAX_TIME_S, US_PER_S, seconds_to_us

Value = bool | int | float | str | tuple[float, ...] | None
Kind = Literal["bool", "int", "float", "choice", "floats", "text"]

MAX_NUMBER = 2**53
"""Default maximum of a parameter. Up to it, every whole number is exact as a float."""

MAX_FACTOR = 1000.0
"""The largest factor on speeds and capacities; with it, sums over a cluster still fit in 64 bits."""

SECONDS = "s"
"""Unit of times. A time is at most `MAX_TIME_S`, and not between 0 and `SHORTEST_S`.

The unit sets no minimum: a time that must not be negative declares ``minimum=0``.
"""

SHORTEST_S = 1 / US_PER_S
"""Shortest time: one microsecond, the resolution of the clock."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its kind, range, default, meaning and source.

    The range applies to ``int`` and ``float``, and to each item of ``floats``; `choices` to ``choice`` only.
    `resolve` does not check `default`; a default of None also allows None as a given value.
    """

    name: str
    kind: Kind
    default: Value
    meaning: str
    unit: str = ""
    source: str = ""
    choices: tuple[str, ...] = ()
    minimum: float = -MAX_NUMBER
    exclusive: bool = False
    """Whether the range excludes `minimum` itself."""
    maximum: float = MAX_NUMBER

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            kinds = ", ".join(get_args(Kind))
            raise InvalidInputError(f"parameter {self.name}: kind must be one of {kinds}, got {self.kind!r}")

    @property
    def largest(self) -> float:
        """Largest value: `maximum`, and at most `MAX_TIME_S` for a time."""
        return min(self.maximum, MAX_TIME_S) if self.unit == SECONDS else self.maximum

    @property
    def range_text(self) -> str:
        """Range of a number, e.g. ``above 0, at most 1,000 s``; empty for other kinds."""
        if self.kind not in ("int", "float", "floats"):
            return ""
        bound = "above" if self.exclusive else "at least"
        return f"{bound} {_plain(self.minimum)}, at most {_plain(self.largest)} {self.unit}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dict for machine-readable listings."""
        return {
            "name": self.name,
            "type": self.kind,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "unit": self.unit,
            "range": self.range_text,
            "meaning": self.meaning,
            "source": self.source,
            "choices": list(self.choices),
        }


class _BadValueError(Exception):
    pass


def resolve(owner: str, parameters: Sequence[Parameter], given: Mapping[str, object]) -> dict[str, Value]:
    """Values of all parameters by name: the given ones, parsed and checked, and the defaults of the others.

    Parameters
    ----------
    owner : name of the policy or world, for error messages
    given : text or YAML values by name; ``floats`` as a list or as text with commas

    Raises
    ------
    UnknownNameError : the first unknown name, with the nearest known name
    InvalidScenarioError : all other problems together
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"parameter of {owner}", str(name), known)  # YAML has keys of other types
    values: dict[str, Value] = {}
    problems: list[str] = []
    for parameter in parameters:
        if parameter.name not in given:
            values[parameter.name] = parameter.default
            continue
        try:
            value = given[parameter.name]
            plain = value.item() if isinstance(value, np.generic) else value
            values[parameter.name] = _parse(parameter, plain)
        except _BadValueError as problem:
            problems.append(f"{parameter.name}: {problem}")
    if problems:
        raise InvalidScenarioError(problems_text(f"parameters of {owner}", problems))
    return values


def _parse(parameter: Parameter, given: object) -> Value:
    if given is None and parameter.default is None:
        return None
    match parameter.kind:
        case "bool":
            return _parse_bool(given)
        case "choice":
            if given not in parameter.choices:
                raise _BadValueError(f"must be one of {', '.join(parameter.choices)}, got {_shown(given)}")
            return str(given)
        case "floats":
            items = given.split(",") if isinstance(given, str) else given
            if not isinstance(items, Iterable):
                items = [items]
            return tuple(_bounded(parameter, item) for item in items)
        case "int":
            number = _bounded(parameter, given)
            if number != int(number):
                raise _BadValueError(f"must be a whole number, got {_shown(given)}")
            return int(number)
        case "float":
            return _bounded(parameter, given)
        case "text":
            if not isinstance(given, str) or not given:
                raise _BadValueError(f"must be text, got {_shown(given)}")
            return given


def _parse_bool(given: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and given.lower() in words:
        return words[given.lower()]
    raise _BadValueError(f"must be true or false, got {_shown(given)}")


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise _BadValueError(f"must be a number, got {_shown(given)}")
    try:
        return number_of(given) if isinstance(given, str) else float(given)
    except ValueError:
        raise _BadValueError(f"must be a number, got {_shown(given)}") from None
    except OverflowError:  # a whole number beyond all floats
        return math.inf if isinstance(given, int) and given > 0 else -math.inf


def _bounded(parameter: Parameter, given: object) -> float:
    """Number within the parameter's range; NaN and infinite numbers are outside every range."""
    number = _number(given)
    above = number > parameter.minimum if parameter.exclusive else number >= parameter.minimum
    if not (above and number <= parameter.largest):
        raise _BadValueError(f"must be {parameter.range_text}, got {_shown(given)}")
    if parameter.unit == SECONDS and 0 < number < SHORTEST_S:
        raise _BadValueError(f"must be at least a microsecond, {SHORTEST_S:g} s, got {_shown(given)}")
    return number


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


def _shown(given: object) -> str:
    """Shortened text of the given value."""
    try:
        return reprlib.repr(given)
    except ValueError:
        return "a number of thousands of digits"  # more than Python prints


def microseconds(seconds: Value) -> int | None:
    """Whole microseconds of a value in seconds; None if the value is not a number."""
    return int(seconds_to_us(seconds)) if isinstance(seconds, (int, float)) else None
