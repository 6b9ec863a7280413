"""The certificate of a finished run: what the world allows each job, handed to the bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ray_sim.engine.kinds.chunked.world import CHUNK_RESOURCES, ChunkWorld
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import COMPLETED, Ledger
from ray_sim.model.result import JctCertificate
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.solvers.chunk_lp import Chunks, mean_flow_bound
from ray_sim.solvers.jct_bound import JctBounds, jct_bounds
from ray_sim.solvers.makespan import least_makespan

_CLOUD = "an unlimited cloud: no capacity bounds the jobs that may run there"


class _Times(NamedTuple):
    """What the world allows each of some jobs; in microseconds, see `jct_bounds`."""

    release: IntArray
    shortest: FloatArray
    busy: FloatArray
    area: FloatArray


@dataclass(frozen=True, slots=True)
class _AtBest:
    """The times of jobs in any order, and their partitions."""

    times: _Times
    capacity: FloatArray
    partition: IntArray
    flow: FloatArray | None = None
    """(P,) what the linear programme of chunks says, 0 where it says nothing."""
    only_b1: str | None = None
    no_lp: str | None = None

    def bounds(self) -> JctBounds:
        """Lower bounds on the mean time from release to completion."""
        times = self.times
        order = np.argsort(times.release, kind="stable")
        columns = (times.release[order], times.shortest[order], times.area[order])
        bounds = jct_bounds(
            *columns, self.capacity, self.partition[order], busy=times.busy[order], other=self.flow
        )
        assert bounds is not None, "some job completed"
        return bounds


def certify(world: World, ledger: Ledger, counted: BoolArray | None = None) -> JctCertificate | None:
    """Bound the mean JCT of the completed jobs; None where none completed or nothing is known of their kind.

    The jobs left out can only take resources, so the bound holds without them.

    Parameters
    ----------
    counted : (J,) the jobs whose mean it is; all without it
    """
    completed = ledger.status == COMPLETED
    done = np.flatnonzero(completed if counted is None else completed & counted)
    if len(done) == 0 or not (world.rigid or world.chunks is not None):
        return None
    chunks = world.chunks
    at_best = _gangs(world, done) if chunks is None else _chunks(world, chunks.at_speed_one, done)
    submit = world.table.submit_us[done]
    bounds, before_us = at_best.bounds(), float((at_best.times.release - submit).mean())
    b1_us, b2_us, b3_us, lp_us, bound_us = (
        bound + before_us for bound in (bounds.b1, bounds.b2, bounds.b3, bounds.other, bounds.bound)
    )
    bounded = at_best.only_b1 is None
    return JctCertificate(
        b1_s=b1_us / US_PER_S,
        b2_s=b2_us / US_PER_S if bounded else None,
        b3_s=b3_us / US_PER_S if bounded else None,
        bound_s=bound_us / US_PER_S,
        gap=_gap(float((ledger.end[done] - submit).mean()), bound_us),
        only_b1=at_best.only_b1,
        lp_s=None if at_best.flow is None or at_best.no_lp is not None else lp_us / US_PER_S,
        no_lp=at_best.no_lp,
        speed_up=None if chunks is None or chunks.truth.speed_up == 1 else chunks.truth.speed_up,
    )


def _gangs(world: World, jobs: IntArray) -> _AtBest:
    """A gang runs at most at the speed of its partition's fastest server, holding all its tasks."""
    arrays, table = world.arrays, world.table
    pools = np.split(arrays.part_servers, arrays.part_ptr[1:-1])
    fastest = np.array([arrays.speed[servers].max() for servers in pools])
    capacity = np.array([arrays.capacity[servers].sum(axis=0) for servers in pools], dtype=np.float64)
    partition = arrays.job_part[jobs]
    shortest = table.work_us[jobs] / fastest[partition]
    area = table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None]
    return _AtBest(_Times(table.submit_us[jobs], shortest, shortest, area), capacity, partition)


def _chunks(world: World, facts: ChunkWorld, jobs: IntArray) -> _AtBest:
    """Partition by partition; docs/certificates.md says why nothing is faster."""
    arrays, job_part = world.arrays, world.arrays.job_part[jobs]
    n_parts = len(arrays.part_ptr) - 1
    capacity, flow = np.zeros((n_parts, len(CHUNK_RESOURCES))), np.zeros(n_parts)
    parts, only_b1, no_lp = [], None, None
    for p in np.unique(job_part).tolist():
        mine, servers = jobs[job_part == p], arrays.part_servers[arrays.part_ptr[p] : arrays.part_ptr[p + 1]]
        workers = np.flatnonzero(arrays.server_part[facts.slots.server] == p)
        cloud = facts.slots.on_demand[workers]
        chunks = _on_slots(world, facts, mine, workers[~cloud])
        if cloud.any():
            only_b1, capacity[p] = _CLOUD, np.inf
            chunks = _near_a_cloud(world, facts, mine, workers[cloud], chunks)
            parts.append(_beside_a_cloud(chunks))
        else:
            capacity[p] = arrays.capacity[servers].sum(axis=0)
            parts.append(_of_slots(chunks))
        found, why = mean_flow_bound(chunks)
        flow[p], no_lp = found or 0.0, why or no_lp
    times = _Times(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return _AtBest(times, capacity, np.sort(job_part), flow, only_b1, no_lp)


def _on_slots(world: World, facts: ChunkWorld, jobs: IntArray, workers: IntArray) -> Chunks:
    """Jobs whose chunks are trained on these worker slots, released when they can be there."""
    kinds, slots = _kinds(facts, workers)
    ready_us = facts.truth.ready_us(world.table.submit_us[jobs], jobs, np.zeros(len(jobs), np.bool_))
    return Chunks(
        release=ready_us,
        ready=ready_us,
        count=facts.chunks[jobs],
        length=_lengths(facts, jobs, kinds, np.zeros(len(jobs), np.bool_)),
        slots=slots,
        elsewhere=np.full(len(jobs), np.inf),
        grid_us=facts.truth.grid_us,
    )


def _near_a_cloud(
    world: World, facts: ChunkWorld, jobs: IntArray, clouds: IntArray, chunks: Chunks
) -> Chunks:
    """The same, with a worker for every chunk in one of the clouds too, which take longer to reach."""
    submit_us = world.table.submit_us[jobs]
    kinds, _ = _kinds(facts, clouds)
    length = _lengths(facts, jobs, kinds, facts.cloud_serves[jobs]).min(axis=1)
    ready_us = facts.truth.ready_us(submit_us, jobs, np.ones(len(jobs), np.bool_))
    elsewhere = np.where(length < NEVER_US, ready_us - submit_us + length.astype(np.float64), np.inf)
    return replace(chunks, release=submit_us, elsewhere=elsewhere)


def _kinds(facts: ChunkWorld, workers: IntArray) -> tuple[IntArray, IntArray]:
    """A worker of each kind, alike in speed and memory, and how many there are of it."""
    offer = facts.eligible.workers_offer[facts.slots.server[workers]]
    alike = np.stack([facts.speed[workers], offer], axis=1)
    _, first, counts = np.unique(alike, axis=0, return_index=True, return_counts=True)
    return workers[first], counts


def _lengths(facts: ChunkWorld, jobs: IntArray, workers: IntArray, in_cloud: BoolArray) -> IntArray:
    """(n, workers) microseconds of a chunk, `NEVER_US` where the worker may not train it."""
    may_train = facts.eligible.may_train(jobs[:, None], facts.slots.server[workers])
    return np.where(may_train, facts.chunk_us(jobs[:, None], workers, in_cloud[:, None]), NEVER_US)


def _of_slots(chunks: Chunks) -> _Times:
    """Worker slots are scarce, and so are those for a parameter server, which a job has meanwhile."""
    makespan_us = least_makespan(chunks.count, chunks.length, chunks.slots)
    work_us = chunks.count * chunks.length.min(axis=1)
    busy = work_us / np.minimum(chunks.count, (chunks.length < NEVER_US) @ chunks.slots)
    area = np.stack([work_us, makespan_us], axis=1).astype(np.float64)
    return _Times(chunks.release, makespan_us.astype(np.float64), busy, area)


def _beside_a_cloud(chunks: Chunks) -> _Times:
    """No resource is scarce."""
    shortest, on_slots = chunks.elsewhere.copy(), (chunks.length < NEVER_US).any(axis=1)
    if on_slots.any():
        makespan_us = least_makespan(chunks.count[on_slots], chunks.length[on_slots], chunks.slots)
        upload_us = (chunks.ready - chunks.release)[on_slots]
        shortest[on_slots] = np.minimum(shortest[on_slots], upload_us + makespan_us)
    return _Times(chunks.release, shortest, shortest, np.zeros((len(shortest), len(CHUNK_RESOURCES))))


def _gap(mean_jct: float, bound: float) -> float | None:
    """Excess over the bound; 0 where both are 0, as for jobs of no length that never wait."""
    if bound > 0.0:
        return mean_jct / bound - 1.0
    return 0.0 if mean_jct == 0.0 else None
