"""Level 1, a priority: the job with the least work starts first. Rigid jobs take the compiled loop."""

from ray_sim.policy_api import PriorityPolicy


class LeastWorkFirst(PriorityPolicy):
    """Run time times tasks."""

    sees = frozenset({"duration_s"})

    def keys(self, world):
        return world.jobs.work_us * world.jobs.tasks
