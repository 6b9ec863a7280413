"""What a binary tree over servers knows of their room, to find one without looking at all.

Node 1 is the root, nodes 2 i and 2 i + 1 are below node i, server k of n stands at leaf ``size + k``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import I64
from ray_sim.kernels.compile import kernel

DEPTH = 64
"""Room for the nodes that a search keeps for later: at most one for each level, and one more."""


class ServerTree(NamedTuple):
    """Servers, what they have free, and the most of each resource below each node."""

    server: I64
    """(n,) numbers, increasing."""
    capacity: I64
    """(n, R) quanta."""
    free: I64
    """(n, R) quanta."""
    useful: I64
    """(R,) a server that has less free of any resource is of use to nobody."""
    room: I64
    """(2 size, R) most that a server of use below each node has free of each resource; -1 without one."""
    stack: I64
    """Working space of a search."""


def new_server_tree(server: I64, capacity: I64, free: I64, useful: I64) -> ServerTree:
    """A tree of these servers; ``free`` is copied."""
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
    size = leaves(tree)
    for k in range(len(tree.server)):
        _set_leaf(tree, size + k, k)
    for node in range(size - 1, 0, -1):
        _join(tree, node)


@kernel
def leaves(tree: ServerTree) -> int:
    """Leaves, a power of two; the first is the node of that number."""
    return len(tree.room) // 2


@kernel
def of_use(tree: ServerTree, k: int) -> bool:
    """Whether server ``k`` may hold anything that is still to be placed."""
    return holds(tree, k, tree.useful)


@kernel
def _set_leaf(tree: ServerTree, node: int, k: int) -> None:
    there = of_use(tree, k)
    for r in range(tree.free.shape[1]):
        tree.room[node, r] = tree.free[k, r] if there else -1


@kernel
def _join(tree: ServerTree, node: int) -> None:
    for r in range(tree.room.shape[1]):
        tree.room[node, r] = max(tree.room[2 * node, r], tree.room[2 * node + 1, r])


@kernel
def take_room(tree: ServerTree, k: int, demand: I64) -> None:
    """Server ``k`` of the tree gives what is demanded. O(R log n)."""
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
    """False only if no server below the node holds the demand; exact at leaves."""
    for r in range(len(demand)):
        if tree.room[node, r] < demand[r]:
            return False
    return True


@kernel
def holds(tree: ServerTree, k: int, demand: I64) -> bool:
    """Whether server ``k`` of the tree has free what is demanded."""
    for r in range(len(demand)):
        if tree.free[k, r] < demand[r]:
            return False
    return True
