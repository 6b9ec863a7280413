"""The placement rules of `server_scores` for gangs: task by task, each on the server of the largest score.

`ray_sim.kernels.core.placement` calls `place_by_score`, `ray_sim.kernels.core.queue_dispatch` the functions
that keep the tags of running tasks.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, Bool, Pool, WorldArrays
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.fragmentation import note_arrivals
from ray_sim.kernels.core.queue_arrays import Scores, Scratch
from ray_sim.kernels.core.room import task_room
from ray_sim.kernels.core.server_scores import (
    FGD,
    GPU_CLUSTERING,
    Ask,
    choose_device,
    choose_server,
    take_devices,
)
from ray_sim.kernels.planning.random_bits import substate

CPU_COLUMN, GPU_COLUMN = range(2)
"""Places in `Scoring.column`."""


@kernel
def _ask(arrays: WorldArrays, job: int, role: int, scores: Scores) -> Ask:
    """Return what one task of a role asks for."""
    demand, column = arrays.demand[job, role], scores.scoring.column
    cpu = demand[column[CPU_COLUMN]] if column[CPU_COLUMN] >= 0 else 0
    gpu = demand[column[GPU_COLUMN]] if column[GPU_COLUMN] >= 0 else 0
    task = arrays.job_class[job] * arrays.gang.shape[1] + role
    return Ask(task, cpu, min(gpu, DEVICE), (gpu + DEVICE - 1) // DEVICE)


@kernel
def show_free(free: I64, server: int, resources: int, scores: Scores) -> None:
    """Write what is free on a server into the book; without devices all GPUs are free or taken as a whole."""
    book, column = scores.book, scores.scoring.column
    book.cpu[server] = free[server, column[CPU_COLUMN]] if column[CPU_COLUMN] >= 0 else 0
    whole = free[server, column[GPU_COLUMN]] // DEVICE if column[GPU_COLUMN] >= 0 else 0
    for d in range(book.device.shape[1]):
        if free.shape[1] > resources:
            book.device[server, d] = free[server, resources + d]
        else:
            book.device[server, d] = DEVICE if d < whole else 0


@kernel
def _choose(
    rule: int,
    arrays: WorldArrays,
    q: int,
    job: int,
    role: int,
    number: int,
    free: I64,
    there: Bool,
    scores: Scores,
) -> tuple[int, int]:
    """Return server and device of one task of a gang; (-1, -1) if no server holds it; O(S)."""
    book, demand = scores.book, arrays.demand[job, role]
    pool = arrays.pool_servers[arrays.pool_ptr[q] : arrays.pool_ptr[q + 1]]
    for server in pool:
        book.holds[server] = there[server] and task_room(free, server, demand, 1) == 1
        if book.holds[server]:
            show_free(free, server, len(demand), scores)
    state = substate(substate(substate(book.state[0], job), scores.tries[job]), number)
    ask = _ask(arrays, job, role, scores)
    server = choose_server(rule, scores.scoring, pool, ask, state, book)
    if server < 0:
        return -1, -1
    return server, choose_device(rule, scores.scoring, server, ask, state, book)


@outlined
def place_by_score(
    rule: int,
    arrays: WorldArrays,
    q: int,
    job: int,
    role: int,
    tasks: int,
    free: I64,
    there: Bool,
    out: Scratch,
    scores: Scores,
) -> int:
    """Place identical tasks one by one; rows with devices as `placement.place`; O(S x tasks)."""
    lo, hi = arrays.pool_ptr[q], arrays.pool_ptr[q + 1]
    rest, resources = scores.book.rest, arrays.demand.shape[2]
    ask = _ask(arrays, job, role, scores)
    for i in range(lo, hi):
        server = arrays.pool_servers[i]
        out.tally[server] = 0
        for r in range(free.shape[1]):
            rest[server, r] = free[server, r]
    found = 0
    while found < tasks:
        server, device = _choose(rule, arrays, q, job, role, found, rest, there, scores)
        if server < 0:
            break
        out.tally[server] += 1
        for r in range(resources):
            rest[server, r] -= arrays.demand[job, role, r]
        if free.shape[1] > resources:
            take_devices(rest[server, resources:], ask.gpu, ask.gpus, device)
        _add_tag(rule, arrays, job, role, server, 1, scores)
        found += 1
    n = 0
    for i in range(lo, hi):
        server = arrays.pool_servers[i]
        count = out.tally[server]
        if count == 0:
            continue
        _add_tag(rule, arrays, job, role, server, -count, scores)  # they do not run yet
        if found == tasks:
            out.server[n], out.tasks[n] = server, count
            _note_devices(free, rest, server, out.device, n)
            n += 1
    return n


@kernel
def _note_devices(free: I64, rest: I64, server: int, device: I64 | None, row: int) -> None:
    """Set a row of ``device`` to what is taken of each device of a server, where there are devices."""
    if device is not None:
        first = free.shape[1] - device.shape[1]
        for d in range(device.shape[1]):
            device[row, d] = free[server, first + d] - rest[server, first + d]


@kernel
def _add_tag(
    rule: int, arrays: WorldArrays, job: int, role: int, server: int, tasks: int, scores: Scores
) -> None:
    """Add tasks of a role with GPUs to the tags of a server, for the rule that heeds them.

    The tag of a task is the number of its GPUs, 0 of a share, at most that of the largest server.
    """
    column = scores.scoring.column[GPU_COLUMN]
    if rule == GPU_CLUSTERING and column >= 0 and arrays.demand[job, role, column] > 0:
        most = scores.book.tags.shape[1] - 1
        scores.book.tags[server, min(arrays.demand[job, role, column] // DEVICE, most)] += tasks


@kernel
def _add_tags(rule: int, arrays: WorldArrays, pool: Pool, job: int, sign: int, scores: Scores) -> None:
    """Add the tasks that a job holds to the tags of their servers, or subtract them with ``sign`` -1."""
    row = pool.head[job]
    while row >= 0:
        tasks = sign * pool.row_count[row]
        _add_tag(rule, arrays, job, pool.row_role[row], pool.row_server[row], tasks, scores)
        row = pool.row_next[row]


@kernel
def begin_scores(
    rule: int, now: int, arrays: WorldArrays, pool: Pool, running: I64, n_running: int, scores: Scores | None
) -> None:
    """Begin a dispatch: count arrivals for the target, and the first ``n_running`` jobs' tasks by tag.

    Each if the rule heeds them. O(rows), and O(S) where jobs have come.
    """
    if scores is not None and rule == FGD:
        scoring = scores.scoring
        if note_arrivals(scoring.target, scoring.arrivals, arrays.submit, now):
            scores.book.seen[:, 0] = -1  # another target: no score holds
    if scores is not None and rule == GPU_CLUSTERING:
        scores.book.tags[:] = 0
        for job in running[:n_running]:
            _add_tags(rule, arrays, pool, job, 1, scores)


@kernel
def add_started(
    rule: int, arrays: WorldArrays, job: int, out: Scratch, n: int, scores: Scores | None
) -> None:
    """Count the tasks of the n rows of a placement among those that run."""
    if scores is not None and rule == GPU_CLUSTERING:
        for k in range(n):
            _add_tag(rule, arrays, job, out.role[k], out.server[k], out.tasks[k], scores)


@kernel
def drop_running(rule: int, arrays: WorldArrays, pool: Pool, job: int, scores: Scores | None) -> None:
    """Count the tasks of a job that loses its place no longer."""
    if scores is not None and rule == GPU_CLUSTERING:
        _add_tags(rule, arrays, pool, job, -1, scores)
