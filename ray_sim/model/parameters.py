"""Named parameters of policies and of the world: declared once, resolved from text or YAML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ray_sim.model.errors import InvalidScenarioError, UnknownNameError, problems_text

Value = bool | int | float | str | tuple[float, ...] | None
Kind = Literal["bool", "int", "float", "choice", "floats", "text"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: what it may be, what it is by default, and where that comes from."""

    name: str
    kind: Kind
    default: Value
    meaning: str
    unit: str = ""
    source: str = ""
    choices: tuple[str, ...] = ()
    minimum: float = -math.inf
    exclusive: bool = False
    """Whether `minimum` itself is refused."""
    maximum: float = math.inf

    def to_dict(self) -> dict[str, Any]:
        """For machine-readable listings."""
        return {
            "name": self.name,
            "type": self.kind,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "unit": self.unit,
            "meaning": self.meaning,
            "source": self.source,
            "choices": list(self.choices),
        }


class _BadValueError(Exception):
    pass


def resolve(owner: str, parameters: Sequence[Parameter], given: Mapping[str, object]) -> dict[str, Value]:
    """Values for all of ``parameters``: those given, parsed and checked, and the defaults.

    Raises
    ------
    UnknownNameError : one unknown name, with the nearest known one
    InvalidScenarioError : every other problem at once
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"parameter of {owner}", name, known)
    values: dict[str, Value] = {}
    problems: list[str] = []
    for parameter in parameters:
        if parameter.name not in given:
            values[parameter.name] = parameter.default
            continue
        try:
            values[parameter.name] = _parse(parameter, given[parameter.name])
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
                raise _BadValueError(f"must be one of {', '.join(parameter.choices)}, got {given!r}")
            return str(given)
        case "floats":
            items = given.split(",") if isinstance(given, str) else given
            if not isinstance(items, Iterable):
                items = [items]
            return tuple(_bounded(parameter, _number(item)) for item in items)
        case "int":
            number = _bounded(parameter, _number(given))
            if number != int(number):
                raise _BadValueError(f"must be a whole number, got {given!r}")
            return int(number)
        case "float":
            return _bounded(parameter, _number(given))
        case "text":
            if not isinstance(given, str) or not given:
                raise _BadValueError(f"must be text, got {given!r}")
            return given


def _parse_bool(given: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and given.lower() in words:
        return words[given.lower()]
    raise _BadValueError(f"must be true or false, got {given!r}")


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise _BadValueError(f"must be a number, got {given!r}")
    try:
        number = float(given)
    except (ValueError, OverflowError):
        raise _BadValueError(f"must be a number, got {given!r}") from None
    if not math.isfinite(number):
        raise _BadValueError(f"must be finite, got {given!r}")
    return number


def _bounded(parameter: Parameter, number: float) -> float:
    if number < parameter.minimum or (parameter.exclusive and number == parameter.minimum):
        bound = "above" if parameter.exclusive else "at least"
        raise _BadValueError(f"must be {bound} {parameter.minimum:g}, got {number:g}")
    if number > parameter.maximum:
        raise _BadValueError(f"must be at most {parameter.maximum:g}, got {number:g}")
    return number
