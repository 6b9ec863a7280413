"""Slowest placements of given numbers of tasks, for lower bounds of the speed of a job.

Under the bundled step-time rules no placement of w workers and p parameter servers on several servers trains
slower than the slower of two: all workers on one server and all parameter servers on another, or everything
on one server, each as slow as the slowest server that may hold a worker. Proof: the time of a step grows with
each transfer. If external transfers take at least as long as internal ones, none takes longer than on the
pair of servers, where all are external; else none takes longer than on the one server.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from ray_sim.kernels.core.arrays import ALL_REDUCE, PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.units import FloatArray, IntArray

PLAN_MARGIN = 2e-9
"""Relative addition to sample times: a plan may lack 1e-9 of its work, since numbers of tasks are rounded."""


@runtime_checkable
class SpeedBound(Protocol):
    """Progress rule with a lower bound of speed over all placements of given numbers of tasks."""

    def longest_sample_s(
        self, jobs: IntArray, workers: IntArray, ps: IntArray, speed: FloatArray, *, on_one_server: bool
    ) -> FloatArray:
        """(n,) most seconds that each worker of a job takes per sample, wherever its tasks stand.

        The job trains at least workers / this samples per second on nominal links, without slow workers and
        without other jobs that share or disturb its servers.

        Parameters
        ----------
        jobs : (n,) repeats allowed
        workers, ps : (n,) tasks of each job, >= 1; ``ps`` is ignored for all-reduce jobs
        speed : (n,) of the slowest server that may hold a worker
        on_one_server : whether all tasks stand on one server; otherwise they may stand anywhere
        """


def together(workers: IntArray, ps: IntArray) -> Rows:
    """Placements of n jobs, the tasks of job i on server 2 i."""
    return _placed(workers, ps, np.full(len(ps), PARAMETER_SERVER), 0)


def apart(workers: IntArray, ps: IntArray, exchange: IntArray) -> Rows:
    """Placements of n jobs, the workers of job i on server 2 i and its parameter servers on server 2 i + 1.

    Of an all-reduce job one worker is on the other server, if it has several.
    """
    ring = exchange == ALL_REDUCE
    other = np.where(ring, np.minimum(workers - 1, 1), ps)
    role = np.where(ring, WORKER, PARAMETER_SERVER)
    return _placed(np.where(ring, workers - other, workers), other, role, 1)


def _placed(workers: IntArray, others: IntArray, role: IntArray, server_of_others: int) -> Rows:
    n = len(workers)
    server = 2 * np.arange(n)
    return Rows(
        ptr=2 * np.arange(n + 1),
        server=np.stack([server, server + server_of_others], axis=1).ravel(),
        role=np.stack([np.full(n, WORKER), role], axis=1).ravel(),
        tasks=np.stack([workers, others], axis=1).ravel(),
    )
