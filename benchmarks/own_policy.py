"""Examples of a user's policies, one for each level of docs/own_policies.md, for the benchmark `loop`."""

from __future__ import annotations

import numpy as np

from ray_sim import Decision, ElasticPolicy, Policy, PolicyContext, PriorityPolicy, View
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.policy_api import PARAMETER_SERVER, WORKER, ElasticContext, ElasticView


class Idle(Policy):
    """Change nothing: what a decision costs without a policy."""

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self.decisions = 0

    def decide(self, view: View) -> Decision:
        self.decisions += 1
        return Decision()


class ShortestFirst(Policy):
    """Start the waiting job with the least GPU-time first, as long as it fits."""

    sees = frozenset({"duration_s"})

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self.area = world.jobs.work_us * world.jobs.tasks
        self.queue = world.service("consolidate")

    def decide(self, view: View) -> Decision:
        self.queue.push(view.arrived, self.area[view.arrived])
        return self.queue.serve(view)


class ShortestPriority(PriorityPolicy):
    """The same as a priority."""

    sees = frozenset({"duration_s"})

    def keys(self, world: PolicyContext) -> IntArray:
        return world.jobs.work_us * world.jobs.tasks


class OneWorkerEach(ElasticPolicy):
    """Place the first waiting job where there is room: a worker and a parameter server on one server."""

    def start(self, world: ElasticContext, streams: Streams) -> None:
        jobs = world.jobs
        self.need = jobs.role_demand[:, WORKER] + jobs.role_demand[:, PARAMETER_SERVER]
        self.roles = [WORKER, PARAMETER_SERVER]
        self.decisions = 0

    def decide(self, view: ElasticView) -> Decision:
        self.decisions += 1
        waiting = view.waiting
        if not len(waiting):
            return Decision()
        job = int(waiting[0])
        servers = np.flatnonzero((view.free >= self.need[job]).all(axis=1))
        return Decision.of({job: [(int(servers[0]), role, 1) for role in self.roles]} if len(servers) else {})
