"""Pairs of alike servers by which jobs can keep what they hold, and who is paired with whom."""

from __future__ import annotations

from ray_sim.kernels.arrays import I64, Bool
from ray_sim.kernels.compile import kernel

MOST_SQUARED = 32
"""Of so many servers on which a job holds the same, each is weighed with each; else with one, in order."""


@kernel
def _weigh(pairs: I64, n: int, target: int, now: int, weight: int) -> int:
    """Append a row to ``pairs`` where it has room; returns their number."""
    if n < len(pairs):
        pairs[n, 0], pairs[n, 1], pairs[n, 2] = target, now, weight
    return n + 1


@kernel
def weigh_pairs(group: I64, target: I64, now: I64, weight: I64, pairs: I64) -> int:
    """Rows (target server, server held now, weight) into ``pairs`` as far as there is room; their number.

    Parameters
    ----------
    group : (n,) sorted: the job, the kind of server and the tasks there, which are alike in a group
    target, now : (n,) servers, sorted within a group, on which the job is to hold, and holds, these tasks
    weight : (n,) what it is worth if a server of the group is the same as before
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
    """Pair servers in this order of preference; ``name`` is -1 and ``taken`` false where there is no pair.

    Servers that are left keep their names, as far as nobody has taken them.
    """
    for i in range(len(target)):
        if name[target[i]] < 0 and not taken[now[i]]:
            name[target[i]] = now[i]
            taken[now[i]] = True
    for s in range(len(name)):
        if name[s] < 0 and not taken[s]:
            name[s] = s
            taken[s] = True
