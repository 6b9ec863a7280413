"""Placement of workers and parameter servers.

Source: Peng et al., Optimus, EuroSys 2018, section 4.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.placement_kernels import (
    EVEN,
    PACK,
    SPREAD,
    Demands,
    FreeServers,
    Placed,
    place_all,
    place_each_alone,
)
from ray_sim.policy_api import WORKER, PlacementTable, Rows

_MOST = 2**60
"""Quanta beyond the capacity of any server."""

RULES = {"even": EVEN, "spread": SPREAD, "pack": PACK}
"""Placement rules by name."""


def scarcest_resource(tasks: IntArray, quanta: IntArray, pool: IntArray) -> int:
    """Find the resource of which the jobs take the largest share; servers are ordered by its free amount.

    The paper orders by CPU, the scarcest resource of its jobs. If another resource is scarcer, an order by
    CPU puts full servers before those with room. Ties: the first resource.

    Parameters
    ----------
    tasks, quanta : (n, 2) and (n, 2, R), as `place`
    pool : (R,) quanta of all servers together
    """
    return int(_shares(np.einsum("jk,jkr->r", tasks, quanta), pool).argmax())


def dominant_shares(tasks: IntArray, quanta: IntArray, pool: IntArray) -> FloatArray:
    """(n,) largest share of a resource that each job takes; parameters as `scarcest_resource`."""
    shares: FloatArray = _shares(np.einsum("jk,jkr->jr", tasks, quanta), pool).max(axis=1)
    return shares


def _shares(taken: IntArray, pool: IntArray) -> FloatArray:
    """Shares of the pool by resource (last axis); 0 of a resource that it lacks."""
    return np.divide(taken, pool, out=np.zeros(taken.shape), where=pool > 0)


def place(
    tasks: IntArray,
    quanta: IntArray,
    home: PlacementTable,
    capacity: IntArray,
    resource: int,
    *,
    rule: str,
    size: IntArray | FloatArray,
    shrink: bool,
    idle: bool,
) -> tuple[PlacementTable, int]:
    """Placements by job number, sorted, and the number of steps taken; jobs without any placement wait.

    Jobs are placed by their size, the smallest first, ties by their order. By the rule ``even``
    task i of each role goes to server i mod k of the k freest, for the least k with which all fit; if there
    is no such k, parameter servers and workers alternate, each on the first server with room. By ``spread``
    and ``pack`` they alternate on the freest or the fullest server with room. By the rule ``even`` a job at
    home moves if its slowest task then has fewer peers on other servers; else it stays.

    Parameters
    ----------
    tasks : (n, 2) workers and parameter servers of each job, 0 workers for jobs that wait
    quanta : (n, 2, R) quanta that one task of each role takes
    home : placements, sorted, of jobs that already hold exactly these tasks
    capacity : (S, R) quanta of the available servers
    resource : resource whose free quanta order the servers
    size : (n,) numbers by which jobs are ordered
    shrink : whether a job that does not fit gets fewer tasks, at least one of each role; else it waits
    idle : whether no other jobs are on the servers; then, if none of these has a place, the first that can
        be shrunk is
    """
    order = np.argsort(size, kind="stable")
    free = capacity.copy()
    np.subtract.at(free, home.server, home.count[:, None] * quanta[home.job, home.role])
    pairs = np.einsum("jk,jkr->jr", np.minimum(tasks, 1), quanta)[tasks[:, WORKER] > 0]
    floor, placed = _floor(free, pairs.min(axis=0, initial=_MOST)), _room_for(tasks)
    rank = np.argsort(order)
    home = home.where(np.argsort(rank[home.job], kind="stable"))
    demands = Demands(
        tasks=np.ascontiguousarray(tasks[order]),
        quanta=np.ascontiguousarray(quanta[order]),
        home=Rows(
            np.searchsorted(rank[home.job], np.arange(len(tasks) + 1)), home.server, home.role, home.count
        ),
    )
    place_all(RULES[rule], demands, resource, shrink, idle, floor, placed)
    n = int(placed.size[0])
    found = _merged(order[placed.job[:n]], placed.server[:n], placed.role[:n], placed.tasks[:n])
    return found, int(floor.steps[0])


def place_alone(tasks: IntArray, quanta: IntArray, capacity: IntArray) -> PlacementTable:
    """Placements by job number, sorted, of jobs that each have all servers to themselves.

    The rule is ``even``; servers are ordered by the resource of which the job takes the largest share. A job
    without room for all of its tasks has none.

    Parameters
    ----------
    tasks, quanta, capacity : as `place`
    """
    resource = _shares(np.einsum("jk,jkr->jr", tasks, quanta), capacity.sum(axis=0)).argmax(axis=1)
    floor, placed = _floor(capacity.copy(), np.zeros(capacity.shape[1], np.int64)), _room_for(tasks)
    nowhere = Rows(np.zeros(len(tasks) + 1, np.int64), *np.empty((3, 0), np.int64))
    place_each_alone(Demands(tasks, quanta, nowhere), resource, capacity, floor, placed)
    n = int(placed.size[0])
    return _merged(placed.job[:n], placed.server[:n], placed.role[:n], placed.tasks[:n])


def _floor(free: IntArray, least: IntArray) -> FreeServers:
    n_servers = len(free)
    return FreeServers(
        free=free,
        key=np.empty(n_servers, np.int64),
        heap=np.empty(n_servers, np.int64),
        position=np.empty(n_servers, np.int64),
        size=np.zeros(1, np.int64),
        least=least,
        chosen=np.empty(n_servers, np.int64),
        steps=np.zeros(1, np.int64),
    )


def _room_for(tasks: IntArray) -> Placed:
    rows = int(tasks.sum())
    return Placed(
        job=np.empty(rows, np.int64),
        server=np.empty(rows, np.int64),
        role=np.empty(rows, np.int64),
        tasks=np.empty(rows, np.int64),
        size=np.zeros(1, np.int64),
    )


def _merged(job: IntArray, server: IntArray, role: IntArray, count: IntArray) -> PlacementTable:
    """Sorted entries, one for each job, server and role."""
    rows = PlacementTable(job, server, role, count).in_order()
    if len(job) == 0:
        return rows
    starts = np.diff(rows.job) | np.diff(rows.server) | np.diff(rows.role)
    first = np.flatnonzero(np.concatenate([[1], starts]))
    return replace(rows.where(first), count=np.add.reduceat(rows.count, first))
