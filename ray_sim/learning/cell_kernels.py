"""Features of jobs on servers for the reward model with shared weights.

A cell is a job on one of its servers. What disturbs it there are the tasks of other jobs, counted by type.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER
from ray_sim.learning.batch_arrays import F32


@kernel
def count_cells(kind: I64, tasks: I64) -> int:
    """Return the number of pairs of a job and a server that holds a task of it; O(n K S)."""
    cells = 0
    for i in range(kind.shape[0]):
        for k in range(kind.shape[1]):
            if kind[i, k] >= 0:
                for server in range(tasks.shape[3]):
                    if tasks[i, k, WORKER, server] + tasks[i, k, PARAMETER_SERVER, server] > 0:
                        cells += 1
    return cells


@kernel
def _count_by_type(kind: I64, tasks: I64, i: int, beside: I64) -> None:
    """Set ``beside``, (S, L, 2), to the workers and parameter servers of each type; O(K S)."""
    beside[:] = 0
    for k in range(kind.shape[1]):
        if kind[i, k] >= 0:
            for server in range(tasks.shape[3]):
                for role in range(2):
                    beside[server, kind[i, k], role] += tasks[i, k, role, server]


@kernel
def fill_cells(kind: I64, tasks: I64, beside: I64, cells: F32, first: I64) -> int:
    """Set the features of all cells, and the ``first`` cell of each job; return the number of such jobs.

    Features are: type, one-hot; workers and parameter servers here; those of other jobs here by type; all
    workers and parameter servers of the job; on how many servers it is. ``cells`` is (C, 3 L + 5), ``first``
    has room for all jobs, ``beside``, (S, L, 2), is work space. O(n K S + C L).
    """
    types, jobs, n = beside.shape[1], 0, 0
    cells[:] = 0.0
    for i in range(kind.shape[0]):
        _count_by_type(kind, tasks, i, beside)
        for k in range(kind.shape[1]):
            begin = n
            for server in range(tasks.shape[3]):
                own = tasks[i, k, WORKER, server] + tasks[i, k, PARAMETER_SERVER, server]
                if kind[i, k] >= 0 and own > 0:
                    _fill_cell(kind[i, k], tasks, i, k, server, beside, cells, n)
                    n += 1
            if n > begin:
                for cell in range(begin, n):
                    cells[cell, 3 * types + 4] = n - begin
                first[jobs] = begin
                jobs += 1
    return jobs


@kernel
def _fill_cell(
    of_type: int, tasks: I64, i: int, k: int, server: int, beside: I64, cells: F32, n: int
) -> None:
    """Set the features of cell n, but the number of servers; O(S + L)."""
    types = beside.shape[1]
    cells[n, of_type] = 1.0
    for other in range(types):
        for role in range(2):
            cells[n, types + 2 + 2 * other + role] = beside[server, other, role]
    for role in range(2):
        cells[n, types + role] = tasks[i, k, role, server]
        cells[n, types + 2 + 2 * of_type + role] -= tasks[i, k, role, server]
        for each in range(tasks.shape[3]):
            cells[n, 3 * types + 2 + role] += tasks[i, k, role, each]
