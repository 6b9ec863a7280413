"""Loss and return of servers, and what happens to the jobs on them; docs/engine.md has the rules."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import (
    I64,
    LOSE,
    SERVER_DOWN,
    SERVER_UP,
    WAITING,
    Bool,
    Calendar,
    Ledger,
    Pool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.placement_rows import release
from ray_sim.kernels.core.progress import fall_back, stop_progress
from ray_sim.kernels.core.queue_dispatch import sort_prefix
from ray_sim.kernels.core.record import add_event


@kernel
def _needs(arrays: WorldArrays, pool: Pool, job: int, server: int) -> bool:
    """Whether a job holds quanta of a server; tasks without demand are not affected by its loss."""
    row = pool.head[job]
    while row >= 0:
        if pool.row_server[row] == server:
            for r in range(pool.free.shape[1]):
                if arrays.demand[job, pool.row_role[row], r] > 0:
                    return True
        row = pool.row_next[row]
    return False


@outlined
def lose_server(
    now: int,
    server: int,
    arrays: WorldArrays,
    ledger: Ledger,
    pool: Pool,
    calendar: Calendar,
    used: I64,
    counts: I64,
    record: Recorder,
    lost: I64,
) -> int:
    """Remove a server: each job with quanta there loses its whole placement and its work since a checkpoint.

    These jobs wait again; they are written to ``lost``, sorted, and their number is returned. Jobs are
    collected before any is stopped, because stopping changes the calendar that the loop reads. O(rows of
    running jobs + lost x log n).
    """
    add_event(record, now, SERVER_DOWN, -1, server, -1, 0)
    n = 0
    for job in calendar.heap[: calendar.size[0]]:
        if _needs(arrays, pool, job, server):
            lost[n] = job
            n += 1
    sort_prefix(lost, n)
    for job in lost[:n]:
        stop_progress(ledger, calendar, job, now)
        fall_back(ledger, job)
        release(arrays, pool, used, job)
        ledger.status[job] = WAITING
        ledger.interruptions[job] += 1
        counts[0] += 1
        counts[1] -= 1
        add_event(record, now, LOSE, job, server, -1, 0)
    take_away(pool.free, server)
    return n


@kernel
def regain_server(now: int, server: int, arrays: WorldArrays, pool: Pool, record: Recorder) -> None:
    """Return a server to the cluster, empty; O(R)."""
    add_event(record, now, SERVER_UP, -1, server, -1, 0)
    give_capacity(arrays, pool.free, server)


@kernel
def take_away(free: I64, server: int) -> None:
    """Set the free quanta of an absent server to 0."""
    for r in range(free.shape[1]):
        free[server, r] = 0


@kernel
def give_capacity(arrays: WorldArrays, free: I64, server: int) -> None:
    """Set the free quanta of a server to its capacity."""
    for r in range(free.shape[1]):
        free[server, r] = arrays.capacity[server, r]


@kernel
def set_capacity(arrays: WorldArrays, free: I64, servers: I64, up: Bool) -> None:
    """Apply ``up`` to each of ``servers`` in order: give all capacity, or none."""
    for i in range(len(servers)):
        if up[i]:
            give_capacity(arrays, free, servers[i])
        else:
            take_away(free, servers[i])
