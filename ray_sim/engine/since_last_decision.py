"""Events since the last decision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.decision import NO_JOBS
from ray_sim.engine.read_only import read_only
from ray_sim.engine.states import State
from ray_sim.model.units import IntArray

_NONE = read_only(NO_JOBS)


class CollectedIndices:
    """Indices of jobs, or of servers, collected until the policy decides."""

    def __init__(self) -> None:
        self._arrays: list[IntArray] = []

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def add(self, numbers: IntArray) -> None:
        """Append sorted indices; repeats and empty input are allowed."""
        if len(numbers):
            self._arrays.append(numbers)

    def drop(self, numbers: IntArray) -> None:
        """Remove indices."""
        others = [np.setdiff1d(array, numbers) for array in self._arrays]
        self._arrays = [array for array in others if len(array)]

    def clear(self) -> None:
        """Empty it."""
        self._arrays.clear()

    def merged(self) -> IntArray:
        """All of them, sorted and read-only."""
        if not self._arrays:
            return _NONE
        one = self._arrays[0] if len(self._arrays) == 1 else np.unique(np.concatenate(self._arrays))
        return read_only(one)


class SinceLastDecision:
    """Jobs and servers that changed since the last decision, by kind of change."""

    def __init__(self) -> None:
        self.arrived = CollectedIndices()
        """Jobs that began to wait: submitted, or returned."""
        self.returned = CollectedIndices()
        """Jobs that lost what they had on a server, and wait again."""
        self.completed = CollectedIndices()
        self.changed_servers = CollectedIndices()

    def drop_ended(self, jobs: IntArray) -> None:
        """Jobs that came within a slot may end there, before the policy decides at the next one."""
        self.arrived.drop(jobs)
        self.returned.drop(jobs)

    def clear(self) -> None:
        """Empty it."""
        for collected in (self.arrived, self.returned, self.completed, self.changed_servers):
            collected.clear()

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {name: collected.merged() for name, collected in vars(self).items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for name in vars(self):
            collected = CollectedIndices()
            collected.add(state[name].copy())
            setattr(self, name, collected)


NOTHING = SinceLastDecision()
"""Nothing has happened; not to be added to."""
