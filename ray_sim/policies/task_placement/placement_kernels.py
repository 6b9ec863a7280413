"""Placement of whole gangs, task by task: each task on the server of the best score that has room.

Invariants between tasks: `free` is capacity less all that is placed, `load` and `left` follow from it, and
`given` has the tasks of the job at hand. A gang that does not fit leaves all of them as they were.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.kernels.core.job_rows import Rows

LEAST_LOADED, LEAST_LEFT, LEAST_SLOWED, LEAST_SLOWED_TOGETHER = range(4)
"""Rules: which server is best for a task."""


class Servers(NamedTuple):
    """Servers, S of them with R resources, and the tasks that they hold."""

    capacity: I64
    """(S, R) quanta."""
    free: I64
    """(S, R) quanta; changed by a placement."""
    pools: Bool
    """(Q, S) servers of each pool."""
    available: Bool
    """(S,)"""
    beside: I64
    """(S, L) tasks by type of job; L is 0 where no rule asks."""
    load: F64
    """(S,) sum over resources of used / capacity; resources that a server does not have are left out."""
    left: F64
    """(S,) sum over resources of free / capacity."""
    slowdown: F64
    """(S,) work space: predicted slowdown of the job at hand."""
    given: I64
    """(S, roles) work space, zeros between jobs: tasks of the job at hand."""


class Gangs(NamedTuple):
    """Jobs in the order of placement, (n,) each."""

    tasks: I64
    """(n, roles) tasks of each role, workers first."""
    quanta: I64
    """(n, roles, R) demand of one task."""
    pool: I64
    """(n, roles) pool of the tasks of each role."""
    of_type: I64
    """Type of each job; empty where no rule asks."""


@kernel
def _refresh(servers: Servers, server: int) -> None:
    """Compute load and remaining capacity of a server anew; O(R)."""
    load, left = 0.0, 0.0
    for r in range(servers.capacity.shape[1]):
        whole = servers.capacity[server, r]
        if whole > 0:
            load += (whole - servers.free[server, r]) / whole
            left += servers.free[server, r] / whole
    servers.load[server], servers.left[server] = load, left


@kernel
def refresh_all(servers: Servers) -> None:
    """Compute load and remaining capacity of all servers; O(S R)."""
    for server in range(len(servers.load)):
        _refresh(servers, server)


@kernel
def _give(servers: Servers, server: int, quanta: I64, tasks: int) -> None:
    """Take the demand of tasks from a server's free quanta; negative numbers give it back."""
    for r in range(len(quanta)):
        servers.free[server, r] -= tasks * quanta[r]
    _refresh(servers, server)


@kernel
def _holds(servers: Servers, server: int, quanta: I64) -> bool:
    """Whether a server has room for one more task."""
    for r in range(len(quanta)):
        if servers.free[server, r] < quanta[r]:
            return False
    return True


@kernel
def predict(beside: I64, coefficients: F64, of_type: int, slowdown: F64) -> None:
    """Set ``slowdown``, (S,), to the predicted slowdown of a job of a type beside the tasks on each server.

    ``beside`` is (S, L); ``coefficients``, (powers, L, L), has those of n, and of n^2. O(S L).
    """
    for server in range(len(beside)):
        here = 1.0
        for other in range(beside.shape[1]):
            tasks = float(beside[server, other])
            power = tasks
            for p in range(len(coefficients)):
                here += coefficients[p, of_type, other] * power
                power *= tasks
        slowdown[server] = here


@kernel
def _best(servers: Servers, pool: int, quanta: I64, rule: int) -> int:
    """Return the server of the best score with room for one task, the lowest of equals; -1 if none has.

    Scores: load; remaining capacity; predicted slowdown, then load, or first the tasks of the job. O(S R).
    """
    best = -1
    for server in range(len(servers.load)):
        if not (servers.pools[pool, server] and servers.available[server]):
            continue
        if best >= 0:
            if rule == LEAST_LEFT:
                better = servers.left[server] < servers.left[best]
            else:
                better = servers.load[server] < servers.load[best]
                own, own_best = servers.given[server].sum(), servers.given[best].sum()
                if rule >= LEAST_SLOWED and servers.slowdown[server] != servers.slowdown[best]:
                    better = servers.slowdown[server] < servers.slowdown[best]
                elif rule == LEAST_SLOWED_TOGETHER and own != own_best:
                    better = own > own_best
            if not better:
                continue
        if _holds(servers, server, quanta):
            best = server
    return best


@kernel
def _place(servers: Servers, gangs: Gangs, i: int, rule: int) -> bool:
    """Place job i, noted in `given` only; False, and nothing changed, if a task does not fit.

    O(tasks S R).
    """
    for role in range(gangs.tasks.shape[1]):
        for _ in range(gangs.tasks[i, role]):
            server = _best(servers, gangs.pool[i, role], gangs.quanta[i, role], rule)
            if server < 0:
                _take_back(servers, gangs, i)
                return False
            _give(servers, server, gangs.quanta[i, role], 1)
            servers.given[server, role] += 1
    return True


@kernel
def _take_back(servers: Servers, gangs: Gangs, i: int) -> None:
    """Take the tasks of job i off all servers and clear `given`; O(S roles R)."""
    given = servers.given
    for server in range(len(given)):
        for role in range(given.shape[1]):
            if given[server, role] > 0:
                _give(servers, server, gangs.quanta[i, role], -given[server, role])
                given[server, role] = 0


@kernel
def _commit(servers: Servers, gangs: Gangs, i: int, rows: Rows, n: int) -> int:
    """Append the tasks of job i to n rows, count them for later jobs, clear `given`; return the rows."""
    given = servers.given
    for server in range(len(given)):
        for role in range(given.shape[1]):
            if given[server, role] > 0:
                rows.server[n], rows.role[n], rows.tasks[n] = server, role, given[server, role]
                n += 1
                if len(gangs.of_type) > 0:
                    servers.beside[server, gangs.of_type[i]] += given[server, role]
                given[server, role] = 0
    return n


@kernel
def place_gangs(
    servers: Servers, gangs: Gangs, rule: int, coefficients: F64, rows: Rows, placed: Bool
) -> int:
    """Place each job whole or not at all, in order; return the number of rows.

    ``rows`` has room for the smaller of tasks and S x roles of each job; ``placed``, (n,), says which have a
    place. O(tasks S R + n S L).
    """
    refresh_all(servers)
    n = 0
    rows.ptr[0] = 0
    for i in range(len(gangs.tasks)):
        if rule >= LEAST_SLOWED:
            predict(servers.beside, coefficients, gangs.of_type[i], servers.slowdown)
        placed[i] = _place(servers, gangs, i, rule)
        if placed[i]:
            n = _commit(servers, gangs, i, rows, n)
        rows.ptr[i + 1] = n
    return n


@kernel
def fit_alone(servers: Servers, gangs: Gangs, rule: int, fits: Bool) -> None:
    """Set ``fits``, (n,), to whether the rule places each job where no other job is; O(tasks S R).

    ``servers`` are empty, and remain so.
    """
    refresh_all(servers)
    servers.slowdown[:] = 1.0
    for i in range(len(gangs.tasks)):
        fits[i] = _place(servers, gangs, i, rule)
        _take_back(servers, gangs, i)


@kernel
def count_beside(rows: Rows, of_type: I64, beside: I64) -> None:
    """Add the tasks in the rows of jobs to ``beside``, (S, L), by the type of each job; O(rows)."""
    for i in range(len(of_type)):
        for row in range(rows.ptr[i], rows.ptr[i + 1]):
            beside[rows.server[row], of_type[i]] += rows.tasks[row]
