"""Episodes of `ray_sim/Placement-v1` that are stepped together, for collection and samples of speeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ray_sim.agents.agent import PlacementAgent
from ray_sim.engine.run_meter import Reading
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.environments import PlacementEnv
from ray_sim.environments.episodes import Episode
from ray_sim.environments.rewards import Interval
from ray_sim.learning.replay import Observations
from ray_sim.model.units import FloatArray
from ray_sim.policies.harmony.architecture import STATE


class Lane(PlacementEnv):
    """Plays its episodes in turn."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        models: Sequence[str],
        most_jobs: int = PlacementAgent.most_jobs,
        most_new: int | None = None,
        placed: Callable[[Simulation], None] = lambda simulation: None,
    ) -> None:
        """See `PlacementEnv`; ``placed`` is called after each decision, before time passes."""
        self._placed = placed
        self._played = 0
        super().__init__(
            list(episodes), most_jobs=most_jobs, most_new=most_new, observe=STATE, scaled=True, models=models
        )

    def play(self) -> None:
        """Begin the next episode."""
        self.begin(None, {"episode": self._played % len(self.episodes)})
        self._played += 1

    def act(self, action: int) -> tuple[Interval | None, bool]:
        """Carry out an action; returns the interval that it ended, and whether the episode is over.

        The next episode then begins at once.
        """
        _, terminated, truncated, info = self.take(action)
        over = terminated or truncated
        if over:
            self.play()
        self.round.refresh()
        return (self.interval if info else None), over

    def _run_on(self, simulation: Simulation) -> tuple[Reading, int]:
        self._placed(simulation)
        return super()._run_on(simulation)


def shown_together(lanes: Sequence[Lane]) -> Observations:
    """Begin an episode in each of E lanes; returns their observations, with a leading axis E.

    Steps of the lanes change these arrays.
    """
    seen = {
        name: np.zeros((len(lanes), *(space.shape or ())), space.dtype)
        for name, space in lanes[0].entries.items()
    }
    for e, lane in enumerate(lanes):
        lane.observation_arrays = {name: array[e] for name, array in seen.items()}
        lane.play()
    return seen


def capacity_shares(world: World) -> FloatArray:
    """(S, R) capacity of each server in shares of the largest, as ``free`` has them."""
    most = world.cluster.capacity.max(axis=0)
    return world.arrays.capacity / np.where(most > 0, most, 1)
