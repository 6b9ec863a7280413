"""Decisions of a batch of episodes: the rows shown, the valid actions, and the tasks placed.

The rules are those of `ray_sim/Placement-v0`, docs/environments.md. Tasks of new jobs are taken from `free`
when they are placed, and given back if their job is not complete when no action is valid.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, NEVER, PARAMETER_SERVER, WORKER
from ray_sim.learning.batch_arrays import Batch


@kernel
def number(batch: Batch, e: int, job: int) -> int:
    """Return the number among all J jobs of a job of an episode."""
    return batch.sets.first[batch.runs.job_set[e]] + job


@kernel
def _fits(batch: Batch, e: int, job: int, role: int, server: int) -> bool:
    """Whether a server has room for one task."""
    at = number(batch, e, job)
    for r in range(batch.sets.demand.shape[2]):
        if batch.runs.free[e, server, r] < batch.sets.demand[at, role, r]:
            return False
    return True


@kernel
def _find_valid(batch: Batch, e: int) -> None:
    """Set `mask` and `valid` for the new jobs of the batch; O(N' S R)."""
    boards, servers, valid = batch.boards, batch.runs.free.shape[1], 0
    boards.mask[e, :] = 0
    for row in range(boards.new[e]):
        for role in range(2):
            if boards.missing[e, row, role] > 0:
                for server in range(servers):
                    if _fits(batch, e, boards.job[e, row], role, server):
                        boards.mask[e, (row * 2 + role) * servers + server] = 1
                        valid += 1
    boards.valid[e] = valid


@kernel
def open_decision(batch: Batch, e: int) -> bool:
    """Begin a decision: reject jobs that never fit, show the others; return whether an action is valid."""
    runs, kept = batch.runs, 0
    for i in range(runs.n_waiting[e]):
        job = runs.waiting[e, i]
        if batch.sets.fits[number(batch, e, job)]:
            runs.waiting[e, kept] = job
            kept += 1
    if kept < runs.n_waiting[e]:
        runs.idle[e] = 0
    runs.n_waiting[e] = kept
    runs.review[e] = NEVER
    batch.boards.n_placed[e], batch.boards.batch_end[e] = 0, 0
    batch.boards.again[e] = False
    return _show_batch(batch, e)


@kernel
def _show_batch(batch: Batch, e: int) -> bool:
    """Show the next waiting jobs as new; return whether an action is valid. Else nothing is shown."""
    runs, boards = batch.runs, batch.boards
    first = boards.batch_end[e]
    boards.new[e] = min(boards.missing.shape[1], runs.n_waiting[e] - first)
    boards.batch_end[e] = first + boards.new[e]
    for row in range(boards.new[e]):
        job = runs.waiting[e, first + row]
        boards.job[e, row] = job
        for role in range(2):
            boards.missing[e, row, role] = batch.sets.gang[number(batch, e, job), role]
    _find_valid(batch, e)
    if boards.valid[e] == 0:
        return False
    _show(batch, e)
    return True


@kernel
def _append_rows(batch: Batch, e: int, jobs: I64, count: int, row: int) -> int:
    """Give rows from ``row`` on to jobs of an episode as long as there are rows; return the next row."""
    rows = batch.boards.job.shape[1]
    for i in range(min(count, rows - row)):
        batch.boards.job[e, row] = jobs[e, i]
        row += 1
    return row


@kernel
def _show(batch: Batch, e: int) -> None:
    """Fill the rows: new jobs, jobs placed by this decision, running jobs; O(N (L + R + S) + S R)."""
    runs, boards = batch.runs, batch.boards
    shown = _append_rows(batch, e, boards.placed, boards.n_placed[e], boards.new[e])
    shown = _append_rows(batch, e, runs.running, runs.n_running[e], shown)
    boards.hidden[e, 0] = runs.n_waiting[e] - boards.batch_end[e]
    boards.hidden[e, 1] = boards.new[e] + boards.n_placed[e] + runs.n_running[e] - shown
    boards.kind[e] = 0.0
    boards.demands[e] = 0.0
    boards.workers[e] = 0.0
    boards.ps[e] = 0.0
    boards.placement[e] = 0.0
    boards.job[e, shown:] = -1
    for row in range(shown):
        _show_row(batch, e, row)
    for server in range(runs.free.shape[1]):
        _show_free(batch, e, server)


@kernel
def _show_row(batch: Batch, e: int, row: int) -> None:
    """Show what a job is and holds."""
    sets, boards = batch.sets, batch.boards
    job = boards.job[e, row]
    at, resources = number(batch, e, job), sets.demand.shape[2]
    if sets.model[at] >= 0:
        boards.kind[e, row, sets.model[at]] = 1.0
    for role in range(2):
        start = role * (1 + resources)
        boards.demands[e, row, start] = sets.gang[at, role]
        if sets.gang[at, role] > 0:
            for r in range(resources):
                boards.demands[e, row, start + 1 + r] = sets.demand[at, role, r] * sets.unit[r]
        for server in range(batch.runs.tasks.shape[3]):
            if batch.runs.tasks[e, job, role, server] > 0:
                _count_tasks(batch, e, row, role, server, batch.runs.tasks[e, job, role, server])


@kernel
def _count_tasks(batch: Batch, e: int, row: int, role: int, server: int, tasks: int) -> None:
    """Add tasks of a job to what is shown."""
    boards = batch.boards
    boards.placement[e, server, 2 * row + role] += tasks
    if role == WORKER:
        boards.workers[e, row] += tasks
    else:
        boards.ps[e, row] += tasks


@kernel
def _show_free(batch: Batch, e: int, server: int) -> None:
    for r in range(batch.runs.free.shape[2]):
        batch.boards.free[e, server, r] = batch.runs.free[e, server, r] * batch.sets.unit[r]


@kernel
def _take(batch: Batch, e: int, job: int, role: int, server: int, tasks: int) -> None:
    """Place tasks of a job on a server; negative numbers take them off."""
    at = number(batch, e, job)
    for r in range(batch.sets.demand.shape[2]):
        batch.runs.free[e, server, r] -= tasks * batch.sets.demand[at, role, r]
    batch.runs.tasks[e, job, role, server] += tasks


@kernel
def place_task(batch: Batch, e: int, action: int) -> None:
    """Carry out a valid action and bring mask and rows up to date; O(N' R)."""
    boards, servers = batch.boards, batch.runs.free.shape[1]
    row, role, server = action // (2 * servers), action // servers % 2, action % servers
    _take(batch, e, boards.job[e, row], role, server, 1)
    _count_tasks(batch, e, row, role, server, 1)
    _show_free(batch, e, server)
    boards.missing[e, row, role] -= 1
    if boards.missing[e, row, role] == 0:
        for each in range(servers):
            at = (row * 2 + role) * servers + each
            boards.valid[e] -= boards.mask[e, at]
            boards.mask[e, at] = 0
    for other in range(boards.new[e]):
        for of in (WORKER, PARAMETER_SERVER):
            at = (other * 2 + of) * servers + server
            if boards.mask[e, at] == 1 and not _fits(batch, e, boards.job[e, other], of, server):
                boards.mask[e, at] = 0
                boards.valid[e] -= 1


@kernel
def give_back(batch: Batch, e: int, job: int) -> bool:
    """Take all tasks of a job off the servers; return whether there were any."""
    found = False
    for role in range(2):
        for server in range(batch.runs.tasks.shape[3]):
            tasks = batch.runs.tasks[e, job, role, server]
            if tasks > 0:
                _take(batch, e, job, role, server, -tasks)
                found = True
    return found


@kernel
def go_on_placing(batch: Batch, e: int) -> bool:
    """Close the batch, in which no action is valid; return whether one is in the next batch.

    Complete jobs are placed, the tasks of others are given back. The next slot is asked for where jobs might
    then be placed though nothing else happens: the batch was placed in part, or no job runs.
    """
    runs, boards = batch.runs, batch.boards
    complete, given_back = 0, 0
    for row in range(boards.new[e]):
        job = boards.job[e, row]
        if boards.missing[e, row, WORKER] == 0 and boards.missing[e, row, PARAMETER_SERVER] == 0:
            boards.placed[e, boards.n_placed[e]] = job
            boards.n_placed[e] += 1
            complete += 1
        elif give_back(batch, e, job):
            given_back += 1
    if complete == boards.new[e]:
        return _show_batch(batch, e)
    later = runs.n_waiting[e] > boards.batch_end[e]
    idle = runs.n_running[e] == 0 and boards.n_placed[e] == 0
    boards.again[e] = (complete > 0 and (given_back > 0 or later)) or (given_back > 0 and idle)
    return False


@kernel
def start_placed(batch: Batch, e: int) -> None:
    """Let the jobs that were placed run, from now on and without a rate; O(waiting + running)."""
    runs, boards, now = batch.runs, batch.boards, batch.runs.now[e]
    if boards.again[e]:
        slot = batch.sets.clock[0]
        runs.review[e] = (now // slot + 1) * slot
    n, kept = 0, 0
    for i in range(runs.n_waiting[e]):
        job = runs.waiting[e, i]
        if n < boards.n_placed[e] and boards.placed[e, n] == job:
            n += 1
            continue
        runs.waiting[e, kept] = job
        kept += 1
    runs.n_waiting[e] = kept
    if boards.n_placed[e] > 0:
        runs.idle[e] = 0
    for i in range(boards.n_placed[e]):
        job = boards.placed[e, i]
        runs.left[e, job] = batch.sets.work[number(batch, e, job)]
        runs.rate[e, job] = 0.0
        runs.anchor[e, job], runs.finish[e, job] = now, NEVER
        at = runs.n_running[e]
        while at > 0 and runs.running[e, at - 1] > job:
            runs.running[e, at] = runs.running[e, at - 1]
            at -= 1
        runs.running[e, at] = job
        runs.n_running[e] += 1
