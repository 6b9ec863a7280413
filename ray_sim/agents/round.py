"""What the decisions of both environments have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ray_sim.agents.features import F32, Feature
from ray_sim.engine.decision import Decision
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import I8
from ray_sim.model.errors import ForbiddenActionError


class Round(Protocol):
    """One decision at a time, made action by action."""

    features: dict[str, Feature]
    """Entries of an observation beside the mask, by name."""
    actions: int
    pending: bool
    """Whether an action is valid; else `decision` has the result."""

    @property
    def mask(self) -> I8:
        """(actions,) 1 where an action is valid; not to be written to."""

    def serves(self, world: PolicyContext) -> bool:
        """Whether it was made for this world."""

    def open(self, view: View) -> None:
        """Begin the decision of a view."""

    def observation(self) -> dict[str, F32 | I8]:
        """The entries by name, and the mask; the arrays belong to the caller."""

    def refresh(self) -> None:
        """Bring the arrays that it shows up to date, after `open`, `take` or `close`."""

    def show_in(self, arrays: Mapping[str, F32 | I8]) -> None:
        """Show everything in these arrays by name from the next `open` on, instead of its own."""

    def take(self, action: object) -> None:
        """Carry out one action.

        Raises
        ------
        ForbiddenActionError : the action is not valid now
        """

    def decision(self) -> Decision:
        """The decision, once no action is valid."""

    def new_job(self, row: int) -> int | None:
        """Job that a row shows as new, None for another row."""

    def close(self) -> None:
        """The run is over: nothing is shown and no action is valid."""


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
