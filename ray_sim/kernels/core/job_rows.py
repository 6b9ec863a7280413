"""Placements of several jobs as rows in arrays, job by job."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER, Bool, Pool


class Rows(NamedTuple):
    """Placements of several jobs."""

    ptr: I64
    server: I64
    role: I64
    tasks: I64


class Held(NamedTuple):
    """Placements of a run, and work space for those of some jobs."""

    pool: Pool
    rows: Rows
    """Room for all jobs, each once."""


@kernel
def count_rows(held: Held, jobs: I64, ptr: I64) -> None:
    """Set ``ptr``, (n + 1,), to the prefix sums of the numbers of rows of ``jobs``."""
    pool = held.pool
    ptr[0] = 0
    for i in range(len(jobs)):
        n = 0
        row = pool.head[jobs[i]]
        while row >= 0:
            n += 1
            row = pool.row_next[row]
        ptr[i + 1] = ptr[i] + n


@kernel
def copy_rows(held: Held, jobs: I64, rows: Rows) -> None:
    """Copy the rows of each of ``jobs`` to the places given by ``rows.ptr``."""
    pool = held.pool
    for i in range(len(jobs)):
        at = rows.ptr[i]
        row = pool.head[jobs[i]]
        while row >= 0:
            rows.server[at] = pool.row_server[row]
            rows.role[at] = pool.row_role[row]
            rows.tasks[at] = pool.row_count[row]
            at += 1
            row = pool.row_next[row]


@kernel
def gather_rows(held: Held, jobs: I64) -> None:
    """Copy the rows of ``jobs``, each named once, to the work space."""
    count_rows(held, jobs, held.rows.ptr)
    copy_rows(held, jobs, held.rows)


@kernel
def tasks_held(rows: Rows, i: int, role: int) -> int:
    """Return the number of tasks of a role of job i."""
    total = 0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == role:
            total += rows.tasks[row]
    return total


@kernel
def on_one_server(rows: Rows, i: int) -> bool:
    """Whether all tasks of job i are on one server."""
    first = -1
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.tasks[row] > 0:
            if first >= 0 and rows.server[row] != first:
                return False
            first = rows.server[row]
    return True


@kernel
def tasks_here(rows: Rows, row: int, end: int) -> tuple[int, int, int]:
    """Return workers and parameter servers on the server of a row, and the first row of the next server."""
    server, workers, ps = rows.server[row], 0, 0
    while row < end and rows.server[row] == server:
        if rows.role[row] == WORKER:
            workers += rows.tasks[row]
        elif rows.role[row] == PARAMETER_SERVER:
            ps += rows.tasks[row]
        row += 1
    return workers, ps, row


@kernel
def count_tasks(rows: Rows, role: int, tasks: I64) -> None:
    """Set ``tasks``, (n,), to the number of tasks of a role of each job."""
    for i in range(len(tasks)):
        tasks[i] = tasks_held(rows, i, role)


@kernel
def differs(now: Rows, target: Rows, i: int) -> bool:
    """Whether two placements of job i differ."""
    n = now.ptr[i + 1] - now.ptr[i]
    if n != target.ptr[i + 1] - target.ptr[i]:
        return True
    for k in range(n):
        a, b = now.ptr[i] + k, target.ptr[i] + k
        if (
            now.server[a] != target.server[b]
            or now.role[a] != target.role[b]
            or now.tasks[a] != target.tasks[b]
        ):
            return True
    return False


@kernel
def find_differing(now: Rows, target: Rows, differing: Bool) -> None:
    """Set ``differing``, (n,), to `differs` of each job."""
    for i in range(len(differing)):
        differing[i] = differs(now, target, i)
