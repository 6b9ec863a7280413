"""Classes and teams of a cluster file, for `ray_sim.experiments.inputs.cluster_file`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ray_sim.model.teams import JobClass, Quota, Team
from ray_sim.model.units import MAX_TIME_S, capacity_quanta
from workloads.documents import Entry
from workloads.schema import MAX_WHOLE

MAX_TEAM_AMOUNT = 1e9
"""Largest quota, weight and number of shares; the sum over all teams still fits in int64 quanta."""

_Amounts = dict[str, Annotated[float, Field(ge=0, le=MAX_TEAM_AMOUNT, allow_inf_nan=False)]]


class ClassEntry(Entry):
    """A class of jobs, by its name."""

    priority: Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE)]
    preemptible: bool = True


class TeamEntry(Entry):
    """A team, by its virtual cluster."""

    quota: _Amounts = Field(default_factory=dict)
    borrow: _Amounts = Field(default_factory=dict)
    lend: _Amounts = Field(default_factory=dict)
    weight: Annotated[float, Field(ge=0, le=MAX_TEAM_AMOUNT, allow_inf_nan=False)] = 1.0
    shares: Annotated[float, Field(gt=0, le=MAX_TEAM_AMOUNT, allow_inf_nan=False)] = 1.0
    slo_wait_s: Annotated[float, Field(ge=0, le=MAX_TIME_S)] | None = None
    cohort: str = ""


def job_classes(entries: Mapping[str, ClassEntry]) -> tuple[JobClass, ...]:
    """The classes of a file."""
    return tuple(JobClass(name, each.priority, each.preemptible) for name, each in entries.items())


def teams(entries: Mapping[str, TeamEntry]) -> tuple[Team, ...]:
    """The teams of a file without `team_problems`."""
    return tuple(
        Team(name, _quotas(each), each.weight, each.shares, each.slo_wait_s, each.cohort)
        for name, each in entries.items()
    )


def _quotas(entry: TeamEntry) -> tuple[Quota, ...]:
    def quanta(resource: str, amount: float) -> int:
        return int(capacity_quanta(amount, resource.partition(":")[0]))

    return tuple(
        Quota(
            name,
            quanta(name, nominal),
            quanta(name, entry.borrow[name]) if name in entry.borrow else None,
            quanta(name, entry.lend.get(name, nominal)),
        )
        for name, nominal in entry.quota.items()
    )


def class_problems(entries: Mapping[str, ClassEntry]) -> Iterator[str]:
    """Yield a problem for each class with the priority of an earlier one."""
    owner: dict[int, str] = {}
    for name, each in entries.items():
        first = owner.setdefault(each.priority, name)
        if first != name:
            yield f"classes.{name}.priority: {each.priority} is that of class '{first}'; give each its own"


def team_problems(
    entries: Mapping[str, TeamEntry], resources: Sequence[str], types: Collection[str]
) -> Iterator[str]:
    """Yield a problem for each unknown resource, and each amount without or above its quota.

    Parameters
    ----------
    resources, types : of the cluster's servers
    """
    known = [*resources, *(f"gpu:{each}" for each in sorted(types))]
    for name, entry in entries.items():
        for field in ("quota", "borrow", "lend"):
            for resource in getattr(entry, field):
                where = f"teams.{name}.{field}.{resource}"
                if resource not in known:
                    yield f"{where}: unknown resource; this cluster has {', '.join(known)}"
                elif resource not in entry.quota:
                    yield f"{where}: there is no quota of it; name it under quota"
        for resource, lent in entry.lend.items():
            if lent > (nominal := entry.quota.get(resource, lent)):
                yield f"teams.{name}.lend.{resource}: must be at most the quota of {nominal:g}, got {lent:g}"
