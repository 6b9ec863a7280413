"""Policies that serve a queue in the order of one number per job."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.job_queue import ANY, FASTEST, JobQueue, whole_keys
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.engine.visible_columns import WHOLE_TRACE
from ray_sim.kernels.core.placement import QUEUE_RULES
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
    "servers as possible; load_balance: each task to the least loaded server; fgd, best_fit, dot_product, "
    "gpu_packing, gpu_clustering, random: each task to the server with the best score",
    choices=QUEUE_RULES,
    source="docs/engine.md#placement-rules",
)


KNOWING_RULES = frozenset({"fgd"})
"""Placement rules that know the demands of jobs that have not come yet: by the target of typical tasks."""

NO_ROOM = Parameter(
    "no_room",
    "choice",
    "wait",
    "a job that does not fit when it comes waits, or is rejected",
    choices=("wait", "reject"),
    source="docs/engine.md#jobs-without-room",
)


GPU_TYPE = Parameter(
    "type",
    "choice",
    FASTEST,
    "GPU type that a job of truth=measured takes, of those with room. fastest: where it is fastest; any: "
    "that of the first server",
    choices=(FASTEST, ANY),
    source="docs/models/gavel.md#baselines",
)


KEY = Parameter(
    "key",
    "choice",
    "time",
    "what is shortest: run time, or area: run time times GPUs",
    choices=("time", "area"),
    source="docs/models/baselines.md#fifo-sjf-and-srtf",
)


def backfill(default: bool) -> Parameter:
    """The switch that lets jobs pass one that does not fit."""
    return Parameter(
        "backfill",
        "bool",
        default,
        "whether a waiting job may start before one that is ahead of it and does not fit",
        source="docs/models/baselines.md#fifo-sjf-and-srtf",
    )


class PriorityPolicy(Policy):
    """Waiting jobs start in the order of a fixed key, without preemption.

    A subclass says the key, and needs nothing else: rigid jobs then take the compiled loop.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (PLACEMENT, backfill(False), NO_ROOM)

    def __init__(self, placement: str = "consolidate", backfill: bool = False, no_room: str = "wait") -> None:
        if placement in KNOWING_RULES:
            self.sees = self.sees | {WHOLE_TRACE}
        self._placement = placement
        self._backfill = backfill
        self._reject = no_room == "reject"
        self._gpu_type = FASTEST

    @property
    def draws(self) -> bool:
        """Whether the placement rule draws servers."""
        return self.uses_seed or self._placement == "random"

    @abstractmethod
    def keys(self, world: PolicyContext) -> IntArray:
        """(J,) whole numbers, smaller first; of equal ones the job submitted first."""

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """An empty queue."""
        self._keys = self._whole_keys(world)
        self._service: JobQueue = world.service(
            self._placement,
            backfill=self._backfill,
            reject=self._reject,
            streams=streams,
            gpu_type=self._gpu_type,
        )

    def decide(self, view: View) -> Decision:
        """Queue the arrivals and start what fits."""
        self._service.push(view.arrived, self._keys[view.arrived])
        return self._service.serve(view)

    def order(self, world: PolicyContext) -> Order | None:
        """The fixed key."""
        return world.order(
            by="static",
            placement=self._placement,
            backfill=self._backfill,
            preemptive=False,
            reject=self._reject,
            static_key=self._whole_keys(world),
        )

    def _whole_keys(self, world: PolicyContext) -> IntArray:
        what = f"policy {self.name or type(self).__name__}: keys() must return"
        return whole_keys(what, self.keys(world), len(world.jobs.submit_us))
