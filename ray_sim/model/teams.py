"""Classes and teams of jobs: facts of a cluster that policies and reports read.

A cluster file declares them (`ray_sim.experiments.inputs.team_entries`); policies map their jobs with
`classes_of` and `teams_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.text import shown
from ray_sim.model.units import IntArray

if TYPE_CHECKING:
    from ray_sim.model.cluster import Cluster

OTHERS = "*"
"""Name of the team of all virtual clusters without a team of their own."""

_LISTED = 10
"""Most virtual clusters without a team that an error names."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs of at least this priority, and less than that of the next class."""

    name: str
    priority: int
    preemptible: bool = True


@dataclass(frozen=True, slots=True)
class Quota:
    """What a team may hold of a resource, in quanta."""

    resource: str
    """A resource of the cluster, or ``gpu:TYPE``: GPUs of jobs that accept this type only."""
    nominal: int
    borrow: int | None
    """Most that it holds beyond `nominal`; None for no limit."""
    lend: int
    """Most of `nominal` that other teams of the cohort may hold."""


@dataclass(frozen=True, slots=True)
class Team:
    """Jobs of a virtual cluster."""

    name: str
    """The virtual cluster, or `OTHERS`."""
    quotas: tuple[Quota, ...] = ()
    """A resource without an entry is not limited."""
    weight: float = 1.0
    """Divides the share of what is borrowed, >= 0."""
    shares: float = 1.0
    """Part of the cluster that Fair Tree grants, relative to other teams, > 0."""
    slo_wait_s: float | None = None
    cohort: str = ""
    """Teams lend to teams of the same cohort."""


def classes_of(
    cluster: Cluster, priority: IntArray | None, jobs: int
) -> tuple[IntArray, tuple[JobClass, ...]]:
    """(J,) class of each job, and the classes, ascending; without declared ones each priority is a class.

    Parameters
    ----------
    priority : (J,); None counts as 0
    """
    given = np.zeros(jobs, dtype=np.int64) if priority is None else priority
    if not cluster.classes:
        values, index = np.unique(given, return_inverse=True)
        return index.astype(np.int64), tuple(
            JobClass(f"priority {value}", value) for value in values.tolist()
        )
    classes = tuple(sorted(cluster.classes, key=lambda each: each.priority))
    lowest = np.array([each.priority for each in classes], dtype=np.int64)
    return np.maximum(np.searchsorted(lowest, given, side="right") - 1, 0).astype(np.int64), classes


def teams_of(cluster: Cluster, vc: IntArray, vc_names: Sequence[str]) -> IntArray:
    """(J,) row in ``cluster.teams`` of each job, from its virtual cluster ``vc``, -1 for none.

    Raises
    ------
    InvalidScenarioError : jobs of a virtual cluster without a team
    """
    rows = {team.name: row for row, team in enumerate(cluster.teams)}
    of_vc = np.array([rows.get(name, rows.get(OTHERS, -1)) for name in vc_names] + [rows.get(OTHERS, -1)])
    team: IntArray = of_vc[vc].astype(np.int64)
    if len(lost := np.unique(vc[team < 0])):
        names = [shown(vc_names[each]) if each >= 0 else "(jobs without a vc)" for each in lost.tolist()]
        more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
        raise InvalidScenarioError(
            f"teams of cluster {cluster.name}: {int((team < 0).sum()):,} jobs have no team, of vc "
            f"{', '.join(names[:_LISTED])}{more}; declare these under teams, or '{OTHERS}' for all others"
        )
    return team
