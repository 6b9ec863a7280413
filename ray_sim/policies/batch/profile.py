"""The profile of a decision: what is free now, and what running and planned jobs give back and take later.

Only changes are stored, in order of time, so a search over time visits rows of placements and no matrix per
step. Cells are servers; under the placement rule `pooled` a cell stands for all servers of the same pools,
since only the sum of what is free counts there. `ray_sim.policies.batch.serve` calls these kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, Bool, Pool, WorldArrays, devices, new_pool
from ray_sim.kernels.core.devices import copy_devices
from ray_sim.kernels.core.placement import POOLED, place
from ray_sim.kernels.core.placement_rows import add_placement
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.kernels.core.queue_dispatch import copy_matrix
from ray_sim.kernels.handle import handle
from ray_sim.model.units import IntArray
from ray_sim.policy_api import Placer

STEPS, TAKEN = range(2)
"""Places in `Profile.size`."""


class Profile(NamedTuple):
    """Free quanta over time. J jobs, C cells, E steps."""

    arrays: WorldArrays
    """The world's, with cells in place of servers."""
    cell: I64
    """(S,) cell of each server."""
    held: Pool
    """Placements of running and planned jobs, and the capacity that is free now, by cell."""
    time: I64
    """(E,) non-decreasing; of equal times those that give back come first."""
    holder: I64
    """(E,) job that gives back what it holds, or -1 - job that takes it."""
    gone: Bool
    """(J,) running jobs that have been stopped: their ends change nothing."""
    now: I64
    """(C, R + D) work space: free at a step."""
    walk: I64
    """(C, R + D) work space: free at a step of a window."""
    least: I64
    """(C, R + D) work space: least free over a window."""
    size: I64
    """(2,) number of steps, and of steps that take."""


def cells_of(pools: Bool, placer: Placer) -> tuple[IntArray, WorldArrays]:
    """(S,) cell of each server, and the world's arrays with cells in place of servers.

    A cell is a server; where only the sum of what is free counts, all servers of the same ``pools``, (Q, S).
    """
    arrays = placer.arrays
    if placer.rule != POOLED or devices(arrays):
        return np.arange(len(arrays.capacity)), arrays
    _, first, number = np.unique(pools, axis=1, return_index=True, return_inverse=True)
    cell = np.argsort(np.argsort(first))[number.reshape(-1)]
    capacity = np.zeros((len(first), arrays.capacity.shape[1]), dtype=np.int64)
    np.add.at(capacity, cell, arrays.capacity)
    members = [np.unique(cell[pool]) for pool in pools]
    plan = arrays._replace(
        capacity=capacity,
        empty=capacity,
        pool_ptr=np.concatenate([[0], np.cumsum([len(each) for each in members])]).astype(np.int64),
        pool_servers=np.concatenate(members).astype(np.int64),
    )
    return cell, plan


def new_profile(arrays: WorldArrays, cell: IntArray, jobs: int, rows: int) -> Profile:
    """Return a profile for ``jobs`` planned jobs, and ``rows`` rows of these and the running ones."""
    n_jobs, steps = len(arrays.submit), len(arrays.submit) + 2 * jobs
    now, walk, least = np.zeros((3, *arrays.empty.shape), dtype=np.int64)
    return Profile(
        arrays=handle(arrays),
        cell=cell,
        held=handle(new_pool(n_jobs, rows, arrays, np.ones(len(arrays.empty), np.bool_))),
        time=np.empty(steps, np.int64),
        holder=np.empty(steps, np.int64),
        gone=np.zeros(n_jobs, np.bool_),
        now=now,
        walk=walk,
        least=least,
        size=np.zeros(2, np.int64),
    )


@outlined
def place_job(rule: int, arrays: WorldArrays, job: int, free: I64, there: Bool, out: Scratch) -> int:
    """`place`, as code of its own, which is large."""
    return place(rule, arrays, job, free, there, out)


@kernel
def _add_row(held: Pool, job: int, cell: int, role: int, tasks: int, device: I64 | None, k: int) -> None:
    """Link a row to those of a job; row k of ``device`` has its devices."""
    row = held.top[1]
    held.top[1] += 1
    held.row_server[row], held.row_role[row], held.row_count[row] = cell, role, tasks
    copy_devices(device, k, held.row_device, row)
    held.row_next[row], held.head[job] = held.head[job], row


@kernel
def begin_profile(profile: Profile, pool: Pool, running: I64, end: I64) -> None:
    """Start from what is free now and the ends, ascending, of the running jobs; O(S R + their rows)."""
    held = profile.held
    held.free[:] = 0
    held.there[:] = False
    held.top[1] = 0
    for server in range(len(profile.cell)):
        cell = profile.cell[server]
        held.there[cell] = held.there[cell] or pool.there[server]
        for r in range(pool.free.shape[1]):
            held.free[cell, r] += pool.free[server, r]
    for i in range(len(running)):
        job = running[i]
        profile.time[i], profile.holder[i] = end[i], job
        profile.gone[job], held.head[job] = False, -1
        row = pool.head[job]
        while row >= 0:
            cell, role, tasks = profile.cell[pool.row_server[row]], pool.row_role[row], pool.row_count[row]
            _add_row(held, job, cell, role, tasks, pool.row_device, row)
            row = pool.row_next[row]
    profile.size[STEPS], profile.size[TAKEN] = len(running), 0


@outlined
def _apply(profile: Profile, e: int, free: I64) -> None:
    """Change ``free`` as step e says."""
    holder = profile.holder[e]
    job = max(holder, -1 - holder)
    if not profile.gone[job]:
        add_placement(profile.arrays, profile.held, job, 1 if holder >= 0 else -1, free)


@outlined
def _add_step(profile: Profile, time: int, holder: int) -> None:
    """Insert a step; O(E)."""
    e = profile.size[STEPS]
    while e > 0 and (
        profile.time[e - 1] > time
        or (profile.time[e - 1] == time and profile.holder[e - 1] < 0 and holder >= 0)
    ):
        profile.time[e], profile.holder[e] = profile.time[e - 1], profile.holder[e - 1]
        e -= 1
    profile.time[e], profile.holder[e] = time, holder
    profile.size[STEPS] += 1


@kernel
def move_end(profile: Profile, job: int, time: int) -> None:
    """Let a running job end at ``time``, if that is earlier than planned; O(E)."""
    e = 0
    while profile.holder[e] != job:
        e += 1
    if profile.time[e] <= time:
        return
    for later in range(e, profile.size[STEPS] - 1):
        profile.time[later], profile.holder[later] = profile.time[later + 1], profile.holder[later + 1]
    profile.size[STEPS] -= 1
    _add_step(profile, time, job)


@outlined
def plan_job(profile: Profile, job: int, out: Scratch, n: int, start: int, end: int) -> None:
    """Let a job hold the n rows of a placement, which name cells, from ``start`` to ``end``.

    ``start`` is 0 if the job starts now.
    """
    held = profile.held
    profile.gone[job], held.head[job] = False, -1
    for k in range(n):
        _add_row(held, job, out.server[k], out.role[k], out.tasks[k], out.device, k)
    if start > 0:
        _add_step(profile, start, -1 - job)
        profile.size[TAKEN] += 1
    else:
        add_placement(profile.arrays, held, job, -1, held.free)
    _add_step(profile, end, job)


@outlined
def least_free(profile: Profile, free: I64, first: int, until: int) -> None:
    """Set `Profile.least` to the least of ``free``, that before step ``first``, to before ``until``.

    O(rows of the steps).
    """
    held, least, walk = profile.held, profile.least, profile.walk
    copy_matrix(free, least)
    copy_matrix(free, walk)
    for e in range(first, profile.size[STEPS]):
        if profile.time[e] >= until:
            return
        _apply(profile, e, walk)
        row = held.head[-1 - profile.holder[e]] if profile.holder[e] < 0 else -1
        while row >= 0:
            cell = held.row_server[row]
            for r in range(least.shape[1]):
                least[cell, r] = min(least[cell, r], walk[cell, r])
            row = held.row_next[row]


@kernel
def first_fit_in_time(
    rule: int, profile: Profile, job: int, earliest: int, limit: int, out: Scratch
) -> tuple[int, int]:
    """First step from ``earliest`` on where a job fits for ``limit``, its rows in ``out``; (-1, 0) if none.

    If the job fits at a step, the least free quanta of the window from there decide. O(E) placements.
    """
    there = profile.held.there
    copy_matrix(profile.held.free, profile.now)
    e, steps = 0, profile.size[STEPS]
    while e < steps:
        time, gives = profile.time[e], False
        while e < steps and profile.time[e] == time:
            _apply(profile, e, profile.now)
            gives = gives or profile.holder[e] >= 0
            e += 1
        if not gives or time < earliest:
            continue
        n = place_job(rule, profile.arrays, job, profile.now, there, out)
        if n > 0 and profile.size[TAKEN] > 0:
            least_free(profile, profile.now, e, time + limit)
            n = place_job(rule, profile.arrays, job, profile.least, there, out)
        if n > 0:
            return time, n
    return -1, 0
