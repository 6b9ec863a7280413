"""Snapshots of a run, from which it goes on alike."""

from __future__ import annotations

from typing import Protocol

from ray_sim.engine.placements import State


class Keeper(Protocol):
    """Whoever keeps a run's snapshots, and may ask it to stop."""

    def load(self) -> State | None:
        """The snapshot to go on from, if there is one."""

    def due(self) -> bool:
        """Whether it is time for another snapshot."""

    def save(self, state: State) -> None:
        """Keep this snapshot instead of the one before."""

    def stopping(self) -> bool:
        """Whether the run is to stop, once its snapshot has been kept."""


def stopped_text(ended: int, jobs: int) -> str:
    """Message of a run that was stopped after its snapshot was kept."""
    return f"stopped with {ended:,} of {jobs:,} jobs ended; go on with the same command and --resume"
