"""Placement rules: choose servers for a gang, given any matrix of free quanta.

A rule places every task of the gang or none, on servers that are there, and never changes ``free``. Ties
go to the lowest server index. Tasks without demand fit on every server that is there. The rules are listed
in docs/engine.md. S is the number of servers of the job's pool, q; the number R of resources is counted as
a constant.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, WORKER, Bool, WorldArrays
from ray_sim.kernels.core.devices import GPU, hold_devices
from ray_sim.kernels.core.queue_arrays import Scores, Scratch
from ray_sim.kernels.core.room import holds_all, room, task_room
from ray_sim.kernels.core.scored_placement import place_by_score
from ray_sim.kernels.core.server_scores import SCORED_RULES

POOLED, FIRST_FIT, CONSOLIDATE, SPREAD, LOAD_BALANCE = range(5)
RULE_NAMES = ("pooled", "first_fit", "consolidate", "spread", "load_balance")
QUEUE_RULES = (*RULE_NAMES, *SCORED_RULES)
"""Rules of queues: agents take those of `RULE_NAMES`, which need no target of typical tasks."""


@kernel
def _free_score(arrays: WorldArrays, free: I64, server: int, demand: I64, tasks: int) -> float:
    """Sum over demanded resources of what ``tasks`` tasks leave free, as shares of the largest server."""
    score = 0.0
    for r in range(len(arrays.weight)):
        if demand[r] > 0:
            score += (free[server, r] - tasks * demand[r]) * arrays.weight[r]
    return score


@kernel
def _load(arrays: WorldArrays, free: I64, server: int, demand: I64, tasks: int) -> float:
    """Sum over resources of the used share of a server with ``tasks`` tasks of the gang on it."""
    load = 0.0
    for r in range(len(arrays.weight)):
        offered = arrays.capacity[server, r]
        if offered > 0:
            load += (offered - free[server, r] + tasks * demand[r]) / offered
    return load


@kernel
def _fill_in_order(
    arrays: WorldArrays, q: int, tasks: int, demand: I64, free: I64, there: Bool, out: Scratch
) -> int:
    """Rule `pooled`, and `first_fit` of a gang too large for one server: fill servers by index; O(S)."""
    left, n = tasks, 0
    for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
        server = arrays.pool_servers[i]
        fit = room(free, server, demand, left) if there[server] else 0
        if fit > 0:
            out.server[n] = server
            out.tasks[n] = fit
            n += 1
            left -= fit
            if left == 0:
                return n
    return 0


@kernel
def _first_single(
    arrays: WorldArrays, q: int, tasks: int, demand: I64, free: I64, there: Bool, out: Scratch
) -> int:
    """Rule `first_fit`: the first server that holds the whole gang; O(S)."""
    for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
        server = arrays.pool_servers[i]
        if there[server] and holds_all(free, server, demand, tasks):
            out.server[0] = server
            out.tasks[0] = tasks
            return 1
    return 0


@kernel
def _best_single(
    arrays: WorldArrays, q: int, tasks: int, demand: I64, free: I64, there: Bool, out: Scratch, n: int
) -> int:
    """Rule `consolidate`: append the server that the tasks leave fullest, not among the first n rows.

    O(S), and O(n) for each new best server; a score of 0 cannot be beaten and ends the search.
    """
    best, best_score = -1, 0.0
    for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
        server = arrays.pool_servers[i]
        if not (there[server] and holds_all(free, server, demand, tasks)):
            continue
        score = _free_score(arrays, free, server, demand, tasks)
        if best >= 0 and score >= best_score:
            continue
        taken = False
        for k in range(n):
            taken = taken or out.server[k] == server
        if not taken:
            best, best_score = server, score
            if score == 0.0:
                break
    if best < 0:
        return 0
    out.server[n] = best
    out.tasks[n] = tasks
    return n + 1


@kernel
def _is_empty(arrays: WorldArrays, free: I64, there: Bool, server: int) -> bool:
    """Whether a server is there and nothing of its capacity is used."""
    if not there[server]:
        return False
    for r in range(arrays.capacity.shape[1]):
        if free[server, r] != arrays.capacity[server, r]:
            return False
    return True


@outlined
def _whole_servers(
    arrays: WorldArrays, q: int, tasks: int, demand: I64, empty: I64, free: I64, there: Bool, out: Scratch
) -> int:
    """Rule `consolidate` of a gang too large for one server: fill empty servers, largest first.

    The rest, smaller than any empty server that is left, goes to one best-fitting server. Invariant of the
    loop: all empty servers that hold ``below`` tasks or more are used or hold more than is left. Each pass
    handles one size, so the cost is O(S x sizes).
    """
    left, n, below = tasks, 0, tasks + 1
    while left > 0:
        size = 0
        for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
            server = arrays.pool_servers[i]
            fit = room(empty, server, demand, left + 1)
            if size < fit <= left and fit < below and _is_empty(arrays, free, there, server):
                size = fit
        if size == 0:  # no empty server can be filled with what is left
            return _sorted_rows(out, _best_single(arrays, q, left, demand, free, there, out, n))
        for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
            server = arrays.pool_servers[i]
            if (
                size <= left
                and room(empty, server, demand, size + 1) == size
                and _is_empty(arrays, free, there, server)
            ):
                out.server[n] = server
                out.tasks[n] = size
                n += 1
                left -= size
        below = size
    return _sorted_rows(out, n)


@kernel
def _sorted_rows(out: Scratch, n: int) -> int:
    """Insertion sort of the n rows by server; returns n. Rows come as few increasing runs."""
    for i in range(1, n):
        server, count = out.server[i], out.tasks[i]
        k = i
        while k > 0 and out.server[k - 1] > server:
            out.server[k] = out.server[k - 1]
            out.tasks[k] = out.tasks[k - 1]
            k -= 1
        out.server[k] = server
        out.tasks[k] = count
    return n


@outlined
def _one_by_one(
    arrays: WorldArrays, q: int, tasks: int, demand: I64, free: I64, there: Bool, out: Scratch, balance: bool
) -> int:
    """Rules `load_balance` and `spread`: place the tasks one by one; O(S x tasks).

    With ``balance`` a task goes to the server with the least load after it, as a sum of used shares. Else
    it goes to the server with the fewest tasks of this gang, of equals to the freest. The total room is
    checked first, so each task finds a server.
    """
    lo, hi = arrays.pool_ptr[q], arrays.pool_ptr[q + 1]
    fits = 0
    for i in range(lo, hi):
        server = arrays.pool_servers[i]
        fits += room(free, server, demand, tasks) if there[server] else 0
        out.tally[i - lo] = 0
    if fits < tasks:
        return 0
    for _ in range(tasks):
        best, best_tally, best_score = -1, 0, 0.0
        for i in range(lo, hi):
            server, tally = arrays.pool_servers[i], out.tally[i - lo]
            if not (there[server] and holds_all(free, server, demand, tally + 1)):
                continue
            if balance:
                tally = 0
                score = _load(arrays, free, server, demand, out.tally[i - lo])
            else:
                score = -_free_score(arrays, free, server, demand, out.tally[i - lo])
            if best < 0 or tally < best_tally or (tally == best_tally and score < best_score):
                best, best_tally, best_score = i - lo, tally, score
        out.tally[best] += 1
    n = 0
    for i in range(lo, hi):
        if out.tally[i - lo] > 0:
            out.server[n] = arrays.pool_servers[i]
            out.tasks[n] = out.tally[i - lo]
            n += 1
    return n


@kernel
def measure(arrays: WorldArrays, p: int, free: I64, most: I64) -> None:
    """Set ``most``, (2, R): largest free quanta of one server, and the sum over a partition; O(S)."""
    for r in range(most.shape[1]):
        most[0, r] = 0
        most[1, r] = 0
        for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
            quanta = free[arrays.pool_servers[i], r]
            if quanta > 0:
                most[1, r] += quanta
                most[0, r] = max(most[0, r], quanta)


@kernel
def in_pool(arrays: WorldArrays, q: int, server: int) -> bool:
    """Whether a server belongs to a pool; O(log S)."""
    lo, hi = arrays.pool_ptr[q], arrays.pool_ptr[q + 1]
    while lo < hi:
        middle = (lo + hi) // 2
        if arrays.pool_servers[middle] < server:
            lo = middle + 1
        else:
            hi = middle
    return bool(lo < arrays.pool_ptr[q + 1] and arrays.pool_servers[lo] == server)


@kernel
def unit_pool(arrays: WorldArrays, job: int) -> int:
    """Return the pool of a gang placed as one unit: its roles' smallest, which lies within the others."""
    pools = arrays.class_pool[arrays.job_class[job]]
    best = pools[WORKER]
    for q in pools[1:]:
        if arrays.pool_ptr[q + 1] - arrays.pool_ptr[q] < arrays.pool_ptr[best + 1] - arrays.pool_ptr[best]:
            best = q
    return int(best)


@kernel
def meets(arrays: WorldArrays, c: int, other: int) -> bool:
    """Whether jobs of two classes may use the same server."""
    for q in arrays.class_pool[c]:
        for of_other in arrays.class_pool[other]:
            if arrays.pool_meets[q, of_other]:
                return True
    return False


@kernel
def gang_total(arrays: WorldArrays, job: int, total: I64) -> None:
    """Set ``total``, (R,), to the quanta of all tasks of the gang."""
    for r in range(len(total)):
        total[r] = 0
        for role in range(arrays.gang.shape[1]):
            total[r] += arrays.gang[job, role] * arrays.demand[job, role, r]


@kernel
def may_fit(rule: int, arrays: WorldArrays, job: int, most: I64) -> bool:
    """Necessary condition for a placement, in O(R): False only if the gang cannot be placed.

    ``most`` (`measure`) may date from before other placements: they only reduce what is free.
    """
    on_one = arrays.class_single[arrays.job_class[job]] and (rule == FIRST_FIT or rule == CONSOLIDATE)
    for r in range(most.shape[1]):
        gang, largest = 0, 0
        for role in range(arrays.gang.shape[1]):
            if arrays.gang[job, role] > 0:
                gang += arrays.gang[job, role] * arrays.demand[job, role, r]
                largest = max(largest, arrays.demand[job, role, r])
        if gang > most[1, r] or (gang if on_one else largest) > most[0, r]:
            return False
    return True


@kernel
def _place_tasks(
    rule: int,
    arrays: WorldArrays,
    q: int,
    tasks: int,
    demand: I64,
    single: bool,
    empty: I64,
    free: I64,
    there: Bool,
    out: Scratch,
) -> int:
    """Place identical tasks by the rule; ``single`` says whether one empty server holds all of them.

    ``empty`` is what is ``free`` on empty servers.
    """
    if rule == FIRST_FIT and single:
        return _first_single(arrays, q, tasks, demand, free, there, out)
    if rule == CONSOLIDATE:
        if single:
            return _best_single(arrays, q, tasks, demand, free, there, out, 0)
        return _whole_servers(arrays, q, tasks, demand, empty, free, there, out)
    if rule == SPREAD or rule == LOAD_BALANCE:
        return _one_by_one(arrays, q, tasks, demand, free, there, out, rule == LOAD_BALANCE)
    return _fill_in_order(arrays, q, tasks, demand, free, there, out)


@outlined
def _place_roles(
    rule: int, arrays: WorldArrays, job: int, free: I64, there: Bool, out: Scratch, scores: Scores | None
) -> int:
    """Place a gang of workers and parameter servers.

    Under `first_fit` and `consolidate` a gang that fits on one empty server is placed as one task with the
    total demand. Else workers are placed first, then parameter servers in the room that is left
    (``out.rest``), by index order under `pooled`, `first_fit` and `consolidate`.
    """
    p, pools = arrays.job_part[job], arrays.class_pool[arrays.job_class[job]]
    if arrays.class_single[arrays.job_class[job]] and (rule == FIRST_FIT or rule == CONSOLIDATE):
        gang_total(arrays, job, out.total)
        q, capacity = unit_pool(arrays, job), arrays.capacity
        n = _place_tasks(rule, arrays, q, 1, out.total, True, capacity, free, there, out)
        return 0 if n == 0 else _rows_of_one(arrays, job, out)
    for role in range(arrays.gang.shape[1]):
        tasks, demand = arrays.gang[job, role], arrays.demand[job, role]
        for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
            out.by_role[role, arrays.pool_servers[i]] = 0
        if tasks == 0:
            continue
        left = free if role == 0 else out.rest
        of_role = rule if role == 0 or rule >= SPREAD else POOLED
        if scores is not None and of_role > LOAD_BALANCE:
            n = place_by_score(of_role, arrays, pools[role], job, role, tasks, left, there, out, scores)
        else:
            q, capacity = pools[role], arrays.capacity
            n = _place_tasks(of_role, arrays, q, tasks, demand, False, capacity, left, there, out)
        if n == 0:
            return 0
        if role == 0:
            for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
                for r in range(free.shape[1]):
                    out.rest[arrays.pool_servers[i], r] = free[arrays.pool_servers[i], r]
        for k in range(n):
            out.by_role[role, out.server[k]] = out.tasks[k]
            for r in range(free.shape[1]):
                out.rest[out.server[k], r] -= out.tasks[k] * demand[r]
    return _rows_by_server(arrays, p, out)


@kernel
def _rows_of_one(arrays: WorldArrays, job: int, out: Scratch) -> int:
    """Write one row per role, all on the server of row 0; return their number."""
    server, n = out.server[0], 0
    for role in range(arrays.gang.shape[1]):
        if arrays.gang[job, role] > 0:
            out.server[n], out.role[n], out.tasks[n] = server, role, arrays.gang[job, role]
            n += 1
    return n


@kernel
def _rows_by_server(arrays: WorldArrays, p: int, out: Scratch) -> int:
    """Write the rows of ``out.by_role`` in server and role order; return their number."""
    n = 0
    for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
        server = arrays.pool_servers[i]
        for role in range(out.by_role.shape[0]):
            if out.by_role[role, server] > 0:
                out.server[n], out.role[n], out.tasks[n] = server, role, out.by_role[role, server]
                n += 1
    return n


@kernel
def place(rule: int, arrays: WorldArrays, job: int, free: I64, there: Bool, out: Scratch) -> int:
    """Place a gang; returns the number of rows written to ``out``, 0 if it does not fit.

    Rows are in server and role order. O(S) for a gang that stays on one server, O(S x tasks) at most.
    """
    return _place(rule, arrays, job, free, there, out, out.scores, arrays.class_types, arrays.class_fits)


@kernel
def _place(
    rule: int,
    arrays: WorldArrays,
    job: int,
    free: I64,
    there: Bool,
    out: Scratch,
    scores: Scores | None,
    types: I64 | None,
    fits: I64 | None,
) -> int:
    """`place`; an argument that is None leaves its branches out of the compiled code."""
    if arrays.gang.shape[1] > 1:
        return _place_roles(rule, arrays, job, free, there, out, scores)
    c, tasks = arrays.job_class[job], arrays.gang[job, WORKER]
    single, q, demand = arrays.class_single[c], arrays.class_pool[c, WORKER], arrays.demand[job, WORKER]
    if types is not None and fits is not None:
        return _place_by_type(rule, arrays, types, fits, job, free, there, out, scores)
    if scores is not None:
        if rule > LOAD_BALANCE:
            return place_by_score(rule, arrays, q, job, WORKER, tasks, free, there, out, scores)
        if free.shape[1] > len(demand):
            return _place_on_devices(rule, arrays, q, tasks, demand, single, free, there, out, scores)
    return _place_tasks(rule, arrays, q, tasks, demand, single, arrays.capacity, free, there, out)


@outlined
def _place_by_type(
    rule: int,
    arrays: WorldArrays,
    types: I64,
    fits: I64,
    job: int,
    free: I64,
    there: Bool,
    out: Scratch,
    scores: Scores | None,
) -> int:
    """Place a gang on GPUs of the first type with room; ``types`` and ``fits`` are those of `WorldArrays`."""
    c, tasks, demand = arrays.job_class[job], arrays.gang[job, WORKER], arrays.demand[job, WORKER]
    for k in range(types.shape[1]):
        q = types[c, k]
        if q < 0:
            break
        of_type = FIRST_FIT if fits[c, k] == 2 and rule != CONSOLIDATE else rule
        if scores is not None and of_type > LOAD_BALANCE:
            n = place_by_score(rule, arrays, q, job, WORKER, tasks, free, there, out, scores)
        else:
            n = _place_tasks(
                of_type, arrays, q, tasks, demand, fits[c, k] > 0, arrays.capacity, free, there, out
            )
        if n > 0:
            return n
    return 0


@outlined
def _place_on_devices(
    rule: int,
    arrays: WorldArrays,
    q: int,
    tasks: int,
    demand: I64,
    single: bool,
    free: I64,
    there: Bool,
    out: Scratch,
    scores: Scores,
) -> int:
    """Place tasks by the rule where devices have room for them, and choose their devices; O(S D) more.

    The tasks for which the devices of a server have room stand for one more resource, of which a task takes
    one, so that the loops of the rules need not know devices.
    """
    resources, room_here = len(demand), scores.of_devices
    for r in range(resources):
        room_here.demand[r] = demand[r]
    room_here.demand[resources] = 1 if demand[GPU] > 0 else 0
    for server in arrays.pool_servers[arrays.pool_ptr[q] : arrays.pool_ptr[q + 1]]:
        for r in range(resources):
            room_here.free[server, r] = free[server, r]
            room_here.empty[server, r] = arrays.empty[server, r]
        room_here.free[server, resources] = task_room(free, server, demand, tasks + 1)
        room_here.empty[server, resources] = task_room(arrays.empty, server, demand, tasks + 1)
    n = _place_tasks(
        rule, arrays, q, tasks, room_here.demand, single, room_here.empty, room_here.free, there, out
    )
    for k in range(n):
        hold_devices(free, out.server[k], demand[GPU], out.tasks[k], None, 0, out.device, k)
    return n
