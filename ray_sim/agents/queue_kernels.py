"""Starting waiting jobs one by one: the rows shown, the jobs that fit, and the decision that results."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F32, F64, I8, I64, Changes, Pool, WorldArrays
from ray_sim.kernels.core.placement import place
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.kernels.core.queue_dispatch import add_change, copy_matrix, take_rows


class QueueBoard(NamedTuple):
    """Arrays of one decision: K rows of waiting jobs, S servers, R resources."""

    arrays: WorldArrays
    pool: Pool
    scratch: Scratch
    verdict: I64
    """(C,) why the placement rule can never place a job of a class, 0 where it can."""
    unit: F64
    """(R,) value shown for one quantum."""
    free: I64
    """(S, R + D) quanta that are left, of resources and of devices."""
    queue: I64
    """(J,) jobs that wait, in order of job."""
    refused: I64
    """(J,) jobs that can never be placed, in order of job."""
    tally: I64
    """(3,) jobs in ``queue``, in ``refused``, and running."""
    job: I64
    """(K,) job of each row, -1 of a padded one."""
    mask: I8
    """(K + 1,) 1 where an action is valid; the last is to wait."""
    tasks: F32
    """(K,)."""
    demands: F32
    """(K, R) of the whole gang."""
    free_shown: F32
    """(S, R)."""
    waiting: F32
    """(1,) jobs that wait."""
    running: F32
    """(1,) jobs that run, with those started by this decision."""
    changes: Changes
    """Jobs started so far."""


@kernel
def begin_starting(board: QueueBoard, waiting: I64, running: int) -> None:
    """Begin a decision about these jobs; O(S R + waiting)."""
    copy_matrix(board.pool.free, board.free)
    board.changes.size[0] = 0
    kept, refused = 0, 0
    for i in range(len(waiting)):
        job = waiting[i]
        if board.verdict[board.arrays.job_class[job]] == 0:
            board.queue[kept] = job
            kept += 1
        else:
            board.refused[refused] = job
            refused += 1
    board.tally[0], board.tally[1], board.tally[2] = kept, refused, running


@kernel
def show_queue(board: QueueBoard, rule: int, all_there: bool) -> bool:
    """Show the first jobs of the queue; return whether any of them fits. O(K S).

    To wait is valid unless no job runs, all servers are there and a job fits.
    """
    arrays, rows, found = board.arrays, len(board.job), False
    resources = len(board.unit)
    for row in range(rows):
        job = board.queue[row] if row < board.tally[0] else -1
        fits = job >= 0 and place(rule, arrays, job, board.free, board.pool.there, board.scratch) > 0
        board.job[row], board.mask[row] = job, 1 if fits else 0
        found = found or fits
        board.tasks[row] = 0.0
        for r in range(resources):
            board.demands[row, r] = 0.0
        if job < 0:
            continue
        for role in range(arrays.gang.shape[1]):
            board.tasks[row] += arrays.gang[job, role]
            for r in range(resources):
                quanta = arrays.gang[job, role] * arrays.demand[job, role, r]
                board.demands[row, r] += quanta * board.unit[r]
    for server in range(board.free.shape[0]):
        for r in range(resources):
            board.free_shown[server, r] = board.free[server, r] * board.unit[r]
    runs = board.tally[2] + board.changes.size[0]
    board.waiting[0], board.running[0] = board.tally[0], runs
    board.mask[rows] = 0 if found and runs == 0 and all_there else 1
    return found


@kernel
def start_row(board: QueueBoard, rule: int, row: int) -> None:
    """Start the job of a row, which must fit, where the placement rule says; O(S x tasks + queue)."""
    job, arrays, placed = board.job[row], board.arrays, board.scratch
    n = place(rule, arrays, job, board.free, board.pool.there, placed)
    take_rows(arrays, job, board.free, placed, n)
    add_change(board.changes, job, placed, n)
    for k in range(row, board.tally[0] - 1):
        board.queue[k] = board.queue[k + 1]
    board.tally[0] -= 1
