"""Arrays that a policy may read and not write."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray

Array = TypeVar("Array", IntArray, FloatArray, BoolArray)


def read_only(array: Array) -> Array:
    """A view of the same array that refuses writes, for good; the array itself stays as it is.

    Its base is a read-only memory view, so that numpy refuses ``flags.writeable = True`` too.
    """
    return np.asarray(array.data.toreadonly())


Record = TypeVar("Record")


def read_only_record(record: Record) -> Record:
    """A copy of a dataclass, and of those in it, whose arrays are read-only views of the same data."""
    assert is_dataclass(record)
    assert not isinstance(record, type)
    values: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            values[field.name] = read_only(value)
        elif is_dataclass(value) and not isinstance(value, type):
            values[field.name] = read_only_record(value)
    return replace(record, **values)
