"""Placements of jobs as linked rows, and the free quanta of servers that follow from them.

Invariant between calls: `Pool.free` is the capacity of the servers that are there minus the demand of all
rows; the rows of a job are linked in server and role order.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, WORKER, Changes, Pool, WorldArrays
from ray_sim.kernels.core.devices import GPU, add_devices, hold_devices
from ray_sim.kernels.core.job_rows import Held


@kernel
def add_placement(arrays: WorldArrays, pool: Pool, job: int, sign: int, free: I64) -> None:
    """Add the quanta of a job's placement to ``free``, (S, R + D), with ``sign`` 1, or subtract them with -1.

    O(rows x (R + D)).
    """
    row, resources = pool.head[job], arrays.demand.shape[2]
    while row >= 0:
        server, role, tasks = pool.row_server[row], pool.row_role[row], pool.row_count[row]
        for r in range(resources):
            free[server, r] += sign * tasks * arrays.demand[job, role, r]
        add_devices(free, server, pool.row_device, row, sign)
        row = pool.row_next[row]


@kernel
def add_used(used: I64, arrays: WorldArrays, pool: Pool, job: int, sign: int) -> None:
    """Add the quanta of a job's placement to ``used``, (R,), with ``sign`` 1, or subtract them with -1."""
    row = pool.head[job]
    while row >= 0:
        for r in range(len(used)):
            used[r] += sign * pool.row_count[row] * arrays.demand[job, pool.row_role[row], r]
        row = pool.row_next[row]


@kernel
def release(arrays: WorldArrays, pool: Pool, used: I64, job: int) -> None:
    """Release the placement of a job: its rows go to the spare list, its quanta to `free`; O(rows x R)."""
    add_used(used, arrays, pool, job, -1)
    add_placement(arrays, pool, job, 1, pool.free)
    row = pool.head[job]
    while row >= 0:
        following = pool.row_next[row]
        pool.row_next[row] = pool.top[0]
        pool.top[0] = row
        row = following
    pool.head[job] = -1


@kernel
def hold(arrays: WorldArrays, pool: Pool, used: I64, changes: Changes, i: int) -> None:
    """Place the job of change i, which holds nothing, as the change says; O(rows x R).

    Rows are linked from the last to the first, so that the list runs in server order. Rows that name no
    devices, which `check_changes` has found, get the default ones.
    """
    job = changes.job[i]
    for k in range(changes.ptr[i + 1] - 1, changes.ptr[i] - 1, -1):
        row = pool.top[0]
        if row >= 0:
            pool.top[0] = pool.row_next[row]
        else:
            row = pool.top[1]
            pool.top[1] = row + 1
        pool.row_server[row] = changes.server[k]
        pool.row_role[row] = changes.role[k]
        pool.row_count[row] = changes.tasks[k]
        server, tasks, ask = changes.server[k], changes.tasks[k], arrays.demand[job, changes.role[k], GPU]
        hold_devices(pool.free, server, ask, tasks, changes.device, k, pool.row_device, row)
        pool.row_next[row] = pool.head[job]
        pool.head[job] = row
    add_placement(arrays, pool, job, -1, pool.free)
    add_used(used, arrays, pool, job, 1)


@kernel
def change_placements(arrays: WorldArrays, pool: Pool, used: I64, changes: Changes) -> None:
    """Replace placements: release those of all changed jobs first, so that jobs can swap servers."""
    for i in range(changes.size[0]):
        release(arrays, pool, used, changes.job[i])
    for i in range(changes.size[0]):
        hold(arrays, pool, used, changes, i)


@kernel
def rigid_rate(speed: F64, pool: Pool, job: int) -> float:
    """Return the rate of a gang: the speed of its slowest server with a worker (synchronous training).

    The job holds at least one worker; without one the result is infinite.
    """
    slowest = np.inf
    row = pool.head[job]
    while row >= 0:
        if pool.row_count[row] > 0 and pool.row_role[row] == WORKER:
            slowest = min(slowest, speed[pool.row_server[row]])
        row = pool.row_next[row]
    return slowest


@kernel
def rigid_rates(speed: F64, held: Held, jobs: I64, rates: F64) -> None:
    """Set ``rates``, (n,), to the `rigid_rate` of each of ``jobs``."""
    for i in range(len(jobs)):
        rates[i] = rigid_rate(speed, held.pool, jobs[i])
