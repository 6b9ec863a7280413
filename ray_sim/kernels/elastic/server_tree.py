"""Segment tree over servers: the maximum free amount of each resource below each node.

It lets a search skip servers that cannot hold a demand. Node 1 is the root, nodes 2 i and 2 i + 1 are the
children of node i, and server k of n is the leaf ``size + k``. Invariant: ``room`` of a node is the maximum
of ``room`` of its children. An update costs O(R log n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64

DEPTH = 64
"""Size of the stack of a depth-first search: at most one node per level, and one more."""


class ServerTree(NamedTuple):
    """Servers, their free capacity, and the maxima below each node."""

    server: I64
    """(n,) numbers, increasing."""
    capacity: I64
    """(n, R) quanta."""
    free: I64
    """(n, R) quanta."""
    useful: I64
    """(R,) smallest demands: a server with less free of any resource is skipped by all searches."""
    room: I64
    """(2 size, R) maximum free quanta of servers of use below each node; -1 if there is none."""
    stack: I64
    """Work space of a search."""


def new_server_tree(server: I64, capacity: I64, free: I64, useful: I64) -> ServerTree:
    """Return a tree of these servers; ``free`` is copied."""
    n, resources = free.shape
    tree = ServerTree(
        server=server,
        capacity=capacity,
        free=free.copy(),
        useful=useful,
        room=np.full((2 << max(n - 1, 0).bit_length(), resources), -1, dtype=np.int64),
        stack=np.empty(DEPTH, dtype=np.int64),
    )
    _build(tree)
    return tree


@kernel
def _build(tree: ServerTree) -> None:
    """Set all nodes, from the leaves to the root; O(n R)."""
    size = leaves(tree)
    for k in range(len(tree.server)):
        _set_leaf(tree, size + k, k)
    for node in range(size - 1, 0, -1):
        _join(tree, node)


@kernel
def leaves(tree: ServerTree) -> int:
    """Return the number of leaves, a power of two; it is also the number of the first leaf."""
    return len(tree.room) // 2


@kernel
def of_use(tree: ServerTree, k: int) -> bool:
    """Whether server ``k`` can hold the smallest demands."""
    return holds(tree, k, tree.useful)


@kernel
def _set_leaf(tree: ServerTree, node: int, k: int) -> None:
    """Set the leaf of server ``k``."""
    there = of_use(tree, k)
    for r in range(tree.free.shape[1]):
        tree.room[node, r] = tree.free[k, r] if there else -1


@kernel
def _join(tree: ServerTree, node: int) -> None:
    """Set a node from its children."""
    for r in range(tree.room.shape[1]):
        tree.room[node, r] = max(tree.room[2 * node, r], tree.room[2 * node + 1, r])


@kernel
def take_room(tree: ServerTree, k: int, demand: I64) -> None:
    """Subtract a demand from server ``k`` of the tree; O(R log n)."""
    for r in range(len(demand)):
        tree.free[k, r] -= demand[r]
    node = leaves(tree) + k
    _set_leaf(tree, node, k)
    node >>= 1
    while node > 0:
        _join(tree, node)
        node >>= 1


@kernel
def may_hold(tree: ServerTree, node: int, demand: I64) -> bool:
    """Necessary condition: False only if no server below the node holds the demand; exact at leaves."""
    for r in range(len(demand)):
        if tree.room[node, r] < demand[r]:
            return False
    return True


@kernel
def holds(tree: ServerTree, k: int, demand: I64) -> bool:
    """Whether server ``k`` of the tree has room for a demand."""
    for r in range(len(demand)):
        if tree.free[k, r] < demand[r]:
            return False
    return True
