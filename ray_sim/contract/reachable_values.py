"""All that can be reached from an object by its public attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

import numpy as np
import polars as pl

from ray_sim.model.errors import RaySimError

_SCALARS = (bool, int, float, str, bytes, type(None), np.generic, Enum)


def values_within(
    value: object, name: str, seen: set[int] | None = None, *, computed: bool = True
) -> Iterator[tuple[str, object]]:
    """Arrays, series and scalars with the expressions that lead to them.

    Follows public attributes of this package's objects, items of mappings and of sequences. Attributes that
    may not be read count as None.

    Parameters
    ----------
    computed : also properties; else records are followed by their fields, private ones among them
    """
    seen = set() if seen is None else seen
    if isinstance(value, (np.ndarray, pl.Series, *_SCALARS)):
        yield name, value
    elif id(value) in seen:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from values_within(item, f"{name}[{key!r}]", seen, computed=computed)
    elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        for i, item in enumerate(value):
            yield from values_within(item, f"{name}[{i}]", seen, computed=computed)
    elif type(value).__module__.partition(".")[0] == "ray_sim" and not isinstance(value, type):
        seen.add(id(value))
        for attribute in _attributes(value, computed):
            found = _read(value, attribute)
            # A property may give a variant of the whole object, without end.
            if type(found) is not type(value):
                yield from values_within(found, f"{name}.{attribute}", seen, computed=computed)


def _attributes(value: object, computed: bool) -> list[str]:
    if not computed and is_dataclass(value):
        return [field.name for field in fields(value)]
    return [name for name in dir(value) if not name.startswith("_")]


def _read(value: object, attribute: str) -> object:
    """An attribute; None where the world or the policy has it not, or it is a method."""
    try:
        found = getattr(value, attribute)
    except (RaySimError, AssertionError, AttributeError):
        return None
    return None if callable(found) else found


class Watch:
    """Finds what changes in a record, also where an equal array takes the place of another."""

    def __init__(self, value: object, name: str) -> None:
        self._value, self._name = value, name
        self._given = {path: (found, content_of(found)) for path, found in self._values().items()}

    def changed(self) -> list[str]:
        """Expressions that lead to something else than at first, or did or do not lead anywhere."""
        now = self._values()
        return [path for path in {**self._given, **now} if not self._same(path, now)]

    def _values(self) -> dict[str, object]:
        return dict(values_within(self._value, self._name, computed=False))

    def _same(self, path: str, now: Mapping[str, object]) -> bool:
        if path not in now or path not in self._given:
            return False
        given, content = self._given[path]
        return content_of(now[path]) == content and (now[path] is given or not isinstance(given, np.ndarray))


def content_of(found: object) -> tuple[object, ...]:
    """Content of a value, equal by ``==`` for equal values of one type, NaN included; records by field."""
    if isinstance(found, np.ndarray):
        if found.dtype.hasobject:
            return found.dtype.str, found.shape, repr(found.tolist())
        return found.dtype.str, found.shape, found.tobytes()
    if isinstance(found, pl.Series):
        return str(found.dtype), repr(found.to_list())
    if isinstance(found, (tuple, list)):
        return type(found), *map(content_of, found)
    if is_dataclass(found) and not isinstance(found, type):
        return type(found), *(content_of(getattr(found, field.name)) for field in fields(found))
    return type(found), repr(found)
