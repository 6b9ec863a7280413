"""Jobs by server: who stands where, what they ask of each server's channels, and how they slow each other.

Each running job has one entry per server that it holds tasks on; an entry is linked to the next of its job
and to its neighbours on the server. Loads are whole parts, so that adding and taking them away leaves no
rounding error, and a load does not depend on the order in which jobs came. Invariant between calls: `load`
and `sharing` are those of the entries, and `links` follows from them. docs/models/interference.md has the
formulas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, WORKER, Bool, Pool, empty
from ray_sim.kernels.core.job_rows import Held

PARTS = 10**9
"""Parts of a channel's capacity."""

MOST_PARTS = 2.0**62
"""Largest load of a channel, far from where sums of 64 bits end."""


class Colocation(NamedTuple):
    """Entries and loads of a run: J jobs, S servers, L types of jobs, Q channels."""

    job_type: I64
    """(J,) row in the tables of types."""
    worker_load: I64
    """(L, Q) parts that a worker asks of each channel."""
    ps_load: I64
    """(L, Q) the same of a parameter server."""
    sensitivity: F64
    """(L, Q) slowdown where others ask for all of a channel, >= 0."""
    own_tasks: I64
    """(1,) tasks of a role on one server that do not slow their own job; further ones do."""
    present: Bool
    """(S, Q) whether the server has the channel."""
    load: I64
    """(S, Q) parts that all jobs ask for."""
    excess: I64
    """(2,) server and channel of which tasks have asked for more than `MOST_PARTS`; -1 before."""
    sharing: I64
    """(S,) jobs with tasks here and on other servers, which use the network interface."""
    shares: Bool
    """(1,) whether they share it: else each job has its full bandwidth."""
    bandwidth: F64
    """(S,) share of the nominal bandwidth that the interface has now, above 0, at most 1."""
    links: F64
    """(S,) how many times as long as nominal a transfer over the interface takes, >= 1."""
    entry_job: I64
    entry_server: I64
    entry_workers: I64
    entry_ps: I64
    next_of_job: I64
    """Next entry of the job; of a spare entry the next spare one. -1 at the end, as below."""
    next_here: I64
    previous_here: I64
    job_head: I64
    """(J,)"""
    server_head: I64
    """(S,)"""
    top: I64
    """(2,) first spare entry, number of entries ever used."""
    job_mark: I64
    """(J,) call in which the job was last seen."""
    server_mark: I64
    """(S,) call in which the server was last touched."""
    touched: I64
    """(S,) work space: servers that a call touches."""
    calls: I64
    """(1,)"""


def new_colocation(
    job_type: I64,
    worker_load: I64,
    ps_load: I64,
    sensitivity: F64,
    own_tasks: int,
    present: Bool,
    rows: int,
    shares: bool,
) -> Colocation:
    """Return an index without entries, with room for ``rows`` of them; see `Colocation` for the rest."""
    jobs, servers = len(job_type), len(present)
    return Colocation(
        job_type=job_type,
        worker_load=worker_load,
        ps_load=ps_load,
        sensitivity=sensitivity,
        own_tasks=np.array([own_tasks]),
        present=present,
        load=np.zeros(present.shape, dtype=np.int64),
        excess=empty(2, -1),
        sharing=empty(servers),
        shares=np.array([shares]),
        bandwidth=np.ones(servers),
        links=np.ones(servers),
        entry_job=np.empty(rows, dtype=np.int64),
        entry_server=np.empty(rows, dtype=np.int64),
        entry_workers=np.empty(rows, dtype=np.int64),
        entry_ps=np.empty(rows, dtype=np.int64),
        next_of_job=np.empty(rows, dtype=np.int64),
        next_here=np.empty(rows, dtype=np.int64),
        previous_here=np.empty(rows, dtype=np.int64),
        job_head=empty(jobs, -1),
        server_head=empty(servers, -1),
        top=np.array([-1, 0]),
        job_mark=empty(jobs),
        server_mark=empty(servers),
        touched=np.empty(servers, dtype=np.int64),
        calls=empty(1),
    )


@kernel
def _touch(at: Colocation, server: int, n: int) -> int:
    """Note a touched server once in a call; return the number of those noted."""
    if at.server_mark[server] == at.calls[0]:
        return n
    at.server_mark[server] = at.calls[0]
    at.touched[n] = server
    return n + 1


@kernel
def _count(at: Colocation, entry: int, sign: int) -> None:
    """Add what an entry asks for to the load of its server, or take it away."""
    server, of_type = at.entry_server[entry], at.job_type[at.entry_job[entry]]
    workers, ps = sign * at.entry_workers[entry], sign * at.entry_ps[entry]
    for q in range(at.load.shape[1]):
        asked = float(workers) * at.worker_load[of_type, q] + float(ps) * at.ps_load[of_type, q]
        if at.load[server, q] + asked > MOST_PARTS:
            at.excess[0], at.excess[1] = server, q
        at.load[server, q] += workers * at.worker_load[of_type, q] + ps * at.ps_load[of_type, q]


@kernel
def _share(at: Colocation, job: int, sign: int) -> None:
    """Count a job among those that use the interfaces of its servers, if it stands on several."""
    entry = at.job_head[job]
    if entry < 0 or at.next_of_job[entry] < 0:
        return
    while entry >= 0:
        at.sharing[at.entry_server[entry]] += sign
        entry = at.next_of_job[entry]


@kernel
def _leave(at: Colocation, job: int, n: int) -> int:
    """Remove the entries of a job; return the number of servers touched so far."""
    _share(at, job, -1)
    entry = at.job_head[job]
    while entry >= 0:
        _count(at, entry, -1)
        server, before, after = at.entry_server[entry], at.previous_here[entry], at.next_here[entry]
        n = _touch(at, server, n)
        if before >= 0:
            at.next_here[before] = after
        else:
            at.server_head[server] = after
        if after >= 0:
            at.previous_here[after] = before
        following = at.next_of_job[entry]
        at.next_of_job[entry] = at.top[0]
        at.top[0] = entry
        entry = following
    at.job_head[job] = -1
    return n


@kernel
def _new_entry(at: Colocation, job: int, server: int) -> int:
    """Link an entry without tasks to the front of the lists of its job and its server."""
    entry = at.top[0]
    if entry >= 0:
        at.top[0] = at.next_of_job[entry]
    else:
        entry = at.top[1]
        at.top[1] = entry + 1
    at.entry_job[entry], at.entry_server[entry] = job, server
    at.entry_workers[entry] = at.entry_ps[entry] = 0
    at.next_of_job[entry] = at.job_head[job]
    at.job_head[job] = entry
    first = at.server_head[server]
    at.next_here[entry], at.previous_here[entry] = first, -1
    if first >= 0:
        at.previous_here[first] = entry
    at.server_head[server] = entry
    return entry


@kernel
def _enter(at: Colocation, pool: Pool, job: int, n: int) -> int:
    """Add the entries of a job from its rows, sorted by server; return the servers touched so far."""
    row, entry = pool.head[job], -1
    while row >= 0:
        if pool.row_count[row] > 0:
            server = pool.row_server[row]
            if entry < 0 or at.entry_server[entry] != server:
                entry = _new_entry(at, job, server)
                n = _touch(at, server, n)
            if pool.row_role[row] == WORKER:
                at.entry_workers[entry] += pool.row_count[row]
            else:
                at.entry_ps[entry] += pool.row_count[row]
        row = pool.row_next[row]
    entry = at.job_head[job]
    while entry >= 0:
        _count(at, entry, 1)
        entry = at.next_of_job[entry]
    _share(at, job, 1)
    return n


@kernel
def _set_link(at: Colocation, server: int) -> None:
    """Set how long transfers over a server's interface take; sharers get equal parts of its bandwidth."""
    sharers = max(at.sharing[server], 1) if at.shares[0] else 1
    at.links[server] = sharers / at.bandwidth[server]


@kernel
def _others_here(at: Colocation, server: int, others: I64, n: int) -> int:
    """Append the jobs on a server that this call has not seen yet; return the number of others."""
    entry = at.server_head[server]
    while entry >= 0:
        job = at.entry_job[entry]
        if at.job_mark[job] != at.calls[0]:
            at.job_mark[job] = at.calls[0]
            others[n] = job
            n += 1
        entry = at.next_here[entry]
    return n


@kernel
def note_changes(at: Colocation, held: Held, jobs: I64, others: I64) -> int:
    """Enter what ``jobs`` hold now in place of what they held.

    ``others``, (J,), gets the other jobs on servers that any of them left or came to, in no order; the result
    is their number. O(rows of ``jobs`` x Q + entries on those servers).
    """
    at.calls[0] += 1
    touched = 0
    for job in jobs:
        at.job_mark[job] = at.calls[0]
        touched = _leave(at, job, touched)
    for job in jobs:
        touched = _enter(at, held.pool, job, touched)
    n = 0
    for server in at.touched[:touched]:
        _set_link(at, server)
        n = _others_here(at, server, others, n)
    return n


@kernel
def change_bandwidth(at: Colocation, servers: I64, bandwidth: F64, others: I64) -> int:
    """Set the bandwidth of ``servers``; ``others`` gets the jobs there, the result is their number."""
    at.calls[0] += 1
    n = 0
    for i in range(len(servers)):
        at.bandwidth[servers[i]] = bandwidth[i]
        _set_link(at, servers[i])
        n = _others_here(at, servers[i], others, n)
    return n


@kernel
def slowdown_here(
    load: I64,
    present: Bool,
    worker_load: I64,
    ps_load: I64,
    sensitivity: F64,
    own_tasks: I64,
    server: int,
    of_type: int,
    workers: int,
    ps: int,
) -> float:
    """Return by what factor others on a server slow a job of a type with these tasks there; O(Q).

    It is 1 plus, over all channels, sensitivity times the share of the channel that others ask for. The
    arrays are those of `Colocation`.
    """
    here = 1.0
    for q in range(load.shape[1]):
        own = min(workers, own_tasks[0]) * worker_load[of_type, q]
        own += min(ps, own_tasks[0]) * ps_load[of_type, q]
        if present[server, q]:
            here += sensitivity[of_type, q] * ((load[server, q] - own) / PARTS)
    return here


@kernel
def slowdown(at: Colocation, job: int) -> float:
    """Return by what factor others slow a job: the largest over its servers, as tasks wait for each other."""
    worst, of_type = 1.0, at.job_type[job]
    entry = at.job_head[job]
    while entry >= 0:
        here = slowdown_here(
            at.load,
            at.present,
            at.worker_load,
            at.ps_load,
            at.sensitivity,
            at.own_tasks,
            at.entry_server[entry],
            of_type,
            at.entry_workers[entry],
            at.entry_ps[entry],
        )
        worst = max(worst, here)
        entry = at.next_of_job[entry]
    return worst


@kernel
def slow_rates(at: Colocation, jobs: I64, alone: F64, factors: F64, rates: F64) -> None:
    """Set ``rates``, (n,), to ``alone`` over the `slowdown` of each job; keep it in ``factors``, (J,)."""
    for i in range(len(jobs)):
        factors[jobs[i]] = slowdown(at, jobs[i])
        rates[i] = alone[i] / factors[jobs[i]]
