"""The least loaded server that holds a demand, found without looking at all servers.

A binary tree over some servers, in the order of their numbers: node 1 is the root, nodes 2 i and 2 i + 1
are below node i, server k of n stands at leaf ``size + k``. The load of a server is the sum over resources
of its used share; ties go to the lower number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel

_DEPTH = 64


class ServerTree(NamedTuple):
    """Servers, what they have free, and what the tree knows of it."""

    server: I64
    """(n,) numbers, increasing."""
    capacity: I64
    """(n, R) quanta."""
    free: I64
    """(n, R) quanta."""
    useful: I64
    """(R,) a server that has less free of any resource is of use to nobody."""
    load: F64
    """(n,)."""
    least: I64
    """(2 size,) least loaded server below each node, by its place in `server`; -1 if none is of use."""
    room: I64
    """(2 size, R) most that a server of use below each node has free of each resource; -1 without one."""
    stack: I64
    """Working space of a search."""


def new_server_tree(server: I64, capacity: I64, free: I64, useful: I64) -> ServerTree:
    """A tree of these servers; ``free`` is copied."""
    n, resources = free.shape
    size = 1 << max(n - 1, 0).bit_length()
    tree = ServerTree(
        server=server,
        capacity=capacity,
        free=free.copy(),
        useful=useful,
        load=np.zeros(n),
        least=np.full(2 * size, -1, dtype=np.int64),
        room=np.full((2 * size, resources), -1, dtype=np.int64),
        stack=np.empty(_DEPTH, dtype=np.int64),
    )
    _build(tree)
    return tree


@kernel
def _build(tree: ServerTree) -> None:
    size = len(tree.least) // 2
    for k in range(len(tree.server)):
        _set_leaf(tree, size + k, k)
    for node in range(size - 1, 0, -1):
        _join(tree, node)


@kernel
def _set_leaf(tree: ServerTree, node: int, k: int) -> None:
    load, of_use = 0.0, True
    for r in range(tree.free.shape[1]):
        offered, free = tree.capacity[k, r], tree.free[k, r]
        of_use = of_use and free >= tree.useful[r]
        if offered > 0:
            load += (offered - free) / offered
    tree.load[k] = load
    tree.least[node] = k if of_use else -1
    for r in range(tree.free.shape[1]):
        tree.room[node, r] = tree.free[k, r] if of_use else -1


@kernel
def _before(tree: ServerTree, a: int, b: int) -> bool:
    """Whether server ``a`` is less loaded than ``b``; no server (-1) is the most loaded."""
    if a < 0 or b < 0:
        return b < 0 <= a
    return bool(tree.load[a] < tree.load[b] or (tree.load[a] == tree.load[b] and a < b))


@kernel
def _join(tree: ServerTree, node: int) -> None:
    a, b = tree.least[2 * node], tree.least[2 * node + 1]
    tree.least[node] = b if _before(tree, b, a) else a
    for r in range(tree.room.shape[1]):
        tree.room[node, r] = max(tree.room[2 * node, r], tree.room[2 * node + 1, r])


@kernel
def take(tree: ServerTree, k: int, demand: I64) -> None:
    """Server ``k`` of the tree gives what is demanded. O(R log n)."""
    for r in range(len(demand)):
        tree.free[k, r] -= demand[r]
    node = len(tree.least) // 2 + k
    _set_leaf(tree, node, k)
    node >>= 1
    while node > 0:
        _join(tree, node)
        node >>= 1


@kernel
def _may_hold(tree: ServerTree, node: int, demand: I64) -> bool:
    for r in range(len(demand)):
        if tree.room[node, r] < demand[r]:
            return False
    return True


@kernel
def _holds(tree: ServerTree, k: int, demand: I64) -> bool:
    for r in range(len(demand)):
        if tree.free[k, r] < demand[r]:
            return False
    return True


@kernel
def least_loaded(tree: ServerTree, demand: I64) -> int:
    """Place in the tree of the least loaded server that holds the demand, -1 if none does.

    Where the least loaded one of all holds it, that is found at once; O(n R) at most.
    """
    best, top = -1, 1
    tree.stack[0] = 1
    while top > 0:
        top -= 1
        node = tree.stack[top]
        first = tree.least[node]
        if not _before(tree, first, best) or not _may_hold(tree, node, demand):
            continue
        if _holds(tree, first, demand):
            best = first
            continue
        left, right = 2 * node, 2 * node + 1
        if _before(tree, tree.least[right], tree.least[left]):
            left, right = right, left
        tree.stack[top], tree.stack[top + 1] = right, left
        top += 2
    return best
