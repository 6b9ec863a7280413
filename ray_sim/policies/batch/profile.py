"""The profile of a decision: what is free now, and what running and planned jobs give back and take later.

Only changes are stored, in order of time, so a search over time visits rows of placements and no matrix per
step. Cells are servers; under the placement rule `pooled` a cell stands for all servers of the same pools,
since only the sum of what is free counts there. `ray_sim.policies.batch.serve` calls these kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, Bool, Pool, WorldArrays, device_rows, devices
from ray_sim.kernels.core.devices import add_devices, copy_devices
from ray_sim.kernels.core.placement import POOLED, place
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.kernels.core.queue_dispatch import copy_matrix
from ray_sim.kernels.handle import handle
from ray_sim.policy_api import Placer

STEPS, PLANNED, TAKEN, NOW_US = range(4)
"""Places in `Profile.size`."""


class Profile(NamedTuple):
    """Free quanta over time. J jobs, C cells, E steps, H planned holdings."""

    arrays: WorldArrays
    plan: WorldArrays
    """With cells in place of servers."""
    pool: Pool
    """What jobs hold."""
    cell: I64
    """(S,) cell of each server."""
    free: I64
    """(C, R + D) quanta that are free now."""
    there: Bool
    """(C,) cells with a server that is there."""
    time: I64
    """(E,) non-decreasing; of equal times those that give back come first."""
    holder: I64
    """(E,) running job whose end it is, or -1 - h of planned holding h."""
    sign: I64
    """(E,) 1 where quanta are given back, -1 where they are taken."""
    gone: Bool
    """(J,) running jobs that have been stopped: their ends change nothing."""
    job: I64
    """(H,) job of each planned holding."""
    ptr: I64
    """(H + 1,) rows of holding h: ptr[h] .. ptr[h + 1]."""
    row_cell: I64
    row_role: I64
    row_tasks: I64
    row_device: I64 | None
    now: I64
    """(C, R + D) work space: free at a step."""
    walk: I64
    """(C, R + D) work space: free at a step of a window."""
    least: I64
    """(C, R + D) work space: least free over a window."""
    size: I64
    """(4,) number of steps, of planned holdings, and of steps that take; the time of the decision."""


class Cells(NamedTuple):
    """What plans are made of."""

    cell: I64
    """(S,) cell of each server."""
    plan: WorldArrays
    """The world's arrays with cells in place of servers."""
    merged: bool


def cells_of(pools: Bool, placer: Placer) -> Cells:
    """A cell for all servers of the same ``pools``, (Q, S), where only their sum counts; else for each."""
    arrays = placer.arrays
    if placer.rule != POOLED or devices(arrays):
        return Cells(np.arange(len(arrays.capacity)), arrays, merged=False)
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
    return Cells(cell, plan, merged=len(first) < len(cell))


def new_profile(arrays: WorldArrays, cells: Cells, pool: Pool, jobs: int, rows: int) -> Profile:
    """Return an empty profile with room for ``jobs`` planned holdings of ``rows`` rows in all."""
    running = len(arrays.submit)
    shape = cells.plan.empty.shape
    return Profile(
        arrays=handle(arrays),
        plan=handle(cells.plan),
        pool=handle(pool),
        cell=cells.cell,
        free=np.zeros(shape, np.int64),
        there=np.zeros(shape[0], np.bool_),
        time=np.empty(running + 2 * jobs, np.int64),
        holder=np.empty(running + 2 * jobs, np.int64),
        sign=np.empty(running + 2 * jobs, np.int64),
        gone=np.zeros(running, np.bool_),
        job=np.empty(jobs, np.int64),
        ptr=np.zeros(jobs + 1, np.int64),
        row_cell=np.empty(rows, np.int64),
        row_role=np.empty(rows, np.int64),
        row_tasks=np.empty(rows, np.int64),
        row_device=device_rows(rows, devices(arrays)),
        now=np.zeros(shape, np.int64),
        walk=np.zeros(shape, np.int64),
        least=np.zeros(shape, np.int64),
        size=np.zeros(4, np.int64),
    )


@outlined
def place_job(rule: int, arrays: WorldArrays, job: int, free: I64, there: Bool, out: Scratch) -> int:
    """`place`, as code of its own, which is large."""
    return place(rule, arrays, job, free, there, out)


@kernel
def begin_profile(profile: Profile, now: int, running: I64, end: I64) -> None:
    """Start from what is free now and the ends, ascending, of the running jobs; O(S R + n)."""
    profile.free[:] = 0
    profile.there[:] = False
    for server in range(len(profile.cell)):
        cell = profile.cell[server]
        profile.there[cell] = profile.there[cell] or profile.pool.there[server]
        for r in range(profile.pool.free.shape[1]):
            profile.free[cell, r] += profile.pool.free[server, r]
    for i in range(len(running)):
        profile.time[i], profile.holder[i], profile.sign[i] = end[i], running[i], 1
        profile.gone[running[i]] = False
    profile.size[STEPS], profile.size[NOW_US] = len(running), now
    profile.size[PLANNED], profile.size[TAKEN] = 0, 0


@kernel
def add_running(profile: Profile, job: int, sign: int, free: I64) -> None:
    """Add what a running job holds to ``free``, (C, R + D), or subtract it with ``sign`` -1."""
    row = profile.pool.head[job]
    while row >= 0:
        cell = profile.cell[profile.pool.row_server[row]]
        for r in range(profile.arrays.demand.shape[2]):
            free[cell, r] += (
                sign * profile.pool.row_count[row] * profile.arrays.demand[job, profile.pool.row_role[row], r]
            )
        add_devices(free, cell, profile.pool.row_device, row, sign)
        row = profile.pool.row_next[row]


@kernel
def _add_planned(profile: Profile, h: int, sign: int, free: I64) -> None:
    """Add what a planned holding takes to ``free``, or subtract it with ``sign`` -1."""
    job = profile.job[h]
    for k in range(profile.ptr[h], profile.ptr[h + 1]):
        for r in range(profile.arrays.demand.shape[2]):
            amount = profile.row_tasks[k] * profile.arrays.demand[job, profile.row_role[k], r]
            free[profile.row_cell[k], r] += sign * amount
        add_devices(free, profile.row_cell[k], profile.row_device, k, sign)


@outlined
def _apply(profile: Profile, e: int, free: I64) -> None:
    """Change ``free`` as step e says."""
    holder = profile.holder[e]
    if holder < 0:
        _add_planned(profile, -1 - holder, profile.sign[e], free)
    elif not profile.gone[holder]:
        add_running(profile, holder, 1, free)


@outlined
def _add_step(profile: Profile, time: int, holder: int, sign: int) -> None:
    """Insert a step; O(E)."""
    e = profile.size[STEPS]
    while e > 0 and (
        profile.time[e - 1] > time or (profile.time[e - 1] == time and profile.sign[e - 1] < sign)
    ):
        profile.time[e] = profile.time[e - 1]
        profile.holder[e] = profile.holder[e - 1]
        profile.sign[e] = profile.sign[e - 1]
        e -= 1
    profile.time[e], profile.holder[e], profile.sign[e] = time, holder, sign
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
        profile.time[later] = profile.time[later + 1]
        profile.holder[later] = profile.holder[later + 1]
        profile.sign[later] = profile.sign[later + 1]
    profile.size[STEPS] -= 1
    _add_step(profile, time, job, 1)


@outlined
def plan_holding(
    profile: Profile,
    job: int,
    out: Scratch,
    n: int,
    start: int,
    end: int,
    cell: I64,
) -> None:
    """Subtract the n rows of a placement from ``start``, now or later, to ``end``.

    ``cell`` is that of each place that rows name.
    """
    h = profile.size[PLANNED]
    profile.job[h] = job
    at = profile.ptr[h]
    for k in range(n):
        profile.row_cell[at + k] = cell[out.server[k]]
        profile.row_role[at + k], profile.row_tasks[at + k] = out.role[k], out.tasks[k]
        copy_devices(out.device, k, profile.row_device, at + k)
    profile.ptr[h + 1] = at + n
    profile.size[PLANNED] += 1
    if start == profile.size[NOW_US]:
        _add_planned(profile, h, -1, profile.free)
    else:
        _add_step(profile, start, -1 - h, -1)
        profile.size[TAKEN] += 1
    _add_step(profile, end, -1 - h, 1)


@outlined
def _least_from(profile: Profile, free: I64, first: int, until: int) -> None:
    """Set `Profile.least` to the least of ``free``, at the step before ``first``, to before ``until``."""
    least, walk = profile.least, profile.walk
    copy_matrix(free, least)
    if profile.size[TAKEN] == 0:
        return
    copy_matrix(free, walk)
    for e in range(first, profile.size[STEPS]):
        if profile.time[e] >= until:
            return
        _apply(profile, e, walk)
        if profile.sign[e] < 0:
            h = -1 - profile.holder[e]
            for cell in profile.row_cell[profile.ptr[h] : profile.ptr[h + 1]]:
                for r in range(least.shape[1]):
                    least[cell, r] = min(least[cell, r], walk[cell, r])


@kernel
def least_free(profile: Profile, until: int) -> None:
    """Set `Profile.least` to the least free quanta from now to before ``until``; O(rows of the steps)."""
    _least_from(profile, profile.free, 0, until)


@outlined
def first_fit_in_time(
    rule: int,
    profile: Profile,
    job: int,
    earliest: int,
    limit: int,
    out: Scratch,
) -> tuple[int, int]:
    """First step from ``earliest`` on where a job fits for ``limit``, its rows in ``out``; (-1, 0) if none.

    If the job fits at a step, the least free quanta of the window from there decide. O(E) placements.
    """
    copy_matrix(profile.free, profile.now)
    e, steps = 0, profile.size[STEPS]
    while e < steps:
        time, gives = profile.time[e], False
        while e < steps and profile.time[e] == time:
            _apply(profile, e, profile.now)
            gives = gives or profile.sign[e] > 0
            e += 1
        if not gives or time < earliest:
            continue
        n = place_job(rule, profile.plan, job, profile.now, profile.there, out)
        if n > 0 and profile.size[TAKEN] > 0:
            _least_from(profile, profile.now, e, time + limit)
            n = place_job(rule, profile.plan, job, profile.least, profile.there, out)
        if n > 0:
            return time, n
    return -1, 0
