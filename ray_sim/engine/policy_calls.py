"""Calls of a policy, perhaps a user's: whatever fails there, or is of another type, is named."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numba.core.errors import NumbaError

from ray_sim.engine.contract import Policy
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.interruption import stops
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.errors import BlindPolicyError, RaySimError, RunFailedError, failure_text, place_of
from ray_sim.model.text import cut
from ray_sim.model.units import FloatArray, IntArray

_LARGEST = 2**63
_TIMELINE = ("time_s", "waiting", "running")
"""Columns of every timeline, beside the use of each resource."""
_DECIDING = frozenset({"start", "decide", "wake_on", "slotted"})
"""A subclass that overrides one of these decides by more than the inherited order."""


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A policy's report on a finished run."""

    counts: dict[str, int]
    timeline_columns: dict[str, tuple[IntArray, FloatArray]]
    figures: dict[str, float]
    warnings: tuple[str, ...]


def name_of(policy: Policy) -> str:
    """Name of a policy in messages, also of one whose attributes cannot be read."""
    try:
        return policy.name or type(policy).__name__
    except BaseException:  # a __getattribute__ of its own
        return type(policy).__name__


@contextmanager
def named_failures(policy: Policy) -> Iterator[None]:
    """A bug in a policy as one of our errors that says where it is."""
    try:
        yield
    except BaseException as failure:  # whatever a policy may do wrong
        raise_named(policy, failure)


def raise_named(policy: Policy, failure: BaseException) -> NoReturn:
    """Raise a policy's failure as one of our errors that says where it is; see `named_failures`."""
    blind = isinstance(failure, BlindPolicyError) and failure.place is None
    if (isinstance(failure, RaySimError) or stops(failure)) and not blind:
        raise failure
    place = _place(policy, failure)
    named: RunFailedError
    if blind:
        named = BlindPolicyError(f"{failure} ({place})")
    elif isinstance(failure, NumbaError):
        what = f"a kernel that policy {name_of(policy)} calls does not compile"
        named = RunFailedError(f"{what}: {failure_text(failure)} ({place})")
    else:
        named = RunFailedError(f"policy {name_of(policy)} failed: {failure_text(failure)} ({place})")
    named.place = place
    raise named from failure


def _place(policy: Policy, failure: BaseException) -> str:
    """The last line in the folder of the policy's file that led to a failure, else the last line of all."""
    return place_of(failure, getattr(sys.modules.get(type(policy).__module__), "__file__", None))


def order_of(policy: Policy, world: PolicyContext) -> Order | None:
    """The order rule of a policy that is nothing but one.

    Raises
    ------
    RunFailedError : ``order`` failed, or answered something else
    """
    if not _order_is_all(policy):
        return None
    with named_failures(policy):
        order: object = policy.order(world)
    if order is None or isinstance(order, Order):
        return order
    raise RunFailedError(
        f"policy {name_of(policy)}: order() must return what world.order() gives, "
        f"or None, found {type(order).__name__}"
    )


def _order_is_all(policy: Policy) -> bool:
    """Whether no class below the one that states the order decides anything else."""
    for kind in type(policy).__mro__:
        if "order" in vars(kind):
            return True
        if not _DECIDING.isdisjoint(vars(kind)):
            return False
    return True


def report_of(policy: Policy, of_kind: Collection[str]) -> PolicyReport:
    """Ask a policy for its report on a finished run.

    Parameters
    ----------
    of_kind : columns that the kind of job puts into the timeline

    Raises
    ------
    RunFailedError : a method failed, or answered something else than `Policy` says
    """
    with named_failures(policy):
        return PolicyReport(
            counts=_by_name(policy, "counts", "a whole number below 2^63", _whole),
            timeline_columns=_by_name(
                policy,
                "timeline_columns",
                "a pair of arrays of one length: whole instants that rise, and numbers; under a name that "
                "the timeline has not yet",
                lambda name, value: None if name in of_kind else _column(name, value),
            ),
            figures=_by_name(policy, "figures", "a finite number", _finite),
            warnings=_warnings(policy),
        )


def mapping_of(policy: Policy, method: str) -> dict[str, Any]:
    """The answer of a method that returns values by name."""
    answer = getattr(policy, method)()
    if not isinstance(answer, Mapping):
        raise _wrong(policy, method, "must return a mapping by name", answer)
    for name in answer:
        if not _is_text(name):
            raise _wrong(policy, method, "must return a mapping by name, every name a str", name)
    return dict(answer)


def _by_name(
    policy: Policy, method: str, expected: str, convert: Callable[[str, Any], Any]
) -> dict[str, Any]:
    """The answer, each value converted; a value of which that makes None is not as expected."""
    converted: dict[str, Any] = {}
    for name, value in mapping_of(policy, method).items():
        converted[name] = convert(name, value)
        if converted[name] is None:
            raise _wrong(policy, method, f"must give {expected} as {name!r}", value)
    return converted


def _whole(_: str, value: object) -> int | None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return None
    return int(value) if -_LARGEST <= value < _LARGEST else None


def _finite(_: str, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _column(name: str, value: object) -> tuple[IntArray, FloatArray] | None:
    taken = name in _TIMELINE or name.startswith("used_")
    if taken or not isinstance(value, (tuple, list)) or len(value) != 2:
        return None
    at, numbers = (np.asarray(part) for part in value)
    same_shape = at.ndim == 1 and at.shape == numbers.shape
    if not same_shape or at.dtype.kind != "i" or numbers.dtype.kind not in "if" or (np.diff(at) < 0).any():
        return None
    return at.astype(np.int64), numbers.astype(np.float64)


def _warnings(policy: Policy) -> tuple[str, ...]:
    answer = policy.warnings()
    if not isinstance(answer, (list, tuple)):
        raise _wrong(policy, "warnings", "must return a list of sentences", answer)
    for text in answer:
        if not _is_text(text):
            raise _wrong(policy, "warnings", "must return a list of sentences, each a str", text)
    return tuple(answer)


def _is_text(value: object) -> bool:
    """Whether it is a str that can be written to a file."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _wrong(policy: Policy, method: str, expected: str, found: object) -> RunFailedError:
    kind = type(found).__name__
    shown = f"{kind} {found!r}" if isinstance(found, (int, float, str, np.generic)) else kind
    return RunFailedError(cut(f"policy {name_of(policy)}: {method}() {expected}, found {shown}"))
