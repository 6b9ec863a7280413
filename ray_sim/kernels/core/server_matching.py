"""Matching of identical servers, so that jobs can stay where they are.

A decision names servers; identical servers can be exchanged in it. Each pair (server of the decision,
server held now) has a weight: the share of a job that need not move. Pairs are matched greedily, which
gives at least half of the largest total weight of these pairs (Avis, A Survey of Heuristics for the Weighted
Matching Problem, Networks 13, 1983).
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Bool

MOST_SQUARED = 32
"""Largest group of which all pairs are weighed; in larger ones the i-th is weighed with the i-th only."""


@kernel
def _weigh(pairs: I64, n: int, target: int, now: int, weight: int) -> int:
    """Append a row to ``pairs`` if it has room; return the number of rows with this one."""
    if n < len(pairs):
        pairs[n, 0], pairs[n, 1], pairs[n, 2] = target, now, weight
    return n + 1


@kernel
def weigh_pairs(group: I64, target: I64, now: I64, weight: I64, pairs: I64) -> int:
    """Write rows (target server, server held now, weight) to ``pairs``, as far as it has room.

    Returns the number of rows, which may exceed the room: call again with more. At most
    `MOST_SQUARED` x n rows.

    Parameters
    ----------
    group : (n,) sorted; one group has one job, one kind of server and one set of tasks per server
    target, now : (n,) servers, sorted within a group, on which the job will hold, and holds, these tasks
    weight : (n,) gain if a server of the group stays the same
    """
    n, begin = 0, 0
    while begin < len(group):
        end = begin
        while end < len(group) and group[end] == group[begin]:
            end += 1
        if end - begin > MOST_SQUARED:
            for i in range(begin, end):
                n = _weigh(pairs, n, target[i], now[i], weight[i])
        else:
            for i in range(begin, end):
                for k in range(begin, end):
                    n = _weigh(pairs, n, target[i], now[k], weight[begin])
        begin = end
    return n


@kernel
def match(target: I64, now: I64, name: I64, taken: Bool) -> None:
    """Match pairs greedily in the given order; then unmatched servers stand for themselves if still free.

    Invariant of the loops: ``name`` is one-to-one where it is set, and ``taken`` marks its values. O(n + S).

    Parameters
    ----------
    target, now : (n,) pairs, best first
    name : (S,) -1, set to the server that stands for each target server
    taken : (S,) False, set to whether a server stands for one
    """
    for i in range(len(target)):
        if name[target[i]] < 0 and not taken[now[i]]:
            name[target[i]] = now[i]
            taken[now[i]] = True
    for s in range(len(name)):
        if name[s] < 0 and not taken[s]:
            name[s] = s
            taken[s] = True
