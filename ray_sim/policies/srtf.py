"""Shortest remaining time first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.class_first import gpu_count
from ray_sim.policy_api import (
    FASTEST,
    GPU_TYPE,
    KEY,
    NO_JOBS,
    NO_ROOM,
    PLACEMENT,
    Decision,
    Order,
    Parameter,
    PolicyContext,
    PriorityPolicy,
    Streams,
    View,
    backfill,
)


class Srtf(PriorityPolicy):
    """Run the jobs with the least work left; suspended jobs resume where they stopped.

    Backfilling is the default, because it delays no job here: a passed job gets servers as soon as it fits,
    from all jobs with more work left.
    """

    name: ClassVar[str] = "srtf"
    section: ClassVar[str] = "docs/models/baselines.md#fifo-sjf-and-srtf (Schrage, 1968)"
    summary: ClassVar[str] = "least work left first, preemptive; knows run times"
    parameters: ClassVar[tuple[Parameter, ...]] = (*(PLACEMENT, backfill(True), NO_ROOM, GPU_TYPE, KEY),)
    sees: frozenset[str] = frozenset({"duration_s", "work_left"})

    def __init__(
        self,
        placement: str = "consolidate",
        backfill: bool = True,
        no_room: str = "wait",
        type: str = FASTEST,  # noqa: A002 (the name that users know)
        key: str = "time",
    ) -> None:
        super().__init__(placement, backfill, no_room)
        self._gpu_type = type
        self._by_area = key == "area"
        if self._reject and not backfill:
            raise InvalidScenarioError("srtf: no_room=reject needs backfill=true, as a job is looked at once")

    def keys(self, world: PolicyContext) -> IntArray:
        """Return the whole work, which is left on arrival."""
        return world.jobs.work_us

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Create an empty queue."""
        self._keys = self.keys(world)
        self._service = world.service(
            self._placement,
            backfill=self._backfill,
            preemptive=True,
            reject=self._reject,
            streams=streams,
            gpu_type=self._gpu_type,
        )
        self._suspended = NO_JOBS
        self._gpus = gpu_count(world)

    def decide(self, view: View) -> Decision:
        """Run the jobs with the least work left."""
        # They were queued by what was left before they lost progress (`-w preemption`).
        suspended = np.intersect1d(self._suspended, view.waiting)
        for job, key in zip(suspended.tolist(), self._time_left_us(view, suspended).tolist(), strict=True):
            self._service.rekey(job, key)
        self._service.push(view.arrived, self._time_left_us(view, view.arrived))
        running = view.running
        decision = self._service.serve(view, (running, self._time_left_us(view, running)))
        changed, runs = decision.changed
        self._suspended = changed[~runs]
        return decision

    def _time_left_us(self, view: View, jobs: IntArray) -> IntArray:
        """(n,) time left at speed 1, whole microseconds; times GPUs by area."""
        left_us: IntArray = np.ceil(view.time_left_us(jobs)).astype(np.int64)
        return left_us * self._gpus[jobs] if self._by_area else left_us

    def order(self, world: PolicyContext) -> Order | None:
        """Describe the order for the compiled loop, which rejects no job here: least work left first."""
        return (
            None
            if self._reject or self._by_area
            else world.order(
                by="remaining", placement=self._placement, backfill=self._backfill, preemptive=True
            )
        )
