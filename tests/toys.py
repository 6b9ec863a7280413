"""Toy worlds that are not rigid, with policies for them: what the engine's seams are proven with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import NO_JOBS, Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch
from ray_sim.engine.kinds.chunked.view import ChunkedContext, ChunkedPolicy, ChunkedView
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.model.progress_rule import PlacementRows, ProgressRule
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S, FloatArray, IntArray
from tests.chunk_worlds import ChunkJob, Server, chunk_world, first_idle_ps
from tests.worlds import Change, Job, world_of


@dataclass(frozen=True, slots=True)
class WorkersRule:
    """A job's rate is the number of workers it holds."""

    n_jobs: int
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        held = placements.of(jobs)
        workers = np.zeros(self.n_jobs)
        np.add.at(workers, held.job, held.count)
        return workers[jobs]

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CrowdedRule:
    """A job's rate is one over the number of jobs on the most crowded of its servers."""

    n_jobs: int
    disturbing: ClassVar[bool] = True

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        everyone = placements.of(np.arange(self.n_jobs))
        crowd = np.bincount(everyone.server)[everyone.server]
        return np.array([1 / crowd[everyone.job == job].max() for job in jobs])

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """All others that hold something."""
        everyone = np.arange(self.n_jobs)
        return np.setdiff1d(everyone[placements.pool.head >= 0], jobs)


class PartialFacts(RigidFacts):
    """Facts of jobs that may hold any number of their tasks."""

    partial: ClassVar[bool] = True


def world_with(
    truth: type[WorkersRule] | type[CrowdedRule],
    jobs: Sequence[Job],
    gpus: Sequence[float],
    *,
    elastic: bool,
    params: Mapping[str, object] | None = None,
) -> World:
    """A world on another truth; ``elastic`` lets a job hold any number of its tasks."""
    made: ProgressRule = truth(len(jobs))
    world = world_of(jobs, gpus, params=params)
    gangs = world.facts
    assert isinstance(gangs, RigidFacts)
    facts = PartialFacts if elastic else RigidFacts
    rows = len(jobs) * len(gpus) + 1
    return replace(world, facts=facts(gangs.arrays, gangs.beyond_capacity, rows, gangs.resources, made))


def chunked(
    jobs: Sequence[Job], chunks: Sequence[int], servers: int, changes: Sequence[Change] = ()
) -> World:
    """Chunked jobs, in order of submission; a job's duration is that of one of its chunks.

    Servers have one worker each, and every second one two parameter servers: jobs may have to wait. Policies
    for slots decide every second; chunks take microseconds.
    """
    rows = [ChunkJob(job.submit_s, n, job.duration_s) for job, n in zip(jobs, chunks, strict=True)]
    every_other = [Server(ps=2 * (1 - i % 2)) for i in range(servers)]
    return chunk_world(rows, every_other, slot_s=1, slot_fill="fractional", changes=changes)


class Dealer(ChunkedPolicy):
    """Deals the chunks of arriving jobs to the workers there in turn; short chunks overtake long ones."""

    name: ClassVar[str] = "dealer"
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE
    sees: frozenset[str] = frozenset({"duration_s"})

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        self._unsent = NO_JOBS
        self._next = 0

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        return ChunkedDecision.of(first_idle_ps(view), dispatch=self._deal(view))

    def _deal(self, view: ChunkedView) -> Dispatch | None:
        jobs = np.union1d(self._unsent, view.arrived)
        there = np.flatnonzero(view.available)
        self._unsent = jobs if len(there) == 0 else NO_JOBS
        chunks = view.undispatched(jobs)
        if len(there) == 0 or len(chunks.job) == 0:
            return None
        workers = there[(self._next + np.arange(len(chunks.job))) % len(there)]
        self._next += len(chunks.job)
        return Dispatch(chunks.job, chunks.unit, workers, view.jobs.work_us[chunks.job])


class Impatient(Dealer):
    """A dealer that evicts every other job 3 s after it came, wherever its chunks are by then."""

    name: ClassVar[str] = "impatient"
    wake_on: Wake = Dealer.wake_on | Wake.REVIEW

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        present = np.union1d(view.waiting, view.running)
        odd = present[present % 2 == 1]
        due_us = view.jobs.submit_us[odd] + 3 * US_PER_S
        evicted = odd[due_us <= view.now_us]
        dispatch = self._deal(view)
        self._unsent = np.setdiff1d(self._unsent, evicted)
        if dispatch is not None:
            stays = ~np.isin(dispatch.job, evicted)
            columns = {name: getattr(dispatch, name)[stays] for name in ("job", "unit", "worker", "key")}
            dispatch = replace(dispatch, **columns)
        placements = {job: rows for job, rows in first_idle_ps(view).items() if job not in evicted}
        review_us = min(due_us[due_us > view.now_us].tolist(), default=NEVER_US)
        return ChunkedDecision.of(placements, dispatch=dispatch, evict=evicted, review_us=review_us)


class Turns(Policy):
    """At each slot, server s goes whole to the (s + slot)th of the jobs present, for any truth."""

    name: ClassVar[str] = "turns"
    wake_on: Wake = Wake.SLOT

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self._gpus = world.cluster.capacity[:, 0] // 1000
        self._turn = 0

    def decide(self, view: View) -> Decision:
        present = np.sort(np.concatenate([view.waiting, view.running])).tolist()
        self._turn += 1
        target: dict[int, list[tuple[int, int, int]]] = {int(job): [] for job in view.running}
        for server, gpus in enumerate(self._gpus.tolist()):
            job = present[(server + self._turn) % len(present)]
            target.setdefault(job, []).append((server, 0, gpus))
        return Decision.of(target)
