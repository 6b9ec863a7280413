"""Primal and dual objective of plans over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policy_api import State, all_within
from ray_sim.solvers.planning.schedule import Outcome, Schedule


class PlanObjectives:
    """Objectives after each arrival."""

    def __init__(self) -> None:
        self._earned = np.zeros(2)
        """Total utility and total payoff of the schedules of all admitted jobs."""
        self._rows = np.empty((0, 3))
        """One row per arrival: time, primal and dual objective."""

    def note(self, now_us: int, outcome: Outcome, server_costs: float) -> None:
        """Record the objectives after an arrival.

        Parameters
        ----------
        server_costs : cost of all servers at their prices
        """
        self._earned += (outcome.utility, outcome.payoff) if isinstance(outcome, Schedule) else (0.0, 0.0)
        row = (now_us, self._earned[0], self._earned[1] + server_costs)
        self._rows = np.vstack([self._rows, row])

    def timeline_columns(self) -> dict[str, tuple[IntArray, FloatArray]]:
        """Columns `primal` and `dual`."""
        now_us = self._rows[:, 0].astype(np.int64)
        return {name: (now_us, self._rows[:, i]) for i, name in enumerate(("primal", "dual"), 1)}

    def state(self) -> State:
        """Sums and rows."""
        return {"earned": self._earned.copy(), "objectives": self._rows.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within({name: np.abs(state[name]) for name in ("earned", "objectives")})
        self._earned[:] = state["earned"]
        self._rows = state["objectives"].copy()
