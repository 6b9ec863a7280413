"""Least times and capacity of chunked jobs, for the certificate of the mean JCT.

Used when a run is over. The limits must hold for every schedule; docs/certificates.md has the proof.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes
from ray_sim.engine.kinds.chunked.facts import CHUNK_RESOURCES, ChunkFacts
from ray_sim.engine.kinds.pools import partition_names
from ray_sim.engine.world import World
from ray_sim.model.units import NEVER_US, BoolArray, IntArray
from ray_sim.solvers.chunk_lp import Chunks, mean_flow_bound
from ray_sim.solvers.makespan import least_makespan

_CLOUD = "an unlimited cloud: no capacity bounds the jobs that may run there"


def chunk_limits(world: World, facts: ChunkFacts, jobs: IntArray) -> JctLimits:
    """Limits of completed jobs with workers of speed-up 1, sorted by partition."""
    speed_up = None if facts.times.speed_up == 1 else facts.times.speed_up
    facts = facts.at_speed_one
    arrays, job_part = world.arrays, world.arrays.job_part[jobs]
    n_parts = len(arrays.part_class_ptr) - 1
    capacity, flow = np.zeros((n_parts, len(CHUNK_RESOURCES))), np.zeros(n_parts)
    parts, only_b1, no_lp = [], None, None
    for p in np.unique(job_part).tolist():
        mine, servers = jobs[job_part == p], arrays.pool_servers[arrays.pool_ptr[p] : arrays.pool_ptr[p + 1]]
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
    times = LeastTimes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return JctLimits(
        times,
        capacity,
        np.sort(job_part),
        flow,
        only_b1,
        no_lp,
        speed_up,
        resources=CHUNK_RESOURCES,
        partitions=partition_names(world),
    )


def _on_slots(world: World, facts: ChunkFacts, jobs: IntArray, workers: IntArray) -> Chunks:
    """Chunks of the jobs on these worker slots; flow times count from the end of the first upload."""
    kinds, slots = _kinds(facts, workers)
    length = _lengths(facts, jobs, kinds, np.zeros(len(jobs), np.bool_))
    ready_us = facts.ready_us(world.table.submit_us[jobs, None], jobs[:, None], kinds)
    return Chunks(
        release=_first_ready(ready_us, length),
        ready=ready_us,
        count=facts.chunks[jobs],
        length=length,
        slots=slots,
        elsewhere=np.full(len(jobs), np.inf),
        grid_us=facts.times.grid_us,
    )


def _near_a_cloud(
    world: World, facts: ChunkFacts, jobs: IntArray, clouds: IntArray, chunks: Chunks
) -> Chunks:
    """The same chunks if they may also train in a cloud; flow times count from the submission."""
    submit_us = world.table.submit_us[jobs]
    kinds, _ = _kinds(facts, clouds)
    length = _lengths(facts, jobs, kinds, facts.cloud_serves[jobs])
    time_us = facts.ready_us(submit_us[:, None], jobs[:, None], kinds) - submit_us[:, None] + length
    elsewhere = np.where(length < NEVER_US, time_us, np.inf).min(axis=1)
    return replace(chunks, release=submit_us, elsewhere=elsewhere)


def _first_ready(ready_us: IntArray, length: IntArray) -> IntArray:
    """(n,) earliest end of an upload to a worker that may train the job, `NEVER_US` without one."""
    first: IntArray = np.where(length < NEVER_US, ready_us, NEVER_US).min(axis=1, initial=NEVER_US)
    return first


def _kinds(facts: ChunkFacts, workers: IntArray) -> tuple[IntArray, IntArray]:
    """One worker of each kind, with equal times and memory, and the number of workers of each kind."""
    offer = facts.eligible.workers_offer[facts.slots.server[workers]]
    features = np.stack([facts.slots.kind[workers], offer], axis=1)
    _, first, counts = np.unique(features, axis=0, return_index=True, return_counts=True)
    return workers[first], counts


def _lengths(facts: ChunkFacts, jobs: IntArray, workers: IntArray, in_cloud: BoolArray) -> IntArray:
    """(n, workers) microseconds of a chunk, `NEVER_US` where the worker may not train it."""
    may_train = facts.eligible.may_train(jobs[:, None], facts.slots.server[workers])
    return np.where(may_train, facts.chunk_us(jobs[:, None], workers, in_cloud[:, None]), NEVER_US)


def _of_slots(chunks: Chunks) -> LeastTimes:
    """Least times where slots are limited: of workers, and one parameter server per job for its makespan."""
    makespan_us = least_makespan(chunks.count, chunks.length, chunks.slots)
    work_us = chunks.count * chunks.length.min(axis=1)
    busy = work_us / np.minimum(chunks.count, (chunks.length < NEVER_US) @ chunks.slots)
    area = np.stack([work_us, makespan_us], axis=1).astype(np.float64)
    return LeastTimes(chunks.release, makespan_us.astype(np.float64), busy, area)


def _beside_a_cloud(chunks: Chunks) -> LeastTimes:
    """Least times beside an unlimited cloud: jobs take no limited resource, so the areas are 0."""
    shortest, on_slots = chunks.elsewhere.copy(), (chunks.length < NEVER_US).any(axis=1)
    if on_slots.any():
        makespan_us = least_makespan(chunks.count[on_slots], chunks.length[on_slots], chunks.slots)
        upload_us = (_first_ready(chunks.ready, chunks.length) - chunks.release)[on_slots]
        shortest[on_slots] = np.minimum(shortest[on_slots], upload_us + makespan_us)
    return LeastTimes(chunks.release, shortest, shortest, np.zeros((len(shortest), len(CHUNK_RESOURCES))))
