"""Placement of workers and parameter servers.

Source: Peng et al., Optimus, EuroSys 2018, section 4.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.model.units import IntArray
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
    return int(_scarcest(np.einsum("jk,jkr->r", tasks, quanta), pool))


def _scarcest(taken: IntArray, pool: IntArray) -> IntArray:
    """Resource (last axis) of which the largest share of the pool is taken."""
    share = np.divide(taken, pool, out=np.zeros(taken.shape), where=pool > 0)
    scarcest: IntArray = share.argmax(axis=-1)
    return scarcest


def place(
    tasks: IntArray,
    quanta: IntArray,
    home: PlacementTable,
    capacity: IntArray,
    resource: int,
    *,
    rule: str,
    shrink: bool,
) -> PlacementTable:
    """Placements by job number, sorted; jobs without any wait.

    Jobs are placed by their number of tasks, the smallest first, ties by their order. By the rule ``even``
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
    shrink : whether a job that does not fit gets fewer tasks, at least one of each role; else it waits
    """
    order = np.argsort(tasks.sum(axis=1), kind="stable")
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
    place_all(RULES[rule], demands, resource, shrink, floor, placed)
    n = int(placed.size[0])
    return _merged(order[placed.job[:n]], placed.server[:n], placed.role[:n], placed.tasks[:n])


def place_alone(tasks: IntArray, quanta: IntArray, capacity: IntArray) -> PlacementTable:
    """Placements by job number, sorted, of jobs that each have all servers to themselves.

    The rule is ``even``; servers are ordered by the resource of which the job takes the largest share. A job
    without room for all of its tasks has none.

    Parameters
    ----------
    tasks, quanta, capacity : as `place`
    """
    resource = _scarcest(np.einsum("jk,jkr->jr", tasks, quanta), capacity.sum(axis=0))
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
