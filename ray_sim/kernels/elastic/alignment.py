"""Packing of Tetris: repeatedly place the pair of a job and a server with the highest score.

On a server with capacity c and free amount f, a bundle with demand D has the alignment
sum_r (D_r / c_r) (f_r / c_r) and the work (sum_r D_r / c_r) x remaining time; its score is
alignment - weight x work.

Servers only fill up, so a score never rises, and an old best score is an upper bound (lazy evaluation): the
best server of a job is searched again only when the job is at the root of the heap and that server has
changed since.

Source: Grandl et al., Multi-resource Packing for Cluster Schedulers, SIGCOMM 2014;
docs/models/baselines.md#tetris. The tree is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.core.heap import settle
from ray_sim.kernels.elastic.server_tree import (
    DEPTH,
    ServerTree,
    leaves,
    may_hold,
    set_above,
    set_all,
    take_room,
)


class Packing(NamedTuple):
    """One round of n jobs and S servers; ties go to the job of lower number, then to the lower server."""

    demand: I64
    """(n, R) quanta of a bundle."""
    most: I64
    """(n,) limit of bundles per job, >= 1."""
    time_left: F64
    """(n,) remaining time, >= 0, in any unit."""
    tree: ServerTree
    """Servers; the search prunes best if those of equal capacity are neighbours."""
    lowest: I64
    """(2 size,) lowest server number below each node."""
    gain: F64
    """(2 size, R) maximum of f / c^2 over the servers below each node."""
    unit: F64
    """(2 size, R) minimum of 1 / c over the servers below each node; 0 where c is 0."""
    bound: F64
    """Work space of a search, parallel to the tree's stack: upper bound of the scores below that node."""
    touched: I64
    """(S,) number of the bundle that last went to each server."""
    got: I64
    """(n,) bundles given so far."""
    best: I64
    """(n,) place in the tree of each job's best server at its last search; -1 for none."""
    score: F64
    """(n,) score of that server at that time."""
    seen: I64
    """(n,) number of bundles placed before that search."""
    heap: I64
    """(n,) heap of jobs in the round, largest score at the root."""
    job: I64
    """Job of each placed bundle, in the order of packing."""
    server: I64
    """Server of each placed bundle, by its number in the cluster."""


def new_packing(demand: I64, most: I64, time_left: F64, tree: ServerTree, bundles: int) -> Packing:
    """Return a round without placed bundles, with room for ``bundles``."""
    n, servers = len(most), len(tree.server)
    packing = Packing(
        demand=demand,
        most=most,
        time_left=time_left,
        tree=tree,
        lowest=np.full(len(tree.room), np.iinfo(np.int64).max),
        gain=np.zeros(tree.room.shape),
        unit=np.full(tree.room.shape, np.inf),
        bound=np.empty(DEPTH),
        touched=np.zeros(servers, dtype=np.int64),
        got=np.zeros(n, dtype=np.int64),
        best=np.full(n, -1, dtype=np.int64),
        score=np.zeros(n),
        seen=np.zeros(n, dtype=np.int64),
        heap=np.arange(n),
        job=np.empty(bundles, dtype=np.int64),
        server=np.empty(bundles, dtype=np.int64),
    )
    _build(packing)
    return packing


@kernel
def _build(packing: Packing) -> None:
    """Set all nodes; O(S R)."""
    size, servers = leaves(packing.tree), len(packing.touched)
    set_all(size, servers, packing, _set_leaf, _join)
    set_all(size, servers, packing, _set_lowest_leaf, _join_lowest)


@kernel
def _set_leaf(packing: Packing, node: int, k: int) -> None:
    """Set the leaf of server ``k``."""
    tree = packing.tree
    for r in range(tree.free.shape[1]):
        unit = 1.0 / tree.capacity[k, r] if tree.capacity[k, r] > 0 else 0.0
        packing.unit[node, r] = unit
        packing.gain[node, r] = tree.free[k, r] * unit * unit


@kernel
def _join(packing: Packing, node: int) -> None:
    """Set a node from its children."""
    for r in range(packing.gain.shape[1]):
        packing.gain[node, r] = max(packing.gain[2 * node, r], packing.gain[2 * node + 1, r])
        packing.unit[node, r] = min(packing.unit[2 * node, r], packing.unit[2 * node + 1, r])


@kernel
def _set_lowest_leaf(packing: Packing, node: int, k: int) -> None:
    """Set the number of the server of a leaf; it stays as it is."""
    packing.lowest[node] = packing.tree.server[k]


@kernel
def _join_lowest(packing: Packing, node: int) -> None:
    """Set the lowest server number below a node from its children."""
    packing.lowest[node] = min(packing.lowest[2 * node], packing.lowest[2 * node + 1])


@kernel
def alignment(packing: Packing, node: int, job: int) -> float:
    """Return the alignment of a job at a leaf; at an inner node, an upper bound for the servers below."""
    total = 0.0
    for r in range(packing.gain.shape[1]):
        total += packing.demand[job, r] * packing.gain[node, r]
    return total


@kernel
def work(packing: Packing, node: int, job: int) -> float:
    """Return the work of a job at a leaf; at an inner node, a lower bound for the servers below."""
    total = 0.0
    for r in range(packing.unit.shape[1]):
        total += packing.demand[job, r] * packing.unit[node, r]
    return total * packing.time_left[job]


@kernel
def _score(packing: Packing, node: int, job: int, weight: float) -> float:
    """Return the score of a job at a leaf; at an inner node, an upper bound for the servers below."""
    return alignment(packing, node, job) - weight * work(packing, node, job)


@kernel
def _find_best(packing: Packing, job: int, weight: float) -> None:
    """Set the job's best server: largest score, ties to the lower number. O(S R) at most.

    Branch and bound, depth first, the child with the larger bound first: a node is skipped if its bound
    does not beat the best leaf found, or if no server below it can hold the bundle.
    """
    tree, size = packing.tree, leaves(packing.tree)
    best, best_score, best_number, top = -1, 0.0, 0, 1
    tree.stack[0], packing.bound[0] = 1, _score(packing, 1, job, weight)
    while top > 0:
        top -= 1
        node, bound = tree.stack[top], packing.bound[top]
        beaten = bound < best_score or (bound == best_score and packing.lowest[node] > best_number)
        if (best >= 0 and beaten) or not may_hold(tree, node, packing.demand[job]):
            continue
        if node >= size:
            best, best_score, best_number = node - size, bound, packing.lowest[node]
            continue
        left, right = 2 * node, 2 * node + 1
        of_left, of_right = _score(packing, left, job, weight), _score(packing, right, job, weight)
        if of_right > of_left:
            left, right, of_left, of_right = right, left, of_right, of_left
        tree.stack[top], packing.bound[top] = right, of_right
        tree.stack[top + 1], packing.bound[top + 1] = left, of_left
        top += 2
    packing.best[job], packing.score[job] = best, best_score


@kernel
def balance(packing: Packing, servers: I64, equal_servers: I64) -> float:
    """Return mean alignment / mean work of the pairs that fit now, 0 if there is no work; O(n kinds R).

    ``servers`` are places in the tree of one server per kind; ``alike`` counts the servers of each kind.
    """
    size, alignments, works = leaves(packing.tree), 0.0, 0.0
    for job in range(len(packing.most)):
        for i in range(len(servers)):
            node = size + servers[i]
            if may_hold(packing.tree, node, packing.demand[job]):
                alignments += equal_servers[i] * alignment(packing, node, job)
                works += equal_servers[i] * work(packing, node, job)
    return alignments / works if works > 0.0 else 0.0


@kernel
def _precedes(packing: Packing, a: int, b: int) -> bool:
    """Whether job ``a`` has a larger score than job ``b``, or the same and a lower number."""
    higher = packing.score[a] > packing.score[b]
    return bool(higher or (packing.score[a] == packing.score[b] and a < b))


@kernel
def _take(packing: Packing, k: int, demand: I64) -> None:
    """Subtract a bundle from server ``k`` and update the nodes above; O(R log S)."""
    take_room(packing.tree, k, demand)
    node = leaves(packing.tree) + k
    _set_leaf(packing, node, k)
    set_above(node, packing, _join)


@kernel
def _enter(packing: Packing, weight: float) -> int:
    """Build the heap of jobs that fit somewhere; return their number; O(n) searches."""
    n = 0
    for job in range(len(packing.most)):
        _find_best(packing, job, weight)
        if packing.best[job] >= 0:
            packing.heap[n] = job
            n += 1
    for at in range(n // 2 - 1, -1, -1):
        settle(packing.heap, at, n, _precedes, packing)
    return n


@kernel
def pack(packing: Packing, weight: float) -> int:
    """Place bundles until no job can have another; return their number.

    Invariant of the loop: each score in the heap is an upper bound of the job's best score now, exact if
    its server has not changed since the search. So a job at the root with an exact score is the best of
    all. O(R log S + log n) per bundle, beside the searches.
    """
    n, placed = _enter(packing, weight), 0
    while n > 0:
        job = packing.heap[0]
        k = packing.best[job]
        stale = packing.touched[k] > packing.seen[job]
        if stale:
            _find_best(packing, job, weight)
            packing.seen[job] = placed
        else:
            packing.job[placed], packing.server[placed] = job, packing.tree.server[k]
            placed += 1
            packing.got[job] += 1
            packing.touched[k] = placed
            _take(packing, k, packing.demand[job])
        if packing.best[job] < 0 or packing.got[job] == packing.most[job]:
            n -= 1
            packing.heap[0] = packing.heap[n]
        if n > 0:
            settle(packing.heap, 0, n, _precedes, packing)
    return placed
