"""Places of jobs: the servers that each job is on with their kinds and tasks, compared and renamed."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.heap import heap_sort
from ray_sim.kernels.core.job_rows import Rows, differs, tasks_here


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
    """Servers that may be exchanged, (m,) each; `weigh_pairs` of `server_matching` takes them."""

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
