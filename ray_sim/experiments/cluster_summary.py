"""Summary of a cluster: servers, resources, speeds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ray_sim.model.cluster import UNLIMITED_MIB, Cluster
from ray_sim.model.units import QUANTA_PER_UNIT, FloatArray, IntArray

UNLABELLED = "(none)"
"""Label of the servers without one, where other servers have one."""


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """Totals of a cluster. A mapping by label is empty if no server has such a label."""

    name: str
    servers: int
    coming_and_going: int
    """Number of servers whose availability changes."""
    there_at_first: int
    """Number of servers available before the first change."""
    capacity: dict[str, float]
    """Total of each resource, in its unit."""
    servers_by_gpus: dict[str, int]
    """Number of servers by GPUs per server, the largest first."""
    servers_by_kind: dict[str, int]
    gpus_by_type: dict[str, float]
    gpus_by_vc: dict[str, float]
    slowest_speed: float
    fastest_speed: float
    workers: int | None
    """Worker slots for chunked jobs; null if no server declares any."""
    ps: int | None
    servers_by_worker_memory_gib: dict[str, int]
    """Number of servers by memory of each worker for chunks, the largest first."""
    servers_by_ps_memory_gib: dict[str, int]

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of each line of the printed table."""
        totals = [(f"total {resource}", _number(total)) for resource, total in self.capacity.items()]
        parts = [
            ("servers by GPUs", _listing(self.servers_by_gpus)),
            ("servers by kind", _listing(self.servers_by_kind)),
            ("GPUs by type", _listing(self.gpus_by_type)),
            ("GPUs by vc", _listing(self.gpus_by_vc)),
            ("servers by GiB per worker", _listing(self.servers_by_worker_memory_gib)),
            ("servers by GiB per parameter server", _listing(self.servers_by_ps_memory_gib)),
        ]
        slowest, fastest = _number(self.slowest_speed), _number(self.fastest_speed)
        speed = slowest if slowest == fastest else f"{slowest} to {fastest}"
        slots = {"worker slots": self.workers, "parameter server slots": self.ps}
        return [
            ("cluster", self.name),
            ("servers", _number(self.servers)),
            *self._presence_rows(),
            *totals,
            *((label, _number(count)) for label, count in slots.items() if count is not None),
            *((label, listing) for label, listing in parts if listing),
            ("speed", speed),
        ]

    def _presence_rows(self) -> list[tuple[str, str]]:
        if not self.coming_and_going:
            return []
        return [
            ("servers that come and go", _number(self.coming_and_going)),
            ("servers there at first", _number(self.there_at_first)),
        ]

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict, for JSON."""
        return asdict(self)


def purpose(path: Path) -> str:
    """First sentence of the comment at the top of a cluster file; empty without one."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    text = " ".join(line.lstrip("# ") for line in lines)
    return text.partition(". ")[0].rstrip(".")


def describe_cluster(cluster: Cluster) -> ClusterSummary:
    """Count a cluster's servers and resources; labels in the order in which they first appear."""
    units = np.array([QUANTA_PER_UNIT[resource] for resource in cluster.resources])
    totals = cluster.capacity.sum(axis=0) / units
    gpus = cluster.capacity[:, cluster.resources.index("gpu")] / QUANTA_PER_UNIT["gpu"]
    changes = cluster.availability
    there = len(cluster) if changes is None else int(changes.at_first(len(cluster)).sum())
    return ClusterSummary(
        name=cluster.name,
        servers=len(cluster),
        coming_and_going=0 if changes is None else len(np.unique(changes.server)),
        there_at_first=there,
        capacity=dict(zip(cluster.resources, totals.tolist(), strict=True)),
        servers_by_gpus=_servers_by(gpus),
        servers_by_kind=dict(Counter(kind.value for kind in cluster.kind)),
        gpus_by_type=_gpus_by(cluster.gpu_type, gpus),
        gpus_by_vc=_gpus_by(cluster.vc, gpus),
        slowest_speed=float(cluster.speed.min()),
        fastest_speed=float(cluster.speed.max()),
        workers=None if cluster.workers is None else int(cluster.worker_slots.sum()),
        ps=None if cluster.ps is None else int(cluster.ps_slots.sum()),
        servers_by_worker_memory_gib=_servers_by_memory(cluster.worker_memory),
        servers_by_ps_memory_gib=_servers_by_memory(cluster.ps_memory),
    )


def _servers_by(amounts: FloatArray) -> dict[str, int]:
    sizes, counts = np.unique(amounts, return_counts=True)
    return {
        "unlimited" if size == np.inf else _number(size): count
        for size, count in zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True)
    }


def _servers_by_memory(memory_mib: IntArray | None) -> dict[str, int]:
    if memory_mib is None:
        return {}
    unlimited, mib_per_gib = memory_mib == UNLIMITED_MIB, QUANTA_PER_UNIT["memory_gib"]
    return _servers_by(np.where(unlimited, np.inf, memory_mib / mib_per_gib))


def _gpus_by(labels: Sequence[str | None], gpus: FloatArray) -> dict[str, float]:
    if not any(labels):
        return {}
    totals: dict[str, float] = {}
    for label, amount in zip(labels, gpus.tolist(), strict=True):
        totals[label or UNLABELLED] = totals.get(label or UNLABELLED, 0.0) + amount
    return totals


def _listing(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{label}: {_number(amount)}" for label, amount in amounts.items())


def _number(value: float) -> str:
    return f"{value:,.10g}"
