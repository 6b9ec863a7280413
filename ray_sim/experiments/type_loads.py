"""Load of the GPU types that jobs accept: what `ray-sim info --cluster` shows of each set of types."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.server_pools import accepted_types
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray


@dataclass(frozen=True, slots=True)
class TypeLoad:
    """Jobs with GPUs that accept one set of types, and those whose set lies within it, on its servers."""

    types: str
    """Names with ``|`` between, sorted; empty for any."""
    jobs: int
    gpus: float
    """GPUs that these jobs ask for together."""
    gpus_within: float
    """The same of all jobs whose set lies within this one: they can use no other servers."""
    capacity: float
    """GPUs of the servers of these types."""

    @property
    def load(self) -> float | None:
        """`gpus_within` / `capacity`: above 1, they do not all fit at once; None without servers."""
        return self.gpus_within / self.capacity if self.capacity else None


@dataclass(frozen=True, slots=True)
class TypeLoads:
    """GPU types of a workload on a cluster."""

    sets: tuple[TypeLoad, ...]
    """By falling load, sets without servers first."""
    jobs_by_unknown_type: dict[str, int]
    """Jobs that name a type that no server has."""
    jobs_without_server: int
    """Jobs all of whose types are unknown; a replay rejects them."""
    ignored: bool
    """Whether no server of the cluster has a type, so that types count for nothing here."""


def type_loads(table: JobTable, cluster: Cluster) -> TypeLoads | None:
    """Compute the loads; None where no job names types."""
    if table.gpu_types is None:
        return None
    gpu, quanta = cluster.resources.index("gpu"), QUANTA_PER_UNIT["gpu"]
    gpus = table.tasks * table.demand[:, gpu] / quanta
    texts = table.gpu_types.fill_null("").to_numpy()
    with_gpus = gpus > 0
    of_text = {text: accepted_types(text) for text in np.unique(texts[with_gpus]).tolist()}
    members = {
        types: with_gpus & np.isin(texts, [text for text, found in of_text.items() if found == types])
        for types in dict.fromkeys(of_text.values())
    }
    known = {name for name in cluster.gpu_type if name is not None}
    unknown: Counter[str] = Counter()
    for types, mine in members.items():
        unknown.update(dict.fromkeys(sorted(types - known), int(mine.sum())))
    homeless = [int(mine.sum()) for types, mine in members.items() if types and not types & known]
    sets = [
        TypeLoad(
            "|".join(sorted(types)),
            int(mine.sum()),
            float(gpus[mine].sum()),
            float(gpus[_within(members, types)].sum()),
            _capacity(cluster, types) / quanta,
        )
        for types, mine in members.items()
    ]
    sets.sort(key=lambda each: (-(np.inf if each.load is None else each.load), each.types))
    return TypeLoads(tuple(sets), dict(sorted(unknown.items())), sum(homeless), not known)


def _within(members: dict[frozenset[str], BoolArray], types: frozenset[str]) -> BoolArray:
    """(J,) jobs of all sets within this one; an empty set stands for all types."""
    inner = [mine for other, mine in members.items() if not types or (other and other <= types)]
    within: BoolArray = np.any(inner, axis=0)
    return within


def _capacity(cluster: Cluster, types: frozenset[str]) -> int:
    mine = [not types or name in types for name in cluster.gpu_type]
    return int(cluster.capacity[mine, cluster.resources.index("gpu")].sum())
