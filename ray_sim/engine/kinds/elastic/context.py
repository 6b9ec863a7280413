"""World facts that policies for elastic jobs get beside those of every policy."""

from __future__ import annotations

from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.world import World
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.training_progress import SpeedProgress, trial_speeds
from ray_sim.model.units import FloatArray, IntArray


class ElasticContext(PolicyContext):
    """Facts of a world of elastic jobs. Arrays are read-only."""

    def __init__(
        self, world: World, sees: frozenset[str], policy: str, trial_progress: SpeedProgress
    ) -> None:
        super().__init__(world, sees, policy)
        self._trial = trial_progress
        self._sees_speed = "training_speed" in sees

    def trial_speed(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(n,) samples per second in trial runs of jobs, without slow workers; see `trial_speeds`.

        Raises
        ------
        BlindPolicyError : the policy's `sees` lacks training_speed
        """
        if not self._sees_speed:
            raise BlindPolicyError(
                f"policy {self._policy} makes trial runs, but its `sees` lacks training_speed"
            )
        return trial_speeds(self._trial, jobs, rows)
