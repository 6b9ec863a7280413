"""The certificate of a finished run: what the world allows each job, handed to the bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.engine.chunk_world import CHUNK_RESOURCES, ChunkWorld
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import COMPLETED, Ledger
from ray_sim.model.result import JctCertificate
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.solvers.jct_bound import JctBounds, jct_bounds
from ray_sim.solvers.makespan import least_makespan

_CLOUD = "an unlimited cloud: no capacity bounds the jobs that may run there"


_Times = tuple[IntArray, FloatArray, FloatArray, FloatArray]
"""Of some jobs of a partition the first four of `_AtBest`."""


@dataclass(frozen=True, slots=True)
class _AtBest:
    """What the world allows each of some jobs; times in microseconds, see `jct_bounds`."""

    release: IntArray
    shortest: FloatArray
    busy: FloatArray
    area: FloatArray
    capacity: FloatArray
    partition: IntArray
    only_b1: str | None = None

    def bounds(self) -> JctBounds:
        """Lower bounds on the mean time from release to completion."""
        order = np.argsort(self.release, kind="stable")
        columns = (self.release[order], self.shortest[order], self.area[order])
        bounds = jct_bounds(*columns, self.capacity, self.partition[order], busy=self.busy[order])
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
    at_best = _gangs(world, done) if world.chunks is None else _chunks(world, world.chunks, done)
    submit = world.table.submit_us[done]
    bounds, before_us = at_best.bounds(), float((at_best.release - submit).mean())
    b1_us, b2_us, b3_us, bound_us = (
        bound + before_us for bound in (bounds.b1, bounds.b2, bounds.b3, bounds.bound)
    )
    bounded = at_best.only_b1 is None
    return JctCertificate(
        b1_s=b1_us / US_PER_S,
        b2_s=b2_us / US_PER_S if bounded else None,
        b3_s=b3_us / US_PER_S if bounded else None,
        bound_s=bound_us / US_PER_S,
        gap=_gap(float((ledger.end[done] - submit).mean()), bound_us),
        only_b1=at_best.only_b1,
    )


def _gangs(world: World, jobs: IntArray) -> _AtBest:
    """A gang runs at most at the speed of its partition's fastest server, holding all its tasks."""
    shop, table = world.shop, world.table
    pools = np.split(shop.part_servers, shop.part_ptr[1:-1])
    fastest = np.array([shop.speed[servers].max() for servers in pools])
    capacity = np.array([shop.capacity[servers].sum(axis=0) for servers in pools], dtype=np.float64)
    partition = shop.job_part[jobs]
    shortest = table.work_us[jobs] / fastest[partition]
    area = table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None]
    return _AtBest(table.submit_us[jobs], shortest, shortest, area, capacity, partition)


def _chunks(world: World, facts: ChunkWorld, jobs: IntArray) -> _AtBest:
    """Partition by partition; docs/certificates.md says why nothing is faster."""
    shop, job_part = world.shop, world.shop.job_part[jobs]
    capacity = np.zeros((len(shop.part_ptr) - 1, len(CHUNK_RESOURCES)))
    parts, only_b1 = [], None
    for p in np.unique(job_part).tolist():
        mine, servers = jobs[job_part == p], shop.part_servers[shop.part_ptr[p] : shop.part_ptr[p + 1]]
        workers = np.flatnonzero(shop.server_part[facts.slots.server] == p)
        if facts.in_cloud[servers].any():
            only_b1, capacity[p] = _CLOUD, np.inf
            parts.append(_near_a_cloud(world, facts, mine, workers))
        else:
            capacity[p] = shop.capacity[servers].sum(axis=0)
            parts.append(_on_slots(world, facts, mine, workers))
    release, shortest, busy, area = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _AtBest(release, shortest, busy, area, capacity, np.sort(job_part), only_b1)


def _on_slots(world: World, facts: ChunkWorld, jobs: IntArray, workers: IntArray) -> _Times:
    """Jobs whose chunks are trained on these worker slots, each with a parameter server meanwhile."""
    chunks = facts.chunks[jobs]
    _, of_speed, slots = np.unique(facts.speed[workers], return_index=True, return_counts=True)
    lengths_us = facts.chunk_us(jobs[:, None], workers[of_speed], in_cloud=False)
    makespan_us = least_makespan(chunks, lengths_us, slots)
    work_us = chunks * lengths_us.min(axis=1)
    busy = work_us / np.minimum(chunks, len(workers))
    area = np.stack([work_us, makespan_us], axis=1).astype(np.float64)
    release_us = facts.truth.ready_us(world.table.submit_us[jobs], jobs, np.zeros(len(jobs), np.bool_))
    return release_us, makespan_us.astype(np.float64), busy, area


def _near_a_cloud(world: World, facts: ChunkWorld, jobs: IntArray, workers: IntArray) -> _Times:
    """Jobs with a worker for every chunk in the cloud, which takes longer to reach; no resource is scarce."""
    on_demand = facts.slots.on_demand[workers]
    submit_us = world.table.submit_us[jobs]
    fastest = workers[on_demand][np.argmax(facts.speed[workers[on_demand]])]
    ready_us = facts.truth.ready_us(submit_us, jobs, np.ones(len(jobs), np.bool_))
    shortest = (ready_us - submit_us + facts.chunk_us(jobs, fastest, in_cloud=True)).astype(np.float64)
    if not on_demand.all():
        edge_us, makespan_us, _, _ = _on_slots(world, facts, jobs, workers[~on_demand])
        shortest = np.minimum(shortest, edge_us - submit_us + makespan_us)
    return submit_us, shortest, shortest, np.zeros((len(jobs), len(CHUNK_RESOURCES)))


def _gap(mean_jct: float, bound: float) -> float | None:
    """Excess over the bound; 0 where both are 0, as for jobs of no length that never wait."""
    if bound > 0.0:
        return mean_jct / bound - 1.0
    return 0.0 if mean_jct == 0.0 else None
