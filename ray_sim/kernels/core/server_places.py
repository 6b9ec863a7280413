"""Places of jobs: the servers that each job is on with their kinds and tasks, compared, matched and renamed.

A decision names servers; identical servers can be exchanged in it, so that jobs can stay where they are. Each
pair (server of the decision, server held now) has a weight: the share of a job that need not move. Pairs are
matched greedily, which gives at least half of the largest total weight of these pairs (Avis, A Survey of
Heuristics for the Weighted Matching Problem, Networks 13, 1983). `ray_sim.engine.migrations` calls the steps.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Bool
from ray_sim.kernels.core.heap import heap_sort
from ray_sim.kernels.core.job_rows import Rows, differs, tasks_here

MOST_SQUARED = 32
"""Largest group of which all pairs are weighed; in larger ones the i-th is weighed with the i-th only."""


class Places(NamedTuple):
    """Servers of several jobs, job by job; (n + 1,) ``ptr`` and (m,) each."""

    ptr: I64
    """Places of job i: ptr[i] .. ptr[i + 1]."""
    order: I64
    """The places of each job, sorted by kind of server, then workers, parameter servers and server."""
    kind: I64
    workers: I64
    ps: I64
    server: I64


@kernel
def _same_tasks(a: Places, i: int, b: Places, k: int) -> bool:
    """Whether two places have the same kind of server and the same tasks."""
    return bool(a.kind[i] == b.kind[k] and a.workers[i] == b.workers[k] and a.ps[i] == b.ps[k])


@kernel
def _after(places: Places, a: int, b: int) -> bool:
    """Whether place ``a`` comes after place ``b`` of the same job."""
    if places.kind[a] != places.kind[b]:
        return bool(places.kind[a] > places.kind[b])
    if places.workers[a] != places.workers[b]:
        return bool(places.workers[a] > places.workers[b])
    if places.ps[a] != places.ps[b]:
        return bool(places.ps[a] > places.ps[b])
    return bool(places.server[a] > places.server[b])


@kernel
def find_places(rows: Rows, kind: I64, places: Places) -> None:
    """Set ``places`` from rows in (server, role) order; ``kind`` is (S,). O(rows log rows)."""
    n = places.ptr[0] = 0
    for i in range(len(rows.ptr) - 1):
        row, end = rows.ptr[i], rows.ptr[i + 1]
        while row < end:
            places.order[n], places.server[n], places.kind[n] = n, rows.server[row], kind[rows.server[row]]
            places.workers[n], places.ps[n], row = tasks_here(rows, row, end)
            n += 1
        places.ptr[i + 1] = n
        heap_sort(places.order, places.ptr[i], n - places.ptr[i], _after, places)


@kernel
def _as_before(target: Places, now: Places, i: int) -> bool:
    """Whether job i is to hold what it holds, but for the names of servers of one kind."""
    n = target.ptr[i + 1] - target.ptr[i]
    if n != now.ptr[i + 1] - now.ptr[i]:
        return False
    for k in range(n):
        if not _same_tasks(target, target.order[target.ptr[i] + k], now, now.order[now.ptr[i] + k]):
            return False
    return True


class Exchanges(NamedTuple):
    """Servers that may be exchanged, (m,) each; `weigh_pairs` takes them."""

    group: I64
    target: I64
    now: I64
    weight: I64


@kernel
def find_exchanges(target: Places, now: Places, whole_job: int, found: Exchanges) -> int:
    """List the places of jobs that are to hold what they hold but for names; return their number.

    A group has one job, one kind of server and one set of tasks; a job weighs ``whole_job``, in equal parts.
    """
    n, groups = 0, 0
    for i in range(len(target.ptr) - 1):
        first, end = target.ptr[i], target.ptr[i + 1]
        if not _as_before(target, now, i):
            continue
        for k in range(end - first):
            a = target.order[first + k]
            if k == 0 or not _same_tasks(target, a, target, target.order[first + k - 1]):
                groups += 1
            found.group[n], found.target[n] = groups, target.server[a]
            found.now[n], found.weight[n] = now.server[now.order[now.ptr[i] + k]], whole_job // (end - first)
            n += 1
    return n


@kernel
def sum_pairs(pairs: I64, order: I64, both: I64, rank: I64) -> int:
    """Sum the weights of equal pairs; return the number of different ones.

    Parameters
    ----------
    pairs : (n, 3) rows target server, server held now, weight
    order : (n,) rows sorted by both servers
    both : (2, n) set to the servers of each different pair
    rank : (n,) set to - 2 x its weight, less 1 if a server stands for itself: the smaller, the better
    """
    n = -1
    for row in order:
        target, now = pairs[row, 0], pairs[row, 1]
        if n < 0 or both[0, n] != target or both[1, n] != now:
            n += 1
            both[0, n], both[1, n] = target, now
            rank[n] = -1 if target == now else 0
        rank[n] -= 2 * pairs[row, 2]
    return n + 1


@kernel
def _row_after(data: tuple[Rows, I64], a: int, b: int) -> bool:
    """Whether row ``a`` comes after row ``b`` of the same job under the new names."""
    rows, name = data
    if name[rows.server[a]] != name[rows.server[b]]:
        return bool(name[rows.server[a]] > name[rows.server[b]])
    return bool(rows.role[a] > rows.role[b])


@kernel
def rename_servers(rows: Rows, name: I64, order: I64, renamed: Rows) -> None:
    """Set ``renamed`` to ``rows`` with other servers, in (server, role) order; O(rows log rows).

    Parameters
    ----------
    name : (S,) server that stands for each
    order : (rows,) work space
    """
    for i in range(len(rows.ptr) - 1):
        first, end = rows.ptr[i], rows.ptr[i + 1]
        for row in range(first, end):
            order[row] = row
        heap_sort(order, first, end - first, _row_after, (rows, name))
        for at in range(first, end):
            row = order[at]
            renamed.server[at] = name[rows.server[row]]
            renamed.role[at], renamed.tasks[at] = rows.role[row], rows.tasks[row]


@kernel
def count_kept(now: Rows, target: Rows) -> int:
    """Return the number of jobs that hold something and are to keep it."""
    n = 0
    for i in range(len(now.ptr) - 1):
        if now.ptr[i + 1] > now.ptr[i] and not differs(now, target, i):
            n += 1
    return n


@kernel
def weigh_pairs(group: I64, target: I64, now: I64, weight: I64, pairs: I64) -> int:
    """Write rows (target server, server held now, weight) to ``pairs``; return their number.

    There are at most `MOST_SQUARED` x n rows, for which ``pairs`` has room.

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
        large = end - begin > MOST_SQUARED
        for i in range(begin, end):
            for k in range(i if large else begin, i + 1 if large else end):
                pairs[n, 0], pairs[n, 1], pairs[n, 2] = target[i], now[k], weight[begin]
                n += 1
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
