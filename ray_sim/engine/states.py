"""State of a run as arrays, and checks of the values of a saved one, before a kernel reads them.

A state's names, types and shapes are compared by `ray_sim.model.array_file.misfit`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import NEVER_US, IntArray

State = dict[str, np.ndarray]
"""Content of a snapshot: arrays only."""


@runtime_checkable
class Stateful(Protocol):
    """Object that a snapshot can hold."""

    def state(self) -> State:
        """Arrays that `restore` takes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""


class Stateless:
    """Base of what has no arrays to save, unless a subclass has some."""

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""


def joined(parts: Mapping[str, Mapping[str, np.ndarray]]) -> State:
    """States of several parts as one, each under its name; `section` takes one out again."""
    return {f"{part}.{name}": array for part, state in parts.items() for name, array in state.items()}


def arrays_of(group: NamedTuple) -> list[tuple[str, np.ndarray]]:
    """Arrays of a group by field; fields that are None have none."""
    return [(name, array) for name, array in group._asdict().items() if array is not None]


def copies(group: NamedTuple) -> State:
    """Copies of the arrays of a group, by field; `overwrite` takes them."""
    return {name: array.copy() for name, array in arrays_of(group)}


def overwrite(group: NamedTuple, state: Mapping[str, np.ndarray]) -> None:
    """Set the arrays of a group, in place, to those of a state."""
    for name, array in arrays_of(group):
        array[:] = state[name]


def section(state: Mapping[str, np.ndarray], name: str) -> State:
    """The entries of a state under ``name.``, without that prefix."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}


FINITE = sys.float_info.max
"""Upper bound of finite numbers."""


class UnfitStateError(InvalidInputError, ValueError):
    """A state with values that no run leads to."""


def within(
    state: Mapping[str, np.ndarray], name: str, low: float | np.ndarray, high: float | np.ndarray
) -> np.ndarray:
    """An array of a state, whose values are all from ``low`` to ``high``, numbers or one for each value.

    Raises
    ------
    UnfitStateError : a value is not, or is NaN
    """
    array = state[name]
    wrong = ~((array >= low) & (array <= high))
    if wrong.any():
        low, high, found = (np.broadcast_to(each, wrong.shape)[wrong][0] for each in (low, high, array))
        raise UnfitStateError(f"{name}: expected {low} to {high}, found {found}")
    return array


def all_within(state: Mapping[str, np.ndarray], low: int = 0) -> None:
    """Refuse numbers of a state below ``low``, and above `NEVER_US` if whole, else that are not finite."""
    for name, array in state.items():
        if array.dtype.kind in "iu":
            within(state, name, low, NEVER_US)
        elif array.dtype.kind == "f":
            within(state, name, low, float(np.finfo(array.dtype).max))


def same(name: str, expected: Sequence[int] | np.ndarray, found: Sequence[int] | np.ndarray) -> None:
    """Refuse values that do not follow from the rest of a state."""
    if not np.array_equal(expected, found):
        raise UnfitStateError(f"{name}: does not follow from the rest of the state")


def sorted_indices(state: Mapping[str, np.ndarray], name: str, count: int) -> np.ndarray:
    """An array of a state that has increasing numbers below ``count``."""
    indices = within(state, name, 0, count - 1)
    same(name, np.unique(indices), indices)
    return indices


def check_heaps(state: Mapping[str, np.ndarray], key: IntArray, base: IntArray) -> IntArray:
    """Check indexed heaps, slices of ``heap`` from ``base`` on; returns (n, 2) heap and job of each place.

    See `ray_sim.kernels.core.heap`: each job is in at most one of them, once, where its position says, and no
    job precedes its parent by (key, job).
    """
    heap, jobs = state["heap"], len(key)
    size = within(state, "size", 0, np.diff(base, append=jobs))
    of = np.repeat(np.arange(len(size)), size)
    place = np.arange(len(of)) - np.repeat(np.cumsum(size) - size, size)
    used: IntArray = heap[base[of] + place]
    within({"heap": used}, "heap", 0, jobs - 1)
    position = np.full(jobs, -1)
    position[used] = place
    same("position", position, state["position"])
    above = heap[base[of] + np.maximum(place - 1, 0) // 2]
    ordered = (key[above] < key[used]) | ((key[above] == key[used]) & (above < used)) | (place == 0)
    if len(np.unique(used)) < len(used) or not ordered.all():
        raise UnfitStateError("heap: has a job twice, or before one that precedes it")
    return np.stack([of, used], axis=1)
