"""What policies share that serve a queue in some order."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.job_queue import JobQueue
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray

PLACEMENT = Parameter(
    "placement",
    "choice",
    "consolidate",
    "pooled: only the number of free GPUs counts; first_fit: the first server that holds the job; "
    "consolidate: the fullest server that holds it, whole servers for larger jobs; spread: over as many "
    "servers as possible; load_balance: each task to the least loaded server",
    choices=RULE_NAMES,
)


def backfill(default: bool) -> Parameter:
    """The switch that lets jobs pass one that does not fit."""
    return Parameter(
        "backfill",
        "bool",
        default,
        "whether a waiting job may start before one that is ahead of it and does not fit",
    )


class KeyOrder(Policy):
    """Waiting jobs start in the order of a fixed key, without preemption."""

    parameters: ClassVar[tuple[Parameter, ...]] = (PLACEMENT, backfill(False))

    def __init__(self, placement: str = "consolidate", backfill: bool = False) -> None:
        self._placement = placement
        self._backfill = backfill

    @abstractmethod
    def keys(self, world: PolicyContext) -> IntArray:
        """(J,) integer keys, smaller first."""

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """An empty queue."""
        self._keys = self.keys(world)
        self._service: JobQueue = world.service(self._placement, backfill=self._backfill)

    def decide(self, view: View) -> Decision:
        """Queue the arrivals and start what fits."""
        self._service.push(view.arrived, self._keys[view.arrived])
        return self._service.serve(view)

    def order(self, world: PolicyContext) -> Order:
        """The fixed key."""
        return world.order(
            by="static",
            placement=self._placement,
            backfill=self._backfill,
            preemptive=False,
            static_key=self.keys(world),
        )
