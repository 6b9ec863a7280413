"""Policies of the benchmarks: one for each level of docs/own_policies.md, and FIFO at a known cost."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np

from ray_sim import Decision, ElasticPolicy, Policy, PolicyContext, PriorityPolicy, View, kernel
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.policies.fifo import Fifo
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


class Burn(Fifo):
    """FIFO that first runs `steps` steps of a loop; it declares random draws, so that every seed is a run."""

    name: ClassVar[str] = "burn"
    uses_seed: ClassVar[bool] = True
    parameters = (
        *Fifo.parameters,
        Parameter("steps", "int", 0, "steps of the loop to run before the first decision", minimum=0),
    )

    def __init__(self, placement: str = "consolidate", backfill: bool = False, steps: int = 0) -> None:
        super().__init__(placement, backfill)
        self._steps = steps

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Run the loop, then start FIFO."""
        spin(self._steps)
        super().start(world, streams)


@kernel
def _loop(steps: int) -> int:
    state = 1
    for _ in range(steps):  # xorshift: each step depends on the previous one
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
    return state


def spin(steps: int) -> int:
    """Run the loop; it returns a result so that the compiler does not remove it."""
    return int(_loop(steps))


def steps_per_cpu_s() -> int:
    """Steps of the loop per second of CPU time on this machine, without compilation."""
    spin(1)
    steps = 100_000_000
    began = time.process_time()
    spin(steps)
    return round(steps / (time.process_time() - began))
