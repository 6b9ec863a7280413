"""Example of a user's policy: the README's, for the benchmark `replay`."""

from __future__ import annotations

from ray_sim import Decision, Policy, PolicyContext, View
from ray_sim.model.streams import Streams


class ShortestFirst(Policy):
    """Start the waiting job with the least GPU-time first, as long as it fits."""

    sees = frozenset({"duration_s"})

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self.area = world.jobs.work_us * world.jobs.tasks
        self.queue = world.service("consolidate")

    def decide(self, view: View) -> Decision:
        self.queue.push(view.arrived, self.area[view.arrived])
        return self.queue.serve(view)
