"""The simulated servers, as a struct of arrays, and what changes of them over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ray_sim.model.interference import InterferenceProfile
from ray_sim.model.measured_speeds import SpeedTable
from ray_sim.model.teams import JobClass, Team
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray, FloatArray, IntArray, capacity_quanta

if TYPE_CHECKING:
    from ray_sim.kernels.core.fragmentation import TypicalTask

UNLIMITED_MIB = 2**62
"""Memory of workers and parameter servers for which none is declared."""


class ServerKind(StrEnum):
    """Location of a server: edge or cloud; plain where the difference does not matter."""

    PLAIN = "plain"
    EDGE = "edge"
    CLOUD = "cloud"


class ChunkDelay(NamedTuple):
    """Upload delay and processing time of chunks by pair: model of the job, class of the server."""

    model: str
    """Empty for jobs without one."""
    server_class: str
    """Empty for servers without one."""
    upload_s: float | None
    """None is the workload's own, by side."""
    processing_factor: float
    """Factor on the time of a mini-batch without communication, > 0."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Capacity of the servers. Sites keep their free capacity.

    Server index order is the order of the description, and the tie-break of every placement.
    """

    name: str
    server_names: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: IntArray
    """(S, R) quanta, >= 0."""
    speed: FloatArray
    """(S,) progress per second of a rigid job on this server's GPUs, 1 = the traced speed."""
    vc: tuple[str | None, ...]
    """(S,) virtual cluster of each server, None where it has none."""
    kind: tuple[ServerKind, ...]
    gpu_type: tuple[str | None, ...]
    availability: Availability | None = None
    """Changes of the servers; None where all servers are always available."""
    workers: IntArray | None = None
    """(S,) slots for workers that train chunks; None is one per whole GPU. A cloud has no slots."""
    ps: IntArray | None = None
    """(S,) slots for parameter servers of chunked jobs; None as in `workers`."""
    worker_memory: IntArray | None = None
    """(S,) MiB of each worker slot for chunks; None where all are `UNLIMITED_MIB`."""
    ps_memory: IntArray | None = None
    """(S,) MiB of each slot for parameter servers of chunked jobs; None as in `worker_memory`."""
    sockets: IntArray | None = None
    """(S,) sockets for processors, >= 1; None where all servers have one."""
    server_class: tuple[str | None, ...] | None = None
    """(S,) class of each server in `delays`; None where no server has one."""
    delays: tuple[ChunkDelay, ...] | None = None
    """One entry per pair; None where jobs have one upload delay per side, and no factor."""
    interference: InterferenceProfile | None = None
    """How jobs on one server slow each other; None where they do not."""
    links: LinkChanges | None = None
    """Changes of the bandwidth of network interfaces; None where it is always nominal."""
    speeds: SpeedTable | None = None
    """Measured speeds of jobs on GPU types; None where jobs have none."""
    fragmentation_target: tuple[TypicalTask, ...] | None = None
    """Tasks to which GPUs that they cannot use are fragments; None where the workload gives them."""
    entry: tuple[str, ...] = ()
    """(S,) name of the entry that describes each server; empty for a cluster without a description."""
    price: tuple[float, ...] | None = None
    """(S,) price of each server, in any unit, > 0; None where the description has no prices."""
    classes: tuple[JobClass, ...] = ()
    """Classes of jobs by priority; empty where each priority is one."""
    teams: tuple[Team, ...] = ()
    """Teams with their quotas; empty where no quota holds."""

    @property
    def worker_slots(self) -> IntArray:
        """(S,) slots for workers; 0 for a cloud, which has no slots."""
        return self._slots(self.workers)

    @property
    def ps_slots(self) -> IntArray:
        """(S,) slots for parameter servers; 0 for a cloud."""
        return self._slots(self.ps)

    def _slots(self, declared: IntArray | None) -> IntArray:
        if declared is None:
            declared = slots_per_gpu(self.capacity[:, self.resources.index("gpu")])
        return np.where(self.in_cloud, 0, declared)

    @property
    def in_cloud(self) -> BoolArray:
        """(S,) whether each server belongs to a cloud."""
        return np.array([kind == ServerKind.CLOUD for kind in self.kind], dtype=np.bool_)

    def in_order(self, order: IntArray) -> Cluster:
        """The same servers in another order: (S,) their present numbers."""
        texts = ("server_names", "vc", "kind", "gpu_type", "server_class")
        amounts = ("capacity", "speed", "workers", "ps", "worker_memory", "ps_memory", "sockets")
        columns: dict[str, Any] = {name: getattr(self, name) for name in (*texts, *amounts)}
        moved: dict[str, Any] = {
            name: tuple(column[server] for server in order) if name in texts else column[order]
            for name, column in columns.items()
            if column is not None
        }
        new_number = np.argsort(order)
        for name in ("availability", "links"):
            if (changes := getattr(self, name)) is not None:
                moved[name] = replace(changes, server=new_number[changes.server])
        return replace(self, **moved)

    def __len__(self) -> int:
        return len(self.server_names)


def slots_per_gpu(milli_gpus: IntArray) -> IntArray:
    """(S,) slots of servers for which none are declared: one per whole GPU."""
    return milli_gpus // QUANTA_PER_UNIT["gpu"]


def memory_mib(declared_gib: Sequence[float | None]) -> IntArray | None:
    """(S,) MiB, rounded down; `UNLIMITED_MIB` where a server declares none; None if all declare none."""
    unlimited = np.array([gib is None for gib in declared_gib], dtype=np.bool_)
    given = capacity_quanta([0.0 if gib is None else gib for gib in declared_gib], "memory_gib")
    return None if unlimited.all() else np.where(unlimited, UNLIMITED_MIB, given)


@dataclass(frozen=True, slots=True)
class Availability:
    """Changes of the servers of a cluster, in the order of time.

    The changes of a server alternate. A server whose first change removes it is available before that.
    """

    time_us: IntArray
    """(N,) non-decreasing, in the workload's own time."""
    server: IntArray
    """(N,) index of a server."""
    up: BoolArray
    """(N,) whether the server is available from then on."""

    def __len__(self) -> int:
        return len(self.time_us)

    def at_first(self, servers: int) -> BoolArray:
        """(servers,) whether each server is available before all changes."""
        there = np.ones(servers, dtype=np.bool_)
        first_server, first_change = np.unique(self.server, return_index=True)
        there[first_server] = ~self.up[first_change]
        return there


@dataclass(frozen=True, slots=True)
class LinkChanges:
    """Changes of bandwidth, in the order of time; before its first one a server has its nominal bandwidth."""

    time_us: IntArray
    """(N,) non-decreasing, in the workload's own time."""
    server: IntArray
    """(N,) index of a server."""
    bandwidth: FloatArray
    """(N,) share of the nominal bandwidth from then on, above 0, at most 1."""

    def __len__(self) -> int:
        return len(self.time_us)
