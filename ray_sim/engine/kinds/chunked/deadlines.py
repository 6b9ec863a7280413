"""Deadlines of chunked jobs: from the workload, or a multiple of the shortest time of each job."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.units import NEVER_US, US_PER_S, FloatArray, IntArray, seconds_to_us


def deadlines_us(table: JobTable, chunks: ChunkFacts, factor: float | None) -> IntArray | None:
    """(J,) when each job is due, None where nothing says so.

    Raises
    ------
    InvalidScenarioError : there is a factor, and the jobs have deadlines of their own
    """
    if table.utility is not None:
        if factor is not None:
            raise InvalidScenarioError(
                "deadline_factor: the jobs of this workload have deadlines of their own, utility_due_s; "
                "leave it out"
            )
        return _due_us(table.submit_us, table.utility.utility_due_s)
    if factor is None:
        return None
    return _due_us(table.submit_us, factor * shortest_us(table, chunks) / US_PER_S)


def _due_us(submit_us: IntArray, after_s: FloatArray) -> IntArray:
    return submit_us + seconds_to_us(np.minimum(after_s, NEVER_US / 4 / US_PER_S))


def shortest_us(table: JobTable, chunks: ChunkFacts) -> FloatArray:
    """(J,) upload and one chunk, on the worker that may train it first, at the edge or in the cloud.

    As if the job were submitted on the grid. NaN-free: infinite for a job without any worker.
    """
    arrays, slots, shortest = chunks.arrays, chunks.slots, np.full(len(table), np.inf)
    partition = arrays.server_part[slots.server]
    for c, job in enumerate(arrays.class_job.tolist()):
        mine = np.flatnonzero(arrays.job_class == c)
        may_train = chunks.eligible.may_train(np.array(job), slots.server) & (
            partition == arrays.job_part[job]
        )
        workers = np.flatnonzero(may_train)
        for worker in workers[np.unique(slots.kind[workers], return_index=True)[1]]:
            zeta = chunks.cloud_serves[mine] & slots.on_demand[worker]
            time_us = chunks.ready_us(0, mine, worker) + chunks.chunk_us(mine, worker, zeta)
            shortest[mine] = np.minimum(shortest[mine], time_us)
    return shortest
