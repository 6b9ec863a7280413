"""Snapshots of a run, from which it goes on alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ray_sim.engine.contract import Policy
from ray_sim.engine.states import State
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RunFailedError, failure_text


class UnfitSnapshotError(InvalidInputError):
    """A snapshot that no run of this scenario has kept."""


_OF_ENGINE = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)


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


@contextmanager
def fitting(saved: State | None, policy: Policy) -> Iterator[None]:
    """Convert a failure of a run from a snapshot, of the engine or of a policy of ours.

    With values of their own they do not fail. A user's policy may, so its failures stay as they are.
    """
    ours = type(policy).__module__.startswith("ray_sim.")
    of_policy = (RunFailedError, InvalidScenarioError) if ours else ()
    try:
        yield
    except (*_OF_ENGINE, *of_policy) as failure:
        if saved is None:
            raise
        raise UnfitSnapshotError(f"does not fit this run ({failure_text(failure)})") from failure
