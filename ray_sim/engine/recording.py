"""The record of a run, kept in stretches so that nothing is ever copied to make room."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.states import State, arrays_of, copies, same, within
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import (
    EVENT_NAMES,
    ROLE_NAMES,
    Recorder,
    devices,
    events_per_instant,
    new_recorder,
)
from ray_sim.kernels.handle import handle
from ray_sim.model.units import NEVER_US

_FEWEST = 1 << 16


class Recording:
    """Events and timeline, in the order in which they happened."""

    def __init__(self, world: World) -> None:
        n_jobs, n_resources = len(world.table), len(world.facts.resources)
        self.bound = events_per_instant(n_jobs, world.event_bound, losses=world.losses)
        """Room that an instant may need."""
        events, lines = self.bound + max(3 * n_jobs, _FEWEST), max(2 * n_jobs, _FEWEST)
        self._shape = (events, lines, n_resources, devices(world.arrays))
        self._last = {
            "kind": len(EVENT_NAMES) + len(world.facts.event_names) - 1,
            "job": n_jobs - 1,
            "server": len(world.cluster) - 1,
            "role": len(ROLE_NAMES) - 1,
        }
        """Largest values of columns of numbers and codes, whose smallest is -1 for none."""
        self._full: list[Recorder] = []
        self._begin()

    def _begin(self) -> None:
        """Begin an empty stretch."""
        self.current: Recorder = new_recorder(*self._shape)
        self.writer: Recorder = handle(self.current)
        """Handle of the current stretch, for kernels."""

    def clear(self) -> None:
        """Forget all; the current stretch is used again."""
        self._full = []
        self.current.size[:] = 0
        if self.current.device is not None:
            self.current.device[:] = 0

    def ensure_room(self) -> Recorder:
        """The current stretch, with room for an instant."""
        current = self.current
        events, lines = current.size.tolist()
        if events + self.bound > len(current.time) or lines == len(current.line_time):
            self._full.append(_used(current))
            self._begin()
        return self.current

    def joined(self) -> Recorder:
        """Everything so far as one."""
        parts = [*self._full, _used(self.current)]
        if len(parts) == 1:
            return parts[0]
        fields = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name, _ in arrays_of(self.current)
            if name != "size"
        }
        return self.current._replace(**fields, size=np.sum([part.size for part in parts], axis=0))

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return copies(self.joined())

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for name, last in self._last.items():
            within(state, name, 0 if name == "kind" else -1, last)
        events, lines = within(state, "size", 0, NEVER_US).tolist()
        names = [name for name, _ in arrays_of(self.current)]
        for name in names[:-1]:
            shape = [lines if name.startswith("line_") else events, *getattr(self.current, name).shape[1:]]
            same(name, shape, state[name].shape)
        self._full = [self.current._replace(**{name: state[name].copy() for name in names})]
        self._begin()


def _used(record: Recorder) -> Recorder:
    events, lines = (int(n) for n in record.size)
    parts = {
        name: array[: lines if name.startswith("line_") else events]
        for name, array in arrays_of(record)
        if name != "size"
    }
    return record._replace(**parts, size=record.size.copy())
