"""Tetris: the best pair of a job and a server, again and again, by alignment less remaining work.

On a server with capacity c and f free, a bundle that demands D has the alignment
sum_r (D_r / c_r) (f_r / c_r) and the work (sum_r D_r / c_r) x remaining time; its score is
alignment - weight x work.

As servers only fill up, a score never rises: the best server of a job is looked for again only when the
job is the best of all by what was found last, and that server has changed since.

Source: Grandl et al., Multi-resource Packing for Cluster Schedulers, SIGCOMM 2014.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.server_tree import DEPTH, ServerTree, leaves, may_hold, take_room


class Packing(NamedTuple):
    """One round: n jobs, in the order that breaks ties, and S servers."""

    demand: I64
    """(n, R) quanta of a bundle."""
    most: I64
    """(n,) bundles that a job may have, >= 1."""
    time_left: F64
    """(n,) >= 0, of any unit."""
    tree: ServerTree
    """The search is fast where servers of equal capacity stand side by side."""
    lowest: I64
    """(2 size,) lowest number of a server below each node."""
    gain: F64
    """(2 size, R) largest free share per quantum of capacity, f / c^2, of the servers below each node."""
    unit: F64
    """(2 size, R) smallest share that a quantum is, 1 / c, of the servers below each node; 0 where c is 0."""
    bound: F64
    """Working space of a search, beside the tree's: no server below the node there has a larger score."""
    touched: I64
    """(S,) number of the bundle that last went to each server."""
    got: I64
    """(n,) bundles given so far."""
    best: I64
    """(n,) best server of each job when last looked for, by its place in the tree; -1 for none."""
    score: F64
    """(n,) of that server, then."""
    seen: I64
    """(n,) bundles placed before then."""
    heap: I64
    """(n,) jobs still in the round, the largest score on top."""
    job: I64
    """Of each bundle placed, in the order of packing."""
    server: I64
    """Of each bundle placed, its number in the tree."""


def new_packing(demand: I64, most: I64, time_left: F64, tree: ServerTree, bundles: int) -> Packing:
    """Nothing placed; room for so many bundles."""
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
    size = leaves(packing.tree)
    for k in range(len(packing.touched)):
        _set_leaf(packing, size + k, k)
        packing.lowest[size + k] = packing.tree.server[k]
    for node in range(size - 1, 0, -1):
        _join(packing, node)
        packing.lowest[node] = min(packing.lowest[2 * node], packing.lowest[2 * node + 1])


@kernel
def _set_leaf(packing: Packing, node: int, k: int) -> None:
    tree = packing.tree
    for r in range(tree.free.shape[1]):
        unit = 1.0 / tree.capacity[k, r] if tree.capacity[k, r] > 0 else 0.0
        packing.unit[node, r] = unit
        packing.gain[node, r] = tree.free[k, r] * unit * unit


@kernel
def _join(packing: Packing, node: int) -> None:
    for r in range(packing.gain.shape[1]):
        packing.gain[node, r] = max(packing.gain[2 * node, r], packing.gain[2 * node + 1, r])
        packing.unit[node, r] = min(packing.unit[2 * node, r], packing.unit[2 * node + 1, r])


@kernel
def alignment(packing: Packing, node: int, job: int) -> float:
    """Of a job on the server of a leaf; above that, no less than any server below has."""
    total = 0.0
    for r in range(packing.gain.shape[1]):
        total += packing.demand[job, r] * packing.gain[node, r]
    return total


@kernel
def work(packing: Packing, node: int, job: int) -> float:
    """Of a job on the server of a leaf; above that, no more than any server below has."""
    total = 0.0
    for r in range(packing.unit.shape[1]):
        total += packing.demand[job, r] * packing.unit[node, r]
    return total * packing.time_left[job]


@kernel
def _score(packing: Packing, node: int, job: int, weight: float) -> float:
    return alignment(packing, node, job) - weight * work(packing, node, job)


@kernel
def _find_best(packing: Packing, job: int, weight: float) -> None:
    """Set the job's best server: the largest score, ties to the lower number. O(S R) at most."""
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
def balance(packing: Packing, servers: I64, alike: I64) -> float:
    """Mean alignment over mean work of the pairs that fit now, 0 if there is no work.

    ``alike`` tells how many servers each of ``servers``, by their places in the tree, stands for.
    """
    size, alignments, works = leaves(packing.tree), 0.0, 0.0
    for job in range(len(packing.most)):
        for i in range(len(servers)):
            node = size + servers[i]
            if may_hold(packing.tree, node, packing.demand[job]):
                alignments += alike[i] * alignment(packing, node, job)
                works += alike[i] * work(packing, node, job)
    return alignments / works if works > 0.0 else 0.0


@kernel
def _precedes(packing: Packing, a: int, b: int) -> bool:
    higher = packing.score[a] > packing.score[b]
    return bool(higher or (packing.score[a] == packing.score[b] and a < b))


@kernel
def _sift_down(packing: Packing, at: int, n: int) -> None:
    """Put a job where it belongs among the first n of the heap, below ``at``."""
    heap, job = packing.heap, packing.heap[at]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _precedes(packing, heap[child + 1], heap[child]):
            child += 1
        if not _precedes(packing, heap[child], job):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = job


@kernel
def _take(packing: Packing, k: int, demand: I64) -> None:
    take_room(packing.tree, k, demand)
    node = leaves(packing.tree) + k
    _set_leaf(packing, node, k)
    node >>= 1
    while node > 0:
        _join(packing, node)
        node >>= 1


@kernel
def _enter(packing: Packing, weight: float) -> int:
    """Every job that fits somewhere onto the heap; returns how many."""
    n = 0
    for job in range(len(packing.most)):
        _find_best(packing, job, weight)
        if packing.best[job] >= 0:
            packing.heap[n] = job
            n += 1
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(packing, at, n)
    return n


@kernel
def pack(packing: Packing, weight: float) -> int:
    """Place bundles until none fits that a job may have; returns how many.

    Ties go to the earlier job, then to the lower server. O(R log S) for each bundle, beside the searches.
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
            _sift_down(packing, 0, n)
    return placed
