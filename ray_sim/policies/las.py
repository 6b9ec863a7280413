"""Least attained service in discrete queues: Tiresias' 2DLAS."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ray_sim.kernels.core.attained_service import (
    MAX_LEVELS,
    MOST_SERVICE,
    among_running,
    crossing_us,
    end_place,
    front_place,
    level_key,
    level_of,
    promotion_us,
    running_place,
)
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import NEVER_US, US_PER_S, IntArray
from ray_sim.policy_api import (
    FASTEST,
    GPU_TYPE,
    KNOWING_RULES,
    NO_ROOM,
    PLACEMENT,
    WHOLE_TRACE,
    Decision,
    Order,
    Parameter,
    Policy,
    PolicyContext,
    QueueLevels,
    Streams,
    View,
    Wake,
)

FIRST_START, RUNNING_FIRST = "first_start", "running_first"

_MILLI = 1000
_MOST_SERVICE_S = 4e9
"""Upper bound of every limit; in milli-GPU or milli-core microseconds it still fits in 64 bits."""


class Las(Policy):
    """Queues by attained service; within a queue by first start, then submission.

    Service is GPU-seconds, or core-seconds in a workload in which no job asks for a GPU.

    All jobs that fit run in this order, all-or-nothing; smaller jobs may pass larger ones. The others
    are suspended. A job that has waited ``knob`` times its executed time returns to the top queue.

    Source: Gu et al., Tiresias, NSDI 2019.
    """

    name: ClassVar[str] = "las"
    section: ClassVar[str] = "docs/models/baselines.md#las-tiresias-2dlas (Gu et al., NSDI 2019)"
    summary: ClassVar[str] = "least attained service in discrete queues (Tiresias 2DLAS), preemptive"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        PLACEMENT,
        Parameter(
            "limits_gpu_s",
            "floats",
            (3600.0,),
            "limits of attained service between queues, increasing",
            unit="GPU-s",
            source="docs/models/baselines.md#las-tiresias-2dlas; one limit, so two queues, is our choice",
            minimum=0.0,
            exclusive=True,
        ),
        Parameter(
            "limits_core_s",
            "floats",
            (3600.0,),
            "the same limits in a workload in which no job asks for a GPU: service then counts cores",
            unit="core-s",
            source="docs/models/baselines.md#las-tiresias-2dlas; ours: an hour of one core, as of one GPU",
            minimum=0.0,
            exclusive=True,
        ),
        Parameter(
            "queue_order",
            "choice",
            FIRST_START,
            "order within a queue. first_start: by first start, then submission; running_first: running "
            "jobs, then waiting jobs, then jobs that join at this instant",
            source="docs/models/baselines.md#las-tiresias-2dlas; running_first: simulator of Gu et al.",
            choices=(FIRST_START, RUNNING_FIRST),
        ),
        Parameter(
            "knob",
            "float",
            0.0,
            "promotion (PROMOTEKNOB in the paper): a job returns to the top queue after it has waited this "
            "many times its executed time; 0 = never",
            source="docs/models/baselines.md#las-tiresias-2dlas; off in the simulator of Gu et al.",
            minimum=0.0,
        ),
        NO_ROOM,
        GPU_TYPE,
    )
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.REVIEW | Wake.SERVER_CHANGE
    sees: frozenset[str] = frozenset({"attained_service"})

    unchanging: ClassVar[frozenset[str]] = frozenset(
        {"_gpu_limits", "_core_limits", "_limits", "_rank", "_rate", "_restart_us", "_knob"}
    )

    def __init__(
        self,
        placement: str = "consolidate",
        limits_gpu_s: tuple[float, ...] = (3600.0,),
        limits_core_s: tuple[float, ...] = (3600.0,),
        queue_order: str = FIRST_START,
        knob: float = 0.0,
        no_room: str = "wait",
        type: str = FASTEST,  # noqa: A002 (the name that users know)
    ) -> None:
        if placement in KNOWING_RULES:
            self.sees = self.sees | {WHOLE_TRACE}
        self._placement = placement
        self._gpu_limits = self._service_limits("limits_gpu_s", limits_gpu_s)
        self._core_limits = self._service_limits("limits_core_s", limits_core_s)
        self._running_first = queue_order == RUNNING_FIRST
        self._knob = knob
        self._reject = no_room == "reject"
        self._gpu_type = type

    @property
    def draws(self) -> bool:
        """Whether the placement rule draws servers."""
        return self._placement == "random"

    def _service_limits(self, name: str, limits_s: tuple[float, ...]) -> IntArray:
        """Limits in thousandths of a GPU or core times microseconds."""
        ordered = all(a < b for a, b in pairwise(limits_s))
        if not 0 < len(limits_s) < MAX_LEVELS or not ordered or limits_s[-1] > _MOST_SERVICE_S:
            raise InvalidScenarioError(
                f"{self.name}: {name} must be 1 to {MAX_LEVELS - 1} increasing numbers up to "
                f"{_MOST_SERVICE_S:g}, got {limits_s}"
            )
        limits: IntArray = np.rint(np.array(limits_s) * US_PER_S * _MILLI).astype(np.int64)
        return limits

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Create empty queues."""
        n_jobs = len(world.jobs.submit_us)
        self._service = world.service(
            self._placement,
            backfill=True,
            preemptive=True,
            reject=self._reject,
            streams=streams,
            gpu_type=self._gpu_type,
        )
        self._restart_us = world.restart_us
        self._limits = self._limits_in(world)
        self._rank = self._ranks()
        self._rate = world.service_rate()
        self._level = np.zeros(n_jobs, dtype=np.int64)
        self._forgiven_us = np.zeros(n_jobs, dtype=np.int64)
        self._place = np.zeros(n_jobs, dtype=np.int64)
        self._turn = 0

    def _limits_in(self, world: PolicyContext) -> IntArray:
        return self._core_limits if world.counts_cores else self._gpu_limits

    def _ranks(self) -> IntArray:
        """(L,) place of each queue in the order of service."""
        return np.arange(len(self._limits) + 1)

    def decide(self, view: View) -> Decision:
        """Move jobs between queues, then run the first ones."""
        running, waiting = view.running, view.waiting
        self._turn += 1
        self._place[view.arrived] = end_place(self._turn)
        self._place[view.returned] = front_place(self._turn)
        served = np.union1d(running, view.returned)
        moved = self._demote(served, view.executed_us(served))
        self._service.push(view.arrived, self._current_keys(view, view.arrived))
        if self._knob > 0:
            moved += self._promote(view, waiting)
        decision = self._service.serve(
            view,
            (running, self._current_keys(view, running)),
            levels=self._levels_of(moved),
        )
        if self._running_first:
            self._change_places(view, decision, np.intersect1d(moved, running))
        return replace(decision, review_us=self._next_review(view, running, waiting, decision))

    def _current_keys(self, view: View, jobs: IntArray) -> IntArray:
        """(n,) keys: queue, then first start or place."""
        within = self._place[jobs] if self._running_first else view.first_start_us(jobs)
        ranks = self._rank[self._level[jobs]]
        keys = [level_key(int(rank), int(first)) for rank, first in zip(ranks, within, strict=True)]
        return np.array(keys, dtype=np.int64)

    def _move(self, job: int, level: int) -> None:
        """Move a job to the end of another queue."""
        self._level[job] = level
        self._place[job] = end_place(self._turn)

    def _levels_of(self, jobs: list[int]) -> QueueLevels:
        in_order = np.array(sorted(jobs), dtype=np.int64)
        return QueueLevels(in_order, self._level[in_order])

    def _change_places(self, view: View, decision: Decision, moved: IntArray) -> None:
        """Put running jobs before waiting ones; jobs that change together keep the order of service."""
        jobs, runs = decision.changed
        for job in (*jobs[runs], *np.setdiff1d(moved, jobs)):
            if not among_running(self._place[job]):
                self._turn += 1
                self._place[job] = running_place(self._turn)
        for job in jobs[~runs][::-1]:
            if among_running(self._place[job]):
                self._turn += 1
                self._place[job] = front_place(self._turn)
                self._service.rekey(int(job), int(self._current_keys(view, np.array([job]))[0]))

    def _attained(self, jobs: IntArray, executed_us: IntArray) -> IntArray:
        """Attained service in milli-GPU or milli-core microseconds since the last promotion."""
        rate = self._rate[jobs]
        counted: IntArray = rate * np.minimum(executed_us - self._forgiven_us[jobs], MOST_SERVICE // rate)
        return counted

    def _demote(self, jobs: IntArray, executed_us: IntArray) -> list[int]:
        """Set the levels of running jobs and return those that changed."""
        moved = []
        for job, service in zip(jobs.tolist(), self._attained(jobs, executed_us).tolist(), strict=True):
            level = level_of(service, self._limits)
            if level != self._level[job]:
                self._move(job, level)
                moved.append(job)
        return moved

    def _promote(self, view: View, waiting: IntArray) -> list[int]:
        """Return starved jobs to the top queue; the result lists those whose level changed."""
        moved = []
        ran = view.executed_us(waiting)
        due = self._promotion_times(waiting, ran, view.last_stop_us(waiting))
        for job, ran_us in zip(waiting[due <= view.now_us], ran[due <= view.now_us], strict=True):
            self._forgiven_us[job] = ran_us
            if self._level[job] > 0:
                self._move(job, 0)
                moved.append(int(job))
            self._service.rekey(int(job), int(self._current_keys(view, np.array([job]))[0]))
        return moved

    def _promotion_times(self, jobs: IntArray, ran_us: IntArray, stopped_us: IntArray) -> IntArray:
        """(n,) promotion time of each waiting job; never for a job without attained service."""
        spans = np.array([promotion_us(int(ran), self._knob) for ran in ran_us], dtype=np.int64)
        return np.where(self._attained(jobs, ran_us) > 0, stopped_us + spans, NEVER_US)

    def _next_review(self, view: View, running: IntArray, waiting: IntArray, decision: Decision) -> int:
        """Time of the next queue change of a job that will run, or promotion of one that will wait."""
        changed, runs = decision.changed
        started, stopped = changed[runs], changed[~runs]
        going_on = np.setdiff1d(running, np.concatenate([started, stopped]))
        fresh = view.first_start_us(started) == NEVER_US
        jobs = np.concatenate([going_on, started])
        pauses = np.concatenate([view.pause_left_us(going_on), np.where(fresh, 0, self._restart_us)])
        times = [
            view.now_us + int(pause) + span
            for job, service, pause in zip(
                jobs, self._attained(jobs, view.executed_us(jobs)), pauses, strict=True
            )
            if (span := crossing_us(int(service), int(self._rate[job]), self._limits)) >= 0
        ]
        if self._knob > 0:
            left = np.setdiff1d(waiting, started)
            jobs = np.concatenate([left, stopped])
            since = np.concatenate([view.last_stop_us(left), np.full(len(stopped), view.now_us)])
            times += self._promotion_times(jobs, view.executed_us(jobs), since).tolist()
        return min(times, default=NEVER_US)

    def order(self, world: PolicyContext) -> Order | None:
        """Describe the queues for the compiled loop, which rejects no job here."""
        return (
            None
            if self._reject
            else world.order(
                by="service",
                placement=self._placement,
                backfill=True,
                preemptive=True,
                limits=self._limits_in(world),
                running_first=self._running_first,
                knob=self._knob,
            )
        )
