"""The rule that imitation learns from, as a policy: --policy teacher:Teacher."""

import numpy as np

from ray_sim.environments import PlacementAgent
from ray_sim.learning.exploration import together_actions


class Teacher(PlacementAgent):
    """Puts the tasks of a job together, and jobs on the least loaded server."""

    scaled = True

    def start(self, world, streams):
        super().start(world, streams)
        capacity = world.cluster.capacity
        self.capacity = capacity / capacity.max(axis=0).clip(min=1)

    def act(self, seen):
        one = {name: np.asarray(entry)[None] for name, entry in seen.items()}
        return int(together_actions(one, self.capacity)[0])
