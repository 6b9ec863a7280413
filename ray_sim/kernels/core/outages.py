"""Loss and return of servers, and what happens to the jobs on them; docs/engine.md has the rules."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import (
    I64,
    LOSE,
    SERVER_DOWN,
    SERVER_UP,
    WAITING,
    Books,
    Bool,
    Pool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.placement_rows import release
from ray_sim.kernels.core.progress import fall_back, stop_progress
from ray_sim.kernels.core.queue_dispatch import sort_prefix
from ray_sim.kernels.core.record import add_event


@kernel
def _is_on(pool: Pool, job: int, server: int) -> bool:
    """Whether a job has a task on a server."""
    row = pool.head[job]
    while row >= 0:
        if pool.row_server[row] == server:
            return True
        row = pool.row_next[row]
    return False


@outlined
def lose_server(now: int, server: int, books: Books, record: Recorder) -> int:
    """Remove a server: each job with a task there loses its whole placement and its work since a checkpoint.

    These jobs wait again; `Books.affected` has them, sorted, and their number is returned. Jobs are collected
    before any is stopped, because stopping changes the calendar that the loop reads. O(rows of running jobs +
    lost x log n).
    """
    add_event(record, now, SERVER_DOWN, -1, server, -1, 0)
    ledger, calendar, lost, n = books.ledger, books.calendar, books.affected, 0
    for job in calendar.heap[: calendar.size[0]]:
        if _is_on(books.pool, job, server):
            lost[n] = job
            n += 1
    sort_prefix(lost, n)
    for job in lost[:n]:
        stop_progress(ledger, calendar, job, now)
        fall_back(ledger, job)
        release(books.arrays, books.pool, books.used, job)
        ledger.status[job] = WAITING
        ledger.interruptions[job] += 1
        books.counts[0] += 1
        books.counts[1] -= 1
        add_event(record, now, LOSE, job, server, -1, 0)
    _take_away(books.pool, server)
    return n


@kernel
def regain_server(now: int, server: int, arrays: WorldArrays, pool: Pool, record: Recorder) -> None:
    """Return a server to the cluster, empty; O(R)."""
    add_event(record, now, SERVER_UP, -1, server, -1, 0)
    _give_back(arrays, pool, server)


@kernel
def _take_away(pool: Pool, server: int) -> None:
    """Mark a server as absent: nothing of it is free."""
    pool.there[server] = False
    for r in range(pool.free.shape[1]):
        pool.free[server, r] = 0


@kernel
def _give_back(arrays: WorldArrays, pool: Pool, server: int) -> None:
    """Mark a server as available: all of it is free."""
    pool.there[server] = True
    for r in range(pool.free.shape[1]):
        pool.free[server, r] = arrays.empty[server, r]


@kernel
def set_available(arrays: WorldArrays, pool: Pool, servers: I64, up: Bool) -> None:
    """Apply ``up`` to each of ``servers`` in order: it is available and empty, or absent."""
    for i in range(len(servers)):
        if up[i]:
            _give_back(arrays, pool, servers[i])
        else:
            _take_away(pool, servers[i])
