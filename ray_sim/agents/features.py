"""Entries of observations: their names, shapes and ranges, and what a world must have for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.agents.arguments import names_in
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.model.units import MAX_TIME_S, QUANTA_PER_UNIT, US_PER_S, FloatArray, IntArray

F32 = npt.NDArray[np.float32]

ACTION_MASK = "action_mask"
"""Name of the entry that is always there: 1 where an action is valid."""

MOST_TASKS = float(2**20)
"""Largest number of jobs, or of tasks of one role, that a space declares."""

MOST_GANG = 2.0 * MOST_TASKS
"""The same of the tasks of a gang, which may have two roles."""

_MOST_UNITS = float(2**60)


class Feature(NamedTuple):
    """One entry of observations."""

    shape: tuple[int, ...]
    high: float
    """Largest value; the smallest is 0."""


class Needs(NamedTuple):
    """What an entry needs."""

    sees: frozenset[str]
    """Names for `Policy.sees`."""
    missing: Callable[[PolicyContext], str | None]
    """Says why a world does not have it, None where it does."""


def _nothing_missing(world: PolicyContext) -> str | None:
    return None


def _no_models(world: PolicyContext) -> str | None:
    if "model_names" not in dir(world.jobs):
        return "jobs of this world are not elastic (truth=placement), so they have no model"
    return None if len(world.jobs.model_names) else "the workload has no values in its column model"


FREE = Needs(frozenset(), _nothing_missing)
DURATION = Needs(frozenset({"duration_s"}), _nothing_missing)
MODEL = Needs(frozenset({"training_profile"}), _no_models)


def sees_of(observe: Iterable[str] | None, known: Mapping[str, Needs]) -> frozenset[str]:
    """What a policy with these entries declares in `sees`; None stands for all that are not optional.

    Raises
    ------
    InvalidInputError : it is no list of names
    UnknownNameError : there is no such entry
    """
    names = known if observe is None else names_in("observe", observe)
    for name in names:
        if name not in known:
            raise UnknownNameError("observation", name, known)
    return frozenset().union(*(known[name].sees for name in names))


def chosen(
    observe: Sequence[str] | None, default: Sequence[str], known: Mapping[str, Needs], world: PolicyContext
) -> tuple[str, ...]:
    """Names of the entries in a world: those asked for, or those of the default that the world has.

    Raises
    ------
    UnknownNameError : there is no such entry
    InvalidScenarioError : the world does not have one that is asked for
    """
    if observe is None:
        return tuple(name for name in default if known[name].missing(world) is None)
    sees_of(observe, known)
    for name in observe:
        reason = known[name].missing(world)
        if reason is not None:
            raise InvalidScenarioError(f"observation '{name}': {reason}; leave it out of `observe`")
    return tuple(dict.fromkeys(observe))


def units(world: PolicyContext, scaled: bool) -> FloatArray:
    """(R,) value shown for a quantum: in units of the cluster file, or as a share of the largest server."""
    if not scaled:
        return np.array([1.0 / QUANTA_PER_UNIT[name] for name in world.cluster.resources])
    most: FloatArray = world.cluster.capacity.max(axis=0).astype(np.float64)
    share: FloatArray = np.divide(1.0, most, out=np.zeros_like(most), where=most > 0)
    return share


def most_units(scaled: bool) -> float:
    """Largest amount of a resource that a space declares."""
    return MOST_TASKS if scaled else _MOST_UNITS


def times(us: IntArray, scaled: bool) -> F32:
    """Seconds, or with ``scaled`` the logarithm of 1 + seconds to base 10, from microseconds."""
    seconds = us / US_PER_S
    return (np.log10(1.0 + seconds) if scaled else seconds).astype(np.float32)


def most_time(scaled: bool) -> float:
    """Largest time that a space declares."""
    return float(np.log10(1.0 + MAX_TIME_S)) + 1.0 if scaled else float(2 * MAX_TIME_S)


def engine_world(world: PolicyContext) -> World:
    """The world behind what a policy sees, for kernels, which take writable arrays."""
    return world._world
