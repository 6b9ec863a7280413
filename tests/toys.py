"""Toy worlds that are not rigid, with policies for them: what the engine's seams are proven with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ray_sim.engine.contract import GrantedWorld, Policy, View, Wake
from ray_sim.engine.decision import Decision, Dispatch
from ray_sim.engine.world import World
from ray_sim.model.streams import Streams
from ray_sim.model.truth import Holdings, Truth
from ray_sim.model.units import FloatArray, IntArray
from tests.chunk_worlds import ChunkJob, Server, chunk_world, first_idle_ps
from tests.worlds import Job, world_of


@dataclass(frozen=True, slots=True)
class WorkersTruth:
    """A job's rate is the number of workers it holds."""

    n_jobs: int

    def rates(self, holdings: Holdings, jobs: IntArray) -> FloatArray:
        rows = holdings.rows(jobs)
        workers = np.zeros(self.n_jobs)
        np.add.at(workers, rows[:, 0], rows[:, 3])
        return workers[jobs]

    def touched(self, servers: IntArray) -> IntArray:
        return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CrowdedTruth:
    """A job's rate is one over the number of jobs on the most crowded of its servers."""

    n_jobs: int

    def rates(self, holdings: Holdings, jobs: IntArray) -> FloatArray:
        everyone = holdings.rows(np.arange(self.n_jobs))
        crowd = np.bincount(everyone[:, 1])
        return np.array([1 / max(crowd[row[1]] for row in everyone if row[0] == job) for job in jobs])

    def touched(self, servers: IntArray) -> IntArray:
        """Anyone: the engine leaves out who holds nothing."""
        return np.arange(self.n_jobs)


def world_with(
    truth: type[WorkersTruth] | type[CrowdedTruth],
    jobs: Sequence[Job],
    gpus: Sequence[float],
    *,
    elastic: bool,
    params: Mapping[str, object] | None = None,
) -> World:
    """A world on another truth; ``elastic`` lets a job hold any number of its tasks."""
    made: Truth = truth(len(jobs))
    world = world_of(jobs, gpus, params=params)
    return replace(world, truth=made, elastic=elastic, row_bound=len(jobs) * len(gpus) + 1)


def chunked(jobs: Sequence[Job], chunks: Sequence[int], servers: int) -> World:
    """Chunked jobs, in order of submission; a job's duration is that of one of its chunks.

    Servers have one worker each, and every second one two parameter servers: jobs may have to wait. Policies
    for slots decide every second; chunks take microseconds.
    """
    rows = [ChunkJob(job.submit_s, n, job.duration_s) for job, n in zip(jobs, chunks, strict=True)]
    every_other = [Server(ps=2 * (1 - i % 2)) for i in range(servers)]
    return chunk_world(rows, every_other, slot_s=1, slot_fill="fractional")


class Dealer(Policy):
    """Deals the chunks of arriving jobs to the workers in turn; short chunks overtake long ones."""

    name: ClassVar[str] = "dealer"
    wake_on: ClassVar[Wake] = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION
    sees: ClassVar[frozenset[str]] = frozenset({"duration_s"})
    chunked: ClassVar[bool] = True

    def start(self, world: GrantedWorld, streams: Streams) -> None:
        self._servers = len(world.cluster)
        self._next = 0

    def decide(self, view: View) -> Decision:
        jobs = np.repeat(view.arrived, view.jobs.chunks[view.arrived])
        units = [np.arange(n) for n in view.jobs.chunks[view.arrived]]
        workers = (self._next + np.arange(len(jobs))) % self._servers
        self._next += len(jobs)
        dispatch = Dispatch(jobs, np.concatenate(units), workers, view.jobs.work_us[jobs]) if units else None
        return Decision.of(first_idle_ps(view), dispatch=dispatch)


class Turns(Policy):
    """At each slot, server s goes whole to the (s + slot)th of the jobs present, for any truth."""

    name: ClassVar[str] = "turns"
    wake_on: ClassVar[Wake] = Wake.SLOT

    def start(self, world: GrantedWorld, streams: Streams) -> None:
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
