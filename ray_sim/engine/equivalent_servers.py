"""Servers that nothing tells apart: which is which does not matter, so jobs may stay where they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.engine.placements import VisiblePlacements
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows, find_differing
from ray_sim.kernels.core.server_matching import match, weigh_pairs
from ray_sim.model.cluster import Cluster
from ray_sim.model.units import BoolArray, IntArray

_WHOLE_JOB = 2**20
"""Weight of leaving all tasks of a job in place."""


def kinds_of_servers(cluster: Cluster, partition: IntArray) -> IntArray:
    """(S,) the same number for servers of the same capacity, speed and partition."""
    _, speed = np.unique(cluster.speed, return_inverse=True)
    _, kind = np.unique(np.column_stack([cluster.capacity, partition, speed]), axis=0, return_inverse=True)
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
    kept = _kept(now, target)
    kind = 2 * kind + available
    pairs = _weighed_pairs(_places(target, kind), _places(now, kind), len(jobs))
    if len(pairs) == 0:
        return target
    name, taken = np.full(len(kind), -1, dtype=np.int64), np.zeros(len(kind), dtype=np.bool_)
    match(pairs[:, 0].copy(), pairs[:, 1].copy(), name, taken)
    nameless, free = np.flatnonzero(name < 0), np.flatnonzero(~taken)
    name[nameless[np.argsort(kind[nameless], kind="stable")]] = free[np.argsort(kind[free], kind="stable")]
    renamed = _renamed(target, name)
    return renamed if _kept(now, renamed) > kept else target


class _Places(NamedTuple):
    """Jobs on servers, sorted by all columns: (m,) each."""

    job: IntArray
    kind: IntArray
    workers: IntArray
    ps: IntArray
    server: IntArray

    def part(self, chosen: BoolArray) -> _Places:
        return _Places._make(column[chosen] for column in self)


def _owners(rows: Rows) -> IntArray:
    return np.repeat(np.arange(len(rows.ptr) - 1), rows.ptr[1:] - rows.ptr[:-1])


def _begins(*columns: IntArray) -> BoolArray:
    """(n,) whether an element differs from the one before it in any column; the first one does."""
    begins = np.zeros(len(columns[0]), dtype=np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def _places(rows: Rows, kind: IntArray) -> _Places:
    owner = _owners(rows)
    first = _begins(owner, rows.server)
    tasks = np.zeros((int(first.sum()), 2), dtype=np.int64)
    tasks[np.cumsum(first) - 1, rows.role] = rows.tasks
    server = rows.server[first]
    columns = _Places(owner[first], kind[server], tasks[:, WORKER], tasks[:, PARAMETER_SERVER], server)
    order = np.lexsort(columns[::-1])
    return _Places._make(column[order] for column in columns)


def _weighed_pairs(target: _Places, now: _Places, jobs: int) -> IntArray:
    """(pairs, 2) server of the target, server held now, those first by which most jobs keep most.

    Only of jobs that hold now what they are to hold, on servers of the same kinds.
    """
    places = np.bincount(target.job, minlength=jobs)
    as_many = places == np.bincount(now.job, minlength=jobs)
    target, now = target.part(as_many[target.job]), now.part(as_many[now.job])
    differs = np.zeros(len(target.job), dtype=np.bool_)
    for column, held in zip(target[1:-1], now[1:-1], strict=True):
        differs |= column != held
    alike = np.bincount(target.job[differs], minlength=jobs) == 0
    target, now = target.part(alike[target.job]), now.part(alike[now.job])
    weight = _WHOLE_JOB // np.maximum(places[target.job], 1)
    given = np.cumsum(_begins(*target[:-1])) - 1, target.server, now.server, weight
    found = np.empty((0, 3), dtype=np.int64)
    found = np.empty((weigh_pairs(*given, found), 3), dtype=np.int64)
    weigh_pairs(*given, found)
    return _summed(found)


def _summed(found: IntArray) -> IntArray:
    """(pairs, 2) each pair once, the heaviest first; ties: servers with themselves, then in order."""
    if len(found) == 0:
        return found[:, :2]
    found = found[np.lexsort((found[:, 1], found[:, 0]))]
    first = _begins(found[:, 0], found[:, 1])
    weight = np.add.reduceat(found[:, 2], np.flatnonzero(first))
    pairs = found[first, :2]
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0], pairs[:, 0] != pairs[:, 1], -weight))]


def _renamed(rows: Rows, name: IntArray) -> Rows:
    server = name[rows.server]
    order = np.lexsort((rows.role, server, _owners(rows)))
    return Rows(rows.ptr, server[order], rows.role[order], rows.tasks[order])


def _kept(now: Rows, target: Rows) -> int:
    """Jobs that hold something and keep it."""
    differing = np.empty(len(now.ptr) - 1, dtype=np.bool_)
    find_differing(now, target, differing)
    return int((~differing & (now.ptr[1:] > now.ptr[:-1])).sum())
