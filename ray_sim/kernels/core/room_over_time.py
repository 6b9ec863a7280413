"""Whether a gang has room on servers whose free capacity changes, and whether a placement rule finds it.

A gang has room if some choice of servers holds all its tasks at once. A rule may not find it: `consolidate`
wants few servers, and the other rules place the workers first and leave the rest to the parameter servers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I8, I64, PARAMETER_SERVER, WORKER, Bool, WorldArrays
from ray_sim.kernels.core.placement import in_pool, place
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.kernels.core.room import room

NO_ROOM, MISSED, FOUND = range(3)
"""Verdicts: no choice of servers holds the gang; one does, and the rule finds none; the rule finds one."""

NO_RULE = -1
"""Instead of a rule: room is enough."""


class ServerSteps(NamedTuple):
    """Changes of servers, (n,) in order of time: what a server has from then on."""

    time: I64
    server: I64
    free: I64
    """(n, R + D) quanta."""
    there: Bool


class RoomState(NamedTuple):
    """Work space: the servers at one instant."""

    free: I64
    """(S, R + D) quanta."""
    there: Bool
    """(S,)."""
    most: I64
    """(1 + the smaller number of tasks of the gang's roles,), see `_has_room`."""


def new_room_state(arrays: WorldArrays, job: int) -> RoomState:
    """Return work space for the judgement of a job."""
    return RoomState(
        free=np.zeros_like(arrays.empty),
        there=np.zeros(len(arrays.capacity), dtype=np.bool_),
        most=np.zeros(int(arrays.gang[job].min()) + 1, dtype=np.int64),
    )


@kernel
def _room_beside(free: I64, server: int, taken: I64, tasks: int, demand: I64, wanted: int) -> int:
    """Return the tasks, at most ``wanted``, that fit beside ``tasks`` tasks of the demand ``taken``."""
    fit = wanted
    for r in range(len(demand)):
        if demand[r] > 0:
            left = free[server, r] - tasks * taken[r]
            if left < fit * demand[r]:
                fit = max(left, 0) // demand[r]
    return fit


@kernel
def _has_room(arrays: WorldArrays, job: int, state: RoomState) -> bool:
    """Whether some choice of servers holds all tasks of a gang of one or two roles.

    Server by server, ``state.most[k]`` is the most tasks of one role that fit beside k tasks of the other,
    of which there are fewer, on the servers so far; -1 if these do not fit. What a server holds does not
    depend on other servers, so the maxima are exact. O(S f^2) for f tasks of the role with fewer.
    """
    few, many = PARAMETER_SERVER, WORKER
    if arrays.gang.shape[1] == 1:
        few = WORKER
    elif arrays.gang[job, WORKER] < arrays.gang[job, PARAMETER_SERVER]:
        few, many = WORKER, PARAMETER_SERVER
    wanted = arrays.gang[job, many]
    n_few = arrays.gang[job, few] if few != many else 0
    state.most[: n_few + 1] = -1
    state.most[0] = 0
    p, pools = arrays.job_part[job], arrays.class_pool[arrays.job_class[job]]
    for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
        server = arrays.pool_servers[i]
        if not state.there[server]:
            continue
        holds = 0
        if in_pool(arrays, pools[few], server):
            holds = room(state.free, server, arrays.demand[job, few], n_few)
        most = wanted if in_pool(arrays, pools[many], server) else 0
        for k in range(n_few, -1, -1):
            best = -1
            for here in range(min(holds, k) + 1):
                before = state.most[k - here]
                if before >= 0:
                    beside = _room_beside(
                        state.free, server, arrays.demand[job, few], here, arrays.demand[job, many], most
                    )
                    best = max(best, min(before + beside, wanted))
            state.most[k] = best
        if state.most[n_few] == wanted:
            return True
    return state.most[n_few] == wanted


@outlined
def judge_room(
    rule: int,
    arrays: WorldArrays,
    job: int,
    steps: ServerSteps,
    times: I64,
    asked: Bool,
    state: RoomState,
    scratch: Scratch,
    verdict: I8,
) -> None:
    """Set ``verdict``, (m,), at the instants that are asked; O(n R), and O(S) and more for each of these.

    Parameters
    ----------
    rule : placement rule, or `NO_RULE`, with which room counts as found
    steps : changes of servers; those at an instant count in its verdict
    times : (m,) microseconds, increasing
    """
    state.there[:] = False
    k = 0
    for i in range(len(times)):
        while k < len(steps.time) and steps.time[k] <= times[i]:
            server = steps.server[k]
            state.there[server] = steps.there[k]
            for r in range(steps.free.shape[1]):
                state.free[server, r] = steps.free[k, r]
            k += 1
        if asked[i]:
            verdict[i] = NO_ROOM
            if _has_room(arrays, job, state):
                missed = rule != NO_RULE and place(rule, arrays, job, state.free, state.there, scratch) == 0
                verdict[i] = MISSED if missed else FOUND
