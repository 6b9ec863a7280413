"""Level 1, a priority: the job with the highest priority in the trace starts first."""

from ray_sim.policy_api import PriorityPolicy


class HighestPriority(PriorityPolicy):
    """Priority of the trace, higher first; equal ones by submission."""

    sees = frozenset({"priority"})

    def keys(self, world):
        return -world.jobs.priority
