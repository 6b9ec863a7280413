"""Find and construct policies by name or `module:Class`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.parameters import Parameter, resolve
from ray_sim.policy_api import Policy, Wake
from ray_sim.policy_api.worlds import (
    DECLARABLE,
    SCHEDULES,
    jobs_of,
    options_of,
    respects_shares,
    respects_types,
)
from ray_sim.user_code import load, refuse_file, users_code

BUILT_IN: Mapping[str, str] = {
    "fifo": "fifo:Fifo",
    "sjf": "sjf:Sjf",
    "srtf": "srtf:Srtf",
    "las": "las:Las",
    "gittins": "gittins:Gittins",
    "batch": "batch.policy:Batch",
    "chunk_fifo": "chunk_least_loaded:ChunkFifo",
    "chunk_spt": "chunk_least_loaded:ChunkSpt",
    "chunk_earliest_finish": "chunk_finish:ChunkEarliestFinish",
    "chunk_las": "chunk_finish:ChunkLas",
    "chunk_srpt": "chunk_finish:ChunkSrpt",
    "a_online": "a_online:AOnline",
    "drf": "drf:Drf",
    "tetris": "tetris:Tetris",
    "load_balance": "task_placement.gangs:LoadBalance",
    "tetris_packing": "task_placement.gangs:TetrisPacking",
    "lif_linear": "task_placement.least_interference:LifLinear",
    "lif_quad": "task_placement.least_interference:LifQuad",
    "harmony": "harmony.policy:Harmony",
    "dorm": "dorm:Dorm",
    "optimus": "optimus.policy:Optimus",
    "pd_ors": "pd_ors:PdOrs",
    "oasis": "oasis:Oasis",
    "posted_price": "posted_price.policy:PostedPrice",
    "announced_fifo": "announced.announced_fifo:AnnouncedFifo",
    "value_density": "announced.value_density:ValueDensity",
    "max_min": "gavel.policies:MaxMinPolicy",
    "hierarchical": "gavel.policies:HierarchicalPolicy",
    "finish_time_fair": "gavel.policies:FinishTimeFairPolicy",
    "makespan": "gavel.policies:MakespanPolicy",
    "throughput": "gavel.policies:ThroughputPolicy",
    "gavel_fifo": "gavel.policies:GavelFifoPolicy",
    "allox": "gavel.policies:AlloxPolicy",
    "reservation": "announced.reservation:Reservation",
}
"""Module in this package and class, by name. A run imports only the modules of its policy."""

OTHER_NAMES = {
    **dict.fromkeys(("tiresias", "2das", "dlas"), "las"),
    **dict.fromkeys(("fcfs", "backfill"), "fifo"),
    "spt": "sjf",
    "srpt": "srtf",
}
"""Policies by other names that papers give them; errors suggest them."""

ENTRY_POINT_GROUP = "ray_sim.policies"


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """Description of a policy for users."""

    name: str
    section: str
    summary: str
    parameters: tuple[Parameter, ...]
    jobs: tuple[str, ...]
    """Kinds of jobs that it schedules: rigid, elastic, chunked, announced."""
    needs: str
    """Options of `ray-sim run` that it needs; empty if it runs in any world of rigid jobs."""
    sees: tuple[str, ...] = ()
    """Columns and observations that it reads besides arrivals and demands, with default parameters."""
    gpu_types: bool = True
    """Whether it schedules jobs that accept certain GPU types only."""
    gpu_shares: bool = True
    """Whether it schedules jobs whose tasks ask for a share of a GPU, on devices."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dict for machine-readable listings."""
        return {
            "name": self.name,
            "section": self.section,
            "summary": self.summary,
            "jobs": list(self.jobs),
            "needs": self.needs,
            "sees": list(self.sees),
            "gpu_types": self.gpu_types,
            "gpu_shares": self.gpu_shares,
            "parameters": [parameter.to_dict() for parameter in self.parameters],
        }


def policy_classes() -> dict[str, type[Policy]]:
    """Built-in policies, then policies of installed packages, by name."""
    classes = {name: _built_in(name) for name in BUILT_IN}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        classes.setdefault(entry.name, _checked(f"entry point {entry.name}", entry.load()))
    return classes


def policy_infos() -> list[PolicyInfo]:
    """Describe every named policy, in registration order."""
    return [describe_policy(name) for name in policy_classes()]


def describe_policy(ref: str) -> PolicyInfo:
    """Describe one policy, by name or `module:Class`."""
    policy = policy_class(ref)
    first_line = (policy.__doc__ or "").strip().split("\n")[0]
    return PolicyInfo(
        name=policy.name or policy.__name__,
        section=policy.section,
        summary=policy.summary or first_line,
        parameters=policy.parameters,
        jobs=jobs_of(policy),
        needs=options_of(policy),
        sees=tuple(sorted(policy.sees)),
        gpu_types=respects_types(policy),
        gpu_shares=respects_shares(policy),
    )


def policy_class(ref: str) -> type[Policy]:
    """Load the class that a reference names.

    Raises
    ------
    UnknownNameError : no policy of that name
    InvalidInputError : a `module:Class` that cannot be imported or is not a policy, or a file
    """
    if ":" not in ref:
        if ref in BUILT_IN:
            return _built_in(ref)  # a search of all installed packages takes milliseconds
        refuse_file("policy", ref)
        classes = policy_classes()
        if ref not in classes:
            raise UnknownNameError("policy", ref, classes, OTHER_NAMES.get(ref.lower()))
        return classes[ref]
    return _checked(ref, load("policy", ref, _is_policy))


def _built_in(name: str) -> type[Policy]:
    module_name, _, class_name = BUILT_IN[name].partition(":")
    policy: type[Policy] = getattr(importlib.import_module(f"ray_sim.policies.{module_name}"), class_name)
    return policy


def _is_policy(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and value is not Policy


def _checked(ref: str, value: object) -> type[Policy]:
    if isinstance(value, type) and issubclass(value, Policy):
        return value
    raise InvalidInputError(f"policy '{ref}' is not a subclass of ray_sim.Policy, found {value!r}")


def create_policy(ref: str, params: Mapping[str, object] | None = None) -> Policy:
    """Construct a policy for one run, with parameters parsed and checked against the declaration.

    Raises
    ------
    UnknownNameError, InvalidScenarioError, InvalidInputError : as `policy_class` and `resolve`
    """
    policy = policy_class(ref)
    declared: Any = policy.parameters  # of any type in a user's policy
    if not (isinstance(declared, tuple) and all(isinstance(each, Parameter) for each in declared)):
        raise InvalidInputError(
            f"policy '{ref}': parameters must be a tuple of Parameter, found {declared!r}"
        )
    values = resolve(f"policy {policy.name or ref}", declared, params or {})
    with users_code(f"policy '{ref}' cannot be constructed"):
        made: Any = policy(**values)
    if not issubclass(type(made), Policy):  # isinstance would call the object's own code, which may fail
        raise InvalidInputError(f"policy '{ref}': its class makes a {type(made).__name__}, not a Policy")
    with users_code(f"policy '{ref}': its declarations cannot be read"):
        _check_declarations(ref, made)
    usable: Policy = made
    return usable


def _check_declarations(ref: str, policy: Policy) -> None:
    """Reject a policy whose declarations have other types than in `Policy`."""
    expected: dict[str, tuple[type, ...]] = {
        "name": (str,),
        "wake_on": (Wake,),
        "sees": (frozenset, set),
        "schedules": (str,),
        **dict.fromkeys(("slotted", "bounded", "uses_seed"), (bool,)),
    }
    for name, types in expected.items():
        value = getattr(policy, name)
        if not isinstance(value, types):
            raise InvalidInputError(
                f"policy '{ref}': {name} must be a {types[0].__name__}, found {type(value).__name__}"
            )
    if policy.schedules not in SCHEDULES:
        raise UnknownNameError(f"value of {ref}'s schedules", policy.schedules, sorted(SCHEDULES))
    sees: Iterable[object] = policy.sees
    if odd := [each for each in sees if not isinstance(each, str)]:
        raise InvalidInputError(f"policy '{ref}': sees must hold names, found {odd[0]!r}")
    if unknown := sorted(policy.sees - DECLARABLE):
        raise UnknownNameError(f"column or observation in {ref}'s sees", unknown[0], sorted(DECLARABLE))
    for name, arguments in (("decide", ("view",)), ("start", ("world", "streams"))):
        try:
            inspect.signature(getattr(policy, name)).bind(*arguments)
        except TypeError as error:
            raise InvalidInputError(
                f"policy '{ref}': {name} must take {', '.join(arguments)} ({error})"
            ) from error
