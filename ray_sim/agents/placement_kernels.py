"""Placing new jobs task by task: the rows shown, the valid actions, and the decision that results.

Tasks are placed in a copy of the free quanta, and jobs enter the decision when they are complete. Rows shown
are new jobs of one batch first, then jobs that hold servers; new jobs come in batches in order of submission.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    F32,
    F64,
    I8,
    I64,
    PARAMETER_SERVER,
    WORKER,
    Changes,
    Pool,
    WorldArrays,
)
from ray_sim.kernels.core.placement import in_pool
from ray_sim.kernels.core.queue_dispatch import copy_matrix

NEXT, NEW, SHOWN, LATER, COMPLETE, TAKEN_BACK = range(6)
"""Entries of `Board.tally`."""


class Board(NamedTuple):
    """Arrays of one decision: N rows of jobs, N' of them for new jobs, S servers, R resources, L types."""

    arrays: WorldArrays
    pool: Pool
    type_of: I64
    """(J,) column of `kind` of each job, -1 for none."""
    unit: F64
    """(R,) value shown for one quantum."""
    free: I64
    """(S, R) quanta that are left."""
    job: I64
    """(N,) job of each row, -1 of a padded one."""
    tally: I64
    """(6,) end of the batch in ``waiting``; new jobs; rows shown; waiting jobs after the batch; jobs of the
    batch that were completed, and that lost their tasks again, when it was closed."""
    tasks: I64
    """(N', 2, S) tasks placed of each new job."""
    left: I64
    """(N', 2) tasks not yet placed."""
    mask: I8
    """(N' x 2 x S,) 1 where an action is valid: ((row x 2 + role) x S + server)."""
    kind: F32
    """(N, L) one-hot type."""
    demands: F32
    """(N, 2 (1 + R)) workers, demand of each, parameter servers, demand of each."""
    workers: F32
    """(N,) placed so far."""
    ps: F32
    """(N,) placed so far."""
    free_shown: F32
    """(S, R)."""
    placement: F32
    """(S, 2 N) workers and parameter servers of each row on each server."""
    hidden: F32
    """(2,) waiting and running jobs that are not shown."""
    changes: Changes
    """Complete jobs so far."""


@kernel
def begin_placing(board: Board) -> None:
    """Begin a decision: nothing is placed yet; O(S R)."""
    copy_matrix(board.pool.free, board.free)
    board.changes.size[0] = 0
    board.tally[NEXT] = 0


@kernel
def _fits(board: Board, job: int, role: int, server: int) -> bool:
    """Whether a server that the role may use is there and has room for one task."""
    arrays = board.arrays
    if arrays.server_part[server] != arrays.job_part[job] or not board.pool.there[server]:
        return False
    for r in range(board.free.shape[1]):
        if board.free[server, r] < arrays.demand[job, role, r]:
            return False
    return in_pool(arrays, arrays.class_pool[arrays.job_class[job], role], server)


@kernel
def _find_valid(board: Board) -> bool:
    """Set `mask` for the new jobs of the batch; return whether any action is valid. O(N' S R)."""
    servers, found = board.free.shape[0], False
    board.mask[:] = 0
    for row in range(board.tally[NEW]):
        for role in range(2):
            if board.left[row, role] > 0:
                for server in range(servers):
                    if _fits(board, board.job[row], role, server):
                        board.mask[(row * 2 + role) * servers + server] = 1
                        found = True
    return found


@kernel
def show_batch(board: Board, waiting: I64, running: I64) -> bool:
    """Show the next batch of ``waiting`` jobs; return whether it has a valid action.

    Jobs placed in this decision are shown after the new ones, then ``running`` jobs. Without a valid action
    nothing is shown. O(N' S R + N (L + R + S) + rows of placements).
    """
    roles, first = board.arrays.gang.shape[1], board.tally[NEXT]
    board.tally[NEW] = min(len(board.left), len(waiting) - first)
    board.tally[NEXT] = first + board.tally[NEW]
    for row in range(board.tally[NEW]):
        job = waiting[first + row]
        board.job[row] = job
        for role in range(2):
            board.left[row, role] = board.arrays.gang[job, role] if role < roles else 0
    found = _find_valid(board)
    if found:
        _show(board, waiting, running)
    return found


@kernel
def _show(board: Board, waiting: I64, running: I64) -> None:
    """Fill the rows and the matrices shown; O(N (L + R + S) + rows of placements)."""
    rows, arrays, count = len(board.job), board.arrays, board.tally
    n = count[NEW]
    for row in range(n):
        for role in range(2):
            for server in range(len(board.free)):
                board.tasks[row, role, server] = 0
    for i in range(board.changes.size[0]):
        if n < rows:
            board.job[n] = board.changes.job[i]
            n += 1
    for i in range(len(running)):
        if n < rows:
            board.job[n] = running[i]
            n += 1
    count[SHOWN] = n
    count[LATER] = len(waiting) - count[NEXT]
    board.hidden[0] = count[LATER]
    board.hidden[1] = count[NEW] + board.changes.size[0] + len(running) - n
    board.kind[:] = 0.0
    board.demands[:] = 0.0
    board.workers[:] = 0.0
    board.ps[:] = 0.0
    board.placement[:] = 0.0
    for row in range(n, rows):
        board.job[row] = -1
    for row in range(n):
        job = board.job[row]
        if board.type_of[job] >= 0:
            board.kind[row, board.type_of[job]] = 1.0
        _show_demands(board, row, job)
        held = board.pool.head[job]
        while held >= 0:
            _count_tasks(
                board, row, board.pool.row_role[held], board.pool.row_server[held], board.pool.row_count[held]
            )
            held = board.pool.row_next[held]
    for i in range(min(board.changes.size[0], max(rows - count[NEW], 0))):
        for k in range(board.changes.ptr[i], board.changes.ptr[i + 1]):
            changes = board.changes
            _count_tasks(board, count[NEW] + i, changes.role[k], changes.server[k], changes.tasks[k])
    for server in range(arrays.capacity.shape[0]):
        _show_free(board, server)


@kernel
def _show_demands(board: Board, row: int, job: int) -> None:
    """Show the numbers of tasks that a job asks for, and what each demands."""
    arrays = board.arrays
    resources = arrays.demand.shape[2]
    for role in range(arrays.gang.shape[1]):
        start = role * (1 + resources)
        board.demands[row, start] = arrays.gang[job, role]
        if arrays.gang[job, role] > 0:
            for r in range(resources):
                board.demands[row, start + 1 + r] = arrays.demand[job, role, r] * board.unit[r]


@kernel
def _count_tasks(board: Board, row: int, role: int, server: int, tasks: int) -> None:
    """Add tasks of a job to what is shown."""
    board.placement[server, 2 * row + role] += tasks
    if role == WORKER:
        board.workers[row] += tasks
    else:
        board.ps[row] += tasks


@kernel
def _show_free(board: Board, server: int) -> None:
    for r in range(board.free.shape[1]):
        board.free_shown[server, r] = board.free[server, r] * board.unit[r]


@kernel
def place_task(board: Board, row: int, role: int, server: int) -> bool:
    """Place one task, which must be valid; return whether another action is. O(N' (R + S))."""
    job, servers = board.job[row], board.free.shape[0]
    for r in range(board.free.shape[1]):
        board.free[server, r] -= board.arrays.demand[job, role, r]
    board.tasks[row, role, server] += 1
    board.left[row, role] -= 1
    _count_tasks(board, row, role, server, 1)
    _show_free(board, server)
    if board.left[row, role] == 0:
        for each in range(servers):
            board.mask[(row * 2 + role) * servers + each] = 0
    for other in range(board.tally[NEW]):
        for of in (WORKER, PARAMETER_SERVER):
            at = (other * 2 + of) * servers + server
            if board.mask[at] == 1 and not _fits(board, board.job[other], of, server):
                board.mask[at] = 0
    for at in range(board.tally[NEW] * 2 * servers):
        if board.mask[at] == 1:
            return True
    return False


@kernel
def close_batch(board: Board) -> None:
    """Commit complete jobs of the batch and take back the tasks of the others, which go on to wait."""
    arrays, changes = board.arrays, board.changes
    board.tally[COMPLETE], board.tally[TAKEN_BACK] = 0, 0
    for row in range(board.tally[NEW]):
        job = board.job[row]
        if board.left[row, WORKER] == 0 and board.left[row, PARAMETER_SERVER] == 0:
            i = changes.size[0]
            n = changes.ptr[i]
            for server in range(len(board.free)):
                for role in range(arrays.gang.shape[1]):
                    if board.tasks[row, role, server] > 0:
                        changes.server[n], changes.role[n] = server, role
                        changes.tasks[n] = board.tasks[row, role, server]
                        n += 1
            changes.job[i] = job
            changes.ptr[i + 1] = n
            changes.size[0] = i + 1
            board.tally[COMPLETE] += 1
            continue
        begun = False
        for server in range(len(board.free)):
            for role in range(arrays.gang.shape[1]):
                tasks = board.tasks[row, role, server]
                if tasks > 0:
                    begun = True
                    for r in range(board.free.shape[1]):
                        board.free[server, r] += tasks * arrays.demand[job, role, r]
        if begun:
            board.tally[TAKEN_BACK] += 1
