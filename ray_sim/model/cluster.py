"""The simulated servers, as a struct of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ray_sim.model.availability import Availability
from ray_sim.model.units import FloatArray, IntArray


class ServerKind(StrEnum):
    """Where a server stands; plain where the difference does not matter."""

    PLAIN = "plain"
    EDGE = "edge"
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the servers offer. How much of it is free lives in the sites that own them.

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
    """(S,) the virtual cluster a server belongs to, if any."""
    kind: tuple[ServerKind, ...]
    gpu_type: tuple[str | None, ...]
    availability: Availability | None = None
    """When servers go and come back; None where all are always there."""

    def __len__(self) -> int:
        return len(self.server_names)
