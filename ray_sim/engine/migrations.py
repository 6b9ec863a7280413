"""Changes from present to target placements; equivalent servers are swapped so that fewer jobs restart.

A running job that is in the changes restarts, so a job that holds its target must stay out of them. Servers
are equivalent if capacity, speed and pools are the same.
"""

from __future__ import annotations

import numpy as np

from ray_sim.engine.placements import VisiblePlacements
from ray_sim.kernels.core.arrays import Changes, WorldArrays
from ray_sim.kernels.core.job_rows import Rows, find_differing
from ray_sim.kernels.core.server_places import (
    MOST_SQUARED,
    Exchanges,
    Places,
    count_kept,
    find_exchanges,
    find_places,
    match,
    rename_servers,
    sum_pairs,
    weigh_pairs,
)
from ray_sim.model.cluster import Cluster
from ray_sim.model.units import BoolArray, IntArray

_WHOLE_JOB = 2**20
"""Weight of leaving all tasks of a job in place."""


def kinds_of_servers(cluster: Cluster, arrays: WorldArrays) -> IntArray:
    """(S,) the same number for servers of the same capacity, speed and pools."""
    pools = arrays.server_part.copy()
    for q in range(len(arrays.part_class_ptr) - 1, len(arrays.pool_ptr) - 1):  # those that are no partition
        member = np.isin(
            np.arange(len(pools)), arrays.pool_servers[arrays.pool_ptr[q] : arrays.pool_ptr[q + 1]]
        )
        _, pools = np.unique(2 * pools + member, return_inverse=True)
    _, speed = np.unique(cluster.speed, return_inverse=True)
    _, kind = np.unique(np.column_stack([cluster.capacity, pools, speed]), axis=0, return_inverse=True)
    return kind.reshape(-1)


def keeping_places(
    placements: VisiblePlacements, jobs: IntArray, target: Rows, kind: IntArray, available: BoolArray
) -> Rows:
    """The same target but for the names of alike servers, chosen so that more jobs keep what they hold.

    Servers are paired greedily: those first that have most in common, where a job counts that can keep all
    that it holds, on each of its servers a part. Never fewer jobs than before keep what they hold.

    Linear in the rows, but for sorting them and 32 pairs a row.

    Parameters
    ----------
    jobs : (n,) sorted
    target : rows of each, in (server, role) order
    kind : (S,), see `kinds_of_servers`
    available : (S,) the servers that are there
    """
    now = placements.rows_of(jobs)
    kept = count_kept(now, target)
    kind = 2 * kind + available
    wanted, held = _matched_first(_places(target, kind), _places(now, kind), len(kind))
    if len(wanted) == 0:
        return target
    name, taken = np.full(len(kind), -1, dtype=np.int64), np.zeros(len(kind), dtype=np.bool_)
    match(wanted, held, name, taken)
    nameless, free = np.flatnonzero(name < 0), np.flatnonzero(~taken)
    name[nameless[np.argsort(kind[nameless], kind="stable")]] = free[np.argsort(kind[free], kind="stable")]
    renamed = _renamed(target, name)
    return renamed if count_kept(now, renamed) > kept else target


def _places(rows: Rows, kind: IntArray) -> Places:
    columns = np.empty((len(Places._fields) - 1, len(rows.server)), dtype=np.int64)
    places = Places(np.empty_like(rows.ptr), *columns)
    find_places(rows, kind, places)
    return places


def _matched_first(target: Places, now: Places, servers: int) -> tuple[IntArray, IntArray]:
    """Servers of the target and servers held now, pair by pair; those first by which most jobs keep most.

    Only of jobs that hold now what they are to hold, on servers of the same kinds. Ties: servers with
    themselves, then in order.
    """
    exchanges = Exchanges(*np.empty((len(Exchanges._fields), len(target.server)), dtype=np.int64))
    n = find_exchanges(target, now, _WHOLE_JOB, exchanges)
    pairs = np.empty((n * MOST_SQUARED, 3), dtype=np.int64)
    group, wanted, held, weight = (column[:n] for column in exchanges)
    pairs = pairs[: weigh_pairs(group, wanted, held, weight, pairs)]
    both, rank = np.empty((2, len(pairs)), dtype=np.int64), np.empty(len(pairs), dtype=np.int64)
    in_order = np.argsort(pairs[:, 0] * servers + pairs[:, 1], kind="stable")
    best = np.argsort(rank[: sum_pairs(pairs, in_order, both, rank)], kind="stable")
    return both[0, best], both[1, best]


def _renamed(rows: Rows, name: IntArray) -> Rows:
    order, *columns = np.empty((len(rows), len(rows.server)), dtype=np.int64)
    renamed = Rows(rows.ptr, *columns)
    rename_servers(rows, name, order, renamed)
    return renamed


def allocation_changes(
    placements: VisiblePlacements, jobs: IntArray, target: Rows, again: BoolArray | None = None
) -> Changes | None:
    """Changes of the jobs whose placements differ from their target; None if there are none.

    Parameters
    ----------
    jobs : (n,) sorted, waiting or running
    target : rows of each, in (server, role) order; no rows suspend a job
    again : (n,) mask of jobs that restart even if their placements equal the target, so that slow workers are
        replaced; without effect on jobs that hold nothing
    """
    differing = np.empty(len(jobs), dtype=np.bool_)
    now = placements.rows_of(jobs)
    find_differing(now, target, differing)
    if again is not None:
        differing |= again & (np.diff(now.ptr) > 0)
    if not differing.any():
        return None
    counts = np.diff(target.ptr)[differing]
    changed_rows = np.repeat(differing, np.diff(target.ptr))
    n_changed = len(counts)
    return Changes(
        job=jobs[differing],
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        server=target.server[changed_rows],
        role=target.role[changed_rows],
        tasks=target.tasks[changed_rows],
        order=np.arange(n_changed),
        size=np.array([n_changed]),
    )
