"""Segment tree over servers: the maximum free amount of each resource below each node.

It lets a search skip servers that cannot hold a demand. Node 1 is the root, nodes 2 i and 2 i + 1 are the
children of node i, and server k of n is the leaf ``size + k``. Invariant: ``room`` of a node is the maximum
of ``room`` of its children. An update costs O(R log n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64

T = TypeVar("T")

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
def set_all(
    size: int, n: int, data: T, set_leaf: Callable[[T, int, int], None], join: Callable[[T, int], None]
) -> None:
    """Set all nodes of a tree with ``size`` leaves, of which ``n`` are in use; O(size) calls.

    Leaves first, then nodes from the last to the root: both children of a node are set before it.

    Parameters
    ----------
    set_leaf : a kernel; ``set_leaf(data, node, k)`` sets the leaf of server ``k``
    join : a kernel; ``join(data, node)`` sets a node from its children
    """
    for k in range(n):
        set_leaf(data, size + k, k)
    for node in range(size - 1, 0, -1):
        join(data, node)


@kernel
def set_above(node: int, data: T, join: Callable[[T, int], None]) -> None:
    """Set the nodes above a changed one, from its parent to the root; O(log size) calls of ``join``."""
    node >>= 1
    while node > 0:
        join(data, node)
        node >>= 1


@kernel
def _build(tree: ServerTree) -> None:
    """Set all nodes; O(n R)."""
    set_all(leaves(tree), len(tree.server), tree, _set_leaf, _join)


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
    set_above(node, tree, _join)


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
