"""What the decisions of both environments have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ray_sim.agents.features import ACTION_MASK, F32, Feature, engine_world, times
from ray_sim.engine.decision import Decision
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.states import State
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import I8, Pool
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import ForbiddenActionError

TIMES = ("waited_s", "duration_s")
"""Entries that are computed when an observation is asked for; kernels keep the others up to date."""


class ShownArrays:
    """Entries of an observation by name, and the mask of valid actions."""

    def __init__(
        self, names: Sequence[str], arrays: dict[str, Any], fields: Mapping[str, str], scaled: bool
    ) -> None:
        """Show the entries of these names.

        Parameters
        ----------
        arrays : fields of a kernel's board; ``job`` and ``mask`` among them
        fields : entries whose field has another name
        scaled : show log10(1 + s) instead of s
        """
        self._arrays, self._scaled = arrays, scaled
        self._field = {name: fields.get(name, name) for name in names if name not in TIMES}
        rows = len(arrays["job"])
        self.entries: dict[str, F32] = {
            name: arrays[self._field[name]] if name in self._field else np.zeros(rows, np.float32)
            for name in names
        }

    @property
    def mask(self) -> I8:
        """(actions,) 1 where an action is valid; not to be written to."""
        mask: I8 = self._arrays["mask"]
        return mask

    def fill_times(self, view: View, rows: int) -> None:
        """Set the times of the jobs in the first ``rows`` rows, and 0 in the others."""
        jobs = self._arrays["job"][:rows]
        for name in self.entries.keys() - self._field.keys():
            us = view.now_us - view.jobs.submit_us[jobs] if name == "waited_s" else view.jobs.work_us[jobs]
            self.entries[name][:rows] = times(us, self._scaled)
            self.entries[name][rows:] = 0.0

    def copies(self) -> dict[str, F32 | I8]:
        """The entries by name, and the mask; the arrays belong to the caller."""
        seen: dict[str, F32 | I8] = {name: array.copy() for name, array in self.entries.items()}
        seen[ACTION_MASK] = self.mask.copy()
        return seen

    def move_to(self, arrays: Mapping[str, F32 | I8]) -> None:
        """Show everything in these arrays by name instead; boards made before are stale."""
        for name in self.entries:
            self.entries[name] = cast("F32", arrays[name])
        self._arrays |= {field: self.entries[name] for name, field in self._field.items()}
        self._arrays["mask"] = arrays[ACTION_MASK]

    def clear(self) -> None:
        """Show nothing, with no valid action."""
        for array in self.entries.values():
            array[:] = 0.0
        self.mask[:] = 0


class Round(ABC):
    """One decision at a time, made action by action."""

    names: tuple[str, ...]
    """Names of the entries of an observation, without the mask."""
    features: dict[str, Feature]
    """Shape and largest value of these entries, by name."""
    actions: int
    """Number of actions."""
    pending = False
    """Whether an action is valid; else `decision` has the result."""
    _new_board: Callable[..., Any]
    """Makes the named tuple of arrays that the kernels take, from the pool of placements and `_arrays`."""
    _arrays: dict[str, Any]
    _shown: ShownArrays
    _view: View

    def __init__(self, world: PolicyContext) -> None:
        self._context, self._world = world, engine_world(world)
        self._pool: Pool | None = None
        self._board: Any = None

    def serves(self, world: PolicyContext) -> bool:
        """Whether it was made for this world."""
        return engine_world(world) is self._world

    @abstractmethod
    def open(self, view: View) -> None:
        """Begin the decision of a view."""

    def _look_at(self, view: View) -> None:
        """Take the placements and the times of this view."""
        if view.placements._pool is not self._pool:
            self._pool = view.placements._pool
            self._board = handle(self._new_board(pool=self._pool, **self._arrays))
        self._view = view

    @property
    def mask(self) -> I8:
        """(actions,) 1 where an action is valid; not to be written to."""
        return self._shown.mask

    def observation(self) -> dict[str, F32 | I8]:
        """The entries by name, and the mask; the arrays belong to the caller."""
        self.refresh()
        return self._shown.copies()

    def refresh(self) -> None:
        """Bring the arrays that it shows up to date, after `open`, `take` or `close`."""
        self._shown.fill_times(self._view, self._jobs_shown())

    @abstractmethod
    def _jobs_shown(self) -> int:
        """Number of rows that have a job."""

    def write_into(self, arrays: Mapping[str, F32 | I8]) -> None:
        """Write observations into these arrays, by name; it takes effect at the next `open`."""
        self._shown.move_to(arrays)
        self._pool = None

    @abstractmethod
    def take(self, action: object) -> None:
        """Carry out one action.

        Raises
        ------
        ForbiddenActionError : the action is not valid now
        """

    @abstractmethod
    def decision(self) -> Decision:
        """The decision, once no action is valid."""

    @abstractmethod
    def new_job(self, row: int) -> int | None:
        """Job that a row shows as new, None for another row."""

    def close(self) -> None:
        """The run is over: nothing is shown and no action is valid."""
        self.pending = False
        self._shown.clear()

    def state(self) -> State:
        """No arrays: nothing is kept between two decisions."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state`."""
        assert not state, "nothing is kept"


Observation = Mapping[str, F32 | I8]
"""Entries by name."""


def chosen_action(environment: str, action: object, actions: int) -> int:
    """The number of an action.

    Raises
    ------
    ForbiddenActionError : it is no whole number from 0 to ``actions`` - 1
    """
    if isinstance(action, np.ndarray) and action.shape == ():
        action = action[()]
    if isinstance(action, (int, np.integer)) and not isinstance(action, bool) and 0 <= action < actions:
        return int(action)
    raise ForbiddenActionError(
        f"action {action!r} is none of {environment}: a whole number from 0 to {actions - 1}"
    )
