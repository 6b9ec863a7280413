"""Placement of the tasks of elastic jobs: evenly over as few servers as possible, else one by one.

Source: Peng et al., Optimus, EuroSys 2018, section 4.2; docs/models/optimus.md#placement.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.heap import push, rekey, remove
from ray_sim.kernels.core.job_rows import Rows, tasks_here
from ray_sim.kernels.core.queue_dispatch import copy_matrix

EVEN, SPREAD, PACK = range(3)


class Demands(NamedTuple):
    """Jobs in the order of placement, (n,) each."""

    tasks: I64
    """(n, 2) workers and parameter servers; 0 workers for a job that is to wait."""
    quanta: I64
    """(n, 2, R) demand of one worker and of one parameter server."""
    home: Rows
    """Current placement of each job, if it has exactly these tasks; else no rows."""


class FreeServers(NamedTuple):
    """Servers that may be used, (S,) each, by index."""

    free: I64
    """(S, R) free quanta; those of jobs at home are not free."""
    key: I64
    """Minus the free quanta of the resource that orders servers."""
    heap: I64
    """Heap of servers by (key, index), freest first, without servers found to lack ``least``."""
    position: I64
    size: I64
    """(1,)."""
    least: I64
    """(R,) minimum over jobs of the demand of one task of each role: with less no job has room."""
    chosen: I64
    """(S,) work space: chosen servers from the front, passed-over servers from the end."""
    steps: I64
    """(1,) servers looked at or put in order so far, the operations of a placement."""


class Placed(NamedTuple):
    """Placement found: rows job by job, in the order of placement; a row has one or more equal tasks."""

    job: I64
    """Number of the job in `Demands`."""
    server: I64
    role: I64
    tasks: I64
    size: I64
    """(1,) number of rows."""


@kernel
def holds(servers: FreeServers, server: int, quanta: I64, workers: int, ps: int) -> bool:
    """Whether a server has room for these numbers of workers and parameter servers."""
    servers.steps[0] += 1
    for r in range(quanta.shape[1]):
        demand = workers * quanta[WORKER, r] + ps * quanta[PARAMETER_SERVER, r]
        if demand > servers.free[server, r]:
            return False
    return True


@kernel
def _of_use(servers: FreeServers, server: int) -> bool:
    """Whether a server has the least that any job needs."""
    for r in range(len(servers.least)):
        if servers.free[server, r] < servers.least[r]:
            return False
    return True


@kernel
def _fill(servers: FreeServers, server: int, quanta: I64, workers: int, ps: int) -> None:
    """Subtract tasks from a server's free quanta; negative numbers add."""
    for r in range(quanta.shape[1]):
        servers.free[server, r] -= workers * quanta[WORKER, r] + ps * quanta[PARAMETER_SERVER, r]


@kernel
def _add_row(placed: Placed, job: int, server: int, role: int, tasks: int) -> None:
    """Append a row unless it has no tasks."""
    if tasks > 0:
        at = placed.size[0]
        placed.job[at], placed.server[at], placed.role[at], placed.tasks[at] = job, server, role, tasks
        placed.size[0] = at + 1


@kernel
def _order(servers: FreeServers, server: int, resource: int) -> None:
    """Insert a server into the heap, or move it, by its free quanta; O(log S)."""
    servers.steps[0] += 1
    key = -servers.free[server, resource]
    if servers.position[server] >= 0:
        rekey(servers.heap, 0, servers.size[0], servers.position, servers.key, server, key)
    else:
        servers.key[server] = key
        servers.size[0] = push(servers.heap, 0, servers.size[0], servers.position, servers.key, server)


@kernel
def turn(tasks: int, k: int, rank: int) -> int:
    """Return how many of ``tasks`` tasks go to server ``rank`` of k, if task i goes to server i mod k."""
    return (tasks - rank + k - 1) // k


@kernel
def _fits_evenly(servers: FreeServers, quanta: I64, workers: int, ps: int, k: int) -> bool:
    """Whether the k chosen servers hold the tasks spread evenly; O(k R)."""
    for rank in range(k):
        if not holds(servers, servers.chosen[rank], quanta, turn(workers, k, rank), turn(ps, k, rank)):
            return False
    return True


@kernel
def _place_evenly(
    demands: Demands, job: int, most: int, resource: int, servers: FreeServers, placed: Placed
) -> bool:
    """Place a job evenly on the k freest servers, for the smallest k <= ``most`` that fits.

    Task i of each role goes to server i mod k. Invariant of the loop: ``chosen[:k]`` are the k freest
    servers with room for one task of each role. Others are passed over: a server that lacks another
    resource than the one that orders servers would stay at the root. All are put back at the end.
    O(k log S) for the heap, O(k^2 R) for the trials. Returns whether the job was placed.
    """
    workers, ps = demands.tasks[job, WORKER], demands.tasks[job, PARAMETER_SERVER]
    quanta = demands.quanta[job]
    pair = quanta[WORKER, resource] + (quanta[PARAMETER_SERVER, resource] if ps > 0 else 0)
    k, passed, fits = 0, len(servers.chosen), False
    most = min(most, max(workers, ps))
    while not fits and k < most and servers.size[0] > 0 and -servers.key[servers.heap[0]] >= pair:
        server = servers.heap[0]
        servers.size[0] = remove(servers.heap, 0, servers.size[0], servers.position, servers.key, server)
        if holds(servers, server, quanta, 1, min(ps, 1)):
            servers.chosen[k] = server
            k += 1
            fits = _fits_evenly(servers, quanta, workers, ps, k)
        elif _of_use(servers, server):
            passed -= 1
            servers.chosen[passed] = server
    for rank in range(k):
        server = servers.chosen[rank]
        if fits:
            w_here, ps_here = turn(workers, k, rank), turn(ps, k, rank)
            _fill(servers, server, quanta, w_here, ps_here)
            _add_row(placed, job, server, WORKER, w_here)
            _add_row(placed, job, server, PARAMETER_SERVER, ps_here)
        _order(servers, server, resource)
    for at in range(passed, len(servers.chosen)):
        _order(servers, servers.chosen[at], resource)
    return fits


@kernel
def _server_for(rule: int, servers: FreeServers, quanta: I64, role: int, resource: int, first: int) -> int:
    """Return the freest (SPREAD), fullest (PACK) or first (EVEN) server with room; -1 if none has.

    Servers before ``first`` are not considered. O(S R).
    """
    best, best_free = -1, 0
    for server in range(first, len(servers.free)):
        if not holds(servers, server, quanta, int(role == WORKER), int(role == PARAMETER_SERVER)):
            continue
        free = servers.free[server, resource]
        if rule == EVEN:
            return server
        if best < 0 or (free > best_free if rule == SPREAD else free < best_free):
            best, best_free = server, free
    return best


@kernel
def _place_in_turn(
    rule: int, demands: Demands, job: int, resource: int, shrink: bool, servers: FreeServers, placed: Placed
) -> None:
    """Place a parameter server and a worker in turn, each by the rule, until all are placed or none fits.

    A job that does not fit in full is undone; with ``shrink`` it keeps the tasks placed, if there is at
    least one of each role it needs. EVEN scans each role once, O(S) in all, because servers only fill up;
    SPREAD and PACK cost O(S) per task.
    """
    quanta, rows = demands.quanta[job], placed.size[0]
    workers, ps = demands.tasks[job, WORKER], demands.tasks[job, PARAMETER_SERVER]
    w_left, ps_left, w_from, ps_from = workers, ps, 0, 0
    while w_left > 0 or ps_left > 0:
        before = w_left + ps_left
        if ps_left > 0:
            server = _server_for(rule, servers, quanta, PARAMETER_SERVER, resource, ps_from)
            if server >= 0:
                _fill(servers, server, quanta, 0, 1)
                _add_row(placed, job, server, PARAMETER_SERVER, 1)
                ps_left -= 1
            if rule == EVEN:
                ps_from = server if server >= 0 else len(servers.free)
        if w_left > 0:
            server = _server_for(rule, servers, quanta, WORKER, resource, w_from)
            if server >= 0:
                _fill(servers, server, quanta, 1, 0)
                _add_row(placed, job, server, WORKER, 1)
                w_left -= 1
            if rule == EVEN:
                w_from = server if server >= 0 else len(servers.free)
        if w_left + ps_left == before:
            break
    partly = w_left < workers and (ps_left < ps or ps == 0)
    keeps = w_left + ps_left == 0 or (shrink and partly)
    for row in range(rows, placed.size[0]):
        server, role = placed.server[row], placed.role[row]
        if not keeps:
            _fill(servers, server, quanta, -int(role == WORKER), -int(role == PARAMETER_SERVER))
        _order(servers, server, resource)
    if not keeps:
        placed.size[0] = rows


@kernel
def _move(demands: Demands, job: int, sign: int, resource: int, servers: FreeServers) -> None:
    """Free the current placement of a job (sign 1), or take it again (-1)."""
    for row in range(demands.home.ptr[job], demands.home.ptr[job + 1]):
        server, role, tasks = demands.home.server[row], demands.home.role[row], demands.home.tasks[row]
        for r in range(servers.free.shape[1]):
            servers.free[server, r] += sign * tasks * demands.quanta[job, role, r]
        _order(servers, server, resource)


@kernel
def _peers_apart(workers: int, ps: int, w_here: int, ps_here: int) -> int:
    """Return the most peers elsewhere of any task on a server; in a ring all workers are peers."""
    if ps == 0:
        return workers - w_here if w_here > 0 else 0
    of_ps = workers - w_here if ps_here > 0 else 0
    of_worker = ps - ps_here if w_here > 0 else 0
    return max(of_ps, of_worker)


@kernel
def peers_apart_at_home(demands: Demands, job: int) -> int:
    """Return the bottleneck of a step's transfers at the current placement, in peers on other servers."""
    workers, ps = demands.tasks[job, WORKER], demands.tasks[job, PARAMETER_SERVER]
    most, row, end = 0, demands.home.ptr[job], demands.home.ptr[job + 1]
    while row < end:
        w_here, ps_here, row = tasks_here(demands.home, row, end)
        most = max(most, _peers_apart(workers, ps, w_here, ps_here))
    return most


@kernel
def peers_apart_evenly(workers: int, ps: int, k: int) -> int:
    """Return the bottleneck of an even placement on k servers; it grows with k."""
    most = 0
    for rank in range(min(k, max(workers, ps))):
        most = max(most, _peers_apart(workers, ps, turn(workers, k, rank), turn(ps, k, rank)))
    return most


@kernel
def _stay_or_move(
    rule: int, demands: Demands, job: int, resource: int, servers: FreeServers, placed: Placed
) -> None:
    """Keep the current placement of a job, unless an even one with a smaller bottleneck fits.

    The bottleneck grows with k, so ``most`` is the largest k that improves it.
    """
    if rule == EVEN:
        workers, ps = demands.tasks[job, WORKER], demands.tasks[job, PARAMETER_SERVER]
        apart, most = peers_apart_at_home(demands, job), 0
        while most < max(workers, ps) and peers_apart_evenly(workers, ps, most + 1) < apart:
            most += 1
        if most > 0:
            _move(demands, job, 1, resource, servers)
            if _place_evenly(demands, job, most, resource, servers, placed):
                return
            _move(demands, job, -1, resource, servers)
    for row in range(demands.home.ptr[job], demands.home.ptr[job + 1]):
        server, role = demands.home.server[row], demands.home.role[row]
        _add_row(placed, job, server, role, demands.home.tasks[row])


@kernel
def _order_all(servers: FreeServers, resource: int) -> None:
    """Build the heap of all servers by a resource; O(S log S)."""
    servers.size[0] = 0
    for server in range(len(servers.free)):
        servers.position[server] = -1
    for server in range(len(servers.free)):
        _order(servers, server, resource)


@outlined
def place_each_alone(
    demands: Demands, resource: I64, capacity: I64, servers: FreeServers, placed: Placed
) -> None:
    """Place each job evenly, or else in turn, on the empty cluster; a job without room gets no rows.

    Parameters
    ----------
    resource : (n,) resource that orders the servers, for each job
    capacity : (S, R) quanta of the servers
    """
    placed.size[0] = 0
    for job in range(len(demands.tasks)):
        copy_matrix(capacity, servers.free)
        _order_all(servers, resource[job])
        if not _place_evenly(demands, job, len(servers.free), resource[job], servers, placed):
            _place_in_turn(EVEN, demands, job, resource[job], False, servers, placed)


@outlined
def place_all(
    rule: int,
    demands: Demands,
    resource: int,
    shrink: bool,
    idle: bool,
    servers: FreeServers,
    placed: Placed,
) -> None:
    """Place the jobs one after the other into ``placed``; ``servers.free`` is what they leave.

    Ties between servers go to the lowest index. EVEN: O(k log S + k^2 R) for a job on k servers, O(S R) for
    one that does not fit evenly; SPREAD and PACK: O(S R) per task.

    Parameters
    ----------
    rule : EVEN, SPREAD or PACK
    resource : resource that orders the servers
    shrink : whether a job that does not fit is placed with fewer tasks; else it gets nothing
    idle : whether, if no job has a place, the first one that can be placed with fewer tasks is
    """
    placed.size[0] = 0
    _order_all(servers, resource)
    for job in range(len(demands.tasks)):
        if demands.tasks[job, WORKER] == 0:
            continue
        if demands.home.ptr[job] < demands.home.ptr[job + 1]:
            _stay_or_move(rule, demands, job, resource, servers, placed)
        elif rule != EVEN or not _place_evenly(demands, job, len(servers.free), resource, servers, placed):
            _place_in_turn(rule, demands, job, resource, shrink, servers, placed)
    if idle:
        for job in range(len(demands.tasks)):
            if placed.size[0] == 0 and demands.tasks[job, WORKER] > 0:
                _place_in_turn(rule, demands, job, resource, True, servers, placed)
