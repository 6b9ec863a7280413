"""Search for the least loaded server that holds a demand.

The load of a server is the sum over resources of its used share; ties go to the lower number. A tree keeps
the least loaded server below each node, so a search visits few nodes (branch and bound). Invariant between
calls: `least` of a node is the least loaded of the servers of use below it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.elastic.server_tree import (
    ServerTree,
    holds,
    leaves,
    may_hold,
    of_use,
    set_above,
    set_all,
    take_room,
)


class Loads(NamedTuple):
    """Tree of servers with the least loaded one below each node."""

    tree: ServerTree
    load: F64
    """(n,) load of each server."""
    least: I64
    """(2 size,) place in the tree of the least loaded server below each node; -1 if none is of use."""


def new_loads(tree: ServerTree) -> Loads:
    """Return the loads of the servers of a tree; O(n R)."""
    loads = Loads(tree, np.zeros(len(tree.server)), np.full(len(tree.room), -1, dtype=np.int64))
    _build(loads)
    return loads


@kernel
def _build(loads: Loads) -> None:
    """Set all nodes; O(n R)."""
    set_all(leaves(loads.tree), len(loads.load), loads, _set_leaf, _join)


@kernel
def _set_leaf(loads: Loads, node: int, k: int) -> None:
    """Set the load of server ``k`` and its leaf."""
    tree, load = loads.tree, 0.0
    for r in range(tree.free.shape[1]):
        if tree.capacity[k, r] > 0:
            load += (tree.capacity[k, r] - tree.free[k, r]) / tree.capacity[k, r]
    loads.load[k] = load
    loads.least[node] = k if of_use(tree, k) else -1


@kernel
def _before(loads: Loads, a: int, b: int) -> bool:
    """Whether server ``a`` is less loaded than ``b``; no server (-1) is the most loaded."""
    if a < 0 or b < 0:
        return b < 0 <= a
    return bool(loads.load[a] < loads.load[b] or (loads.load[a] == loads.load[b] and a < b))


@kernel
def _join(loads: Loads, node: int) -> None:
    """Set a node from the two below it."""
    a, b = loads.least[2 * node], loads.least[2 * node + 1]
    loads.least[node] = b if _before(loads, b, a) else a


@kernel
def take(loads: Loads, k: int, demand: I64) -> None:
    """Subtract a demand from server ``k`` of the tree; O(R log n)."""
    take_room(loads.tree, k, demand)
    node = leaves(loads.tree) + k
    _set_leaf(loads, node, k)
    set_above(node, loads, _join)


@kernel
def least_loaded(loads: Loads, demand: I64) -> int:
    """Return the place in the tree of the least loaded server that holds the demand, -1 if none does.

    Depth-first search, less loaded child first. A node is skipped if its least loaded server does not beat
    the best found, or if no server below it can hold the demand. Invariant of the loop: the answer is the
    best found so far or below a node on the stack. O(R) if the least loaded server of all
    holds it, O(n R) at most.
    """
    tree, best, top = loads.tree, -1, 1
    tree.stack[0] = 1
    while top > 0:
        top -= 1
        node = tree.stack[top]
        first = loads.least[node]
        if not _before(loads, first, best) or not may_hold(tree, node, demand):
            continue
        if holds(tree, first, demand):
            best = first
            continue
        left, right = 2 * node, 2 * node + 1
        if _before(loads, loads.least[right], loads.least[left]):
            left, right = right, left
        tree.stack[top], tree.stack[top + 1] = right, left
        top += 2
    return best
