"""Where units are collected: in this process; `ray_sim.learning.ray_collectors` has actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ray_sim.learning.collection import Collected, Collection, Guide, Unit


class Collectors(Protocol):
    """Collects units of a round; any implementation gives the same arrays."""

    @property
    def deaths(self) -> int:
        """Actors that died so far."""

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """What is collected in each unit, in the order of the units."""


class LocalCollectors:
    """Collects one unit after the other in this process."""

    deaths = 0

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """What is collected in each unit."""
        return [self._collection.collect(unit, guide) for unit in units]
