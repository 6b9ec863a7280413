"""Commands of a policy and of the world to the chunk queues: dispatch, parameter servers, keys, removals.

Each command returns the time of the next event, except `drop_rows`, which `instants.advance` follows.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.chunked.instants import next_time
from ray_sim.kernels.chunked.queue_state import (
    DISPLACE,
    DONE,
    LOST,
    NEWLY_SERVED,
    PAUSE,
    QUEUED,
    ROWS,
    RUNNING,
    UPLOADING,
    UPLOADS,
    ChunkRows,
    Queues,
    report,
)
from ray_sim.kernels.chunked.row_progress import halt, note_ps_change, run
from ray_sim.kernels.chunked.worker_queues import (
    end_upload,
    enqueue,
    leave_worker,
    link,
    mark_due,
    mark_worker,
    serve,
)
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Bool
from ray_sim.kernels.core.heap import push, rekey, remove


@kernel
def _mark_if_uploaded(q: Queues, row: int, now: int) -> None:
    """Mark the worker of a row without upload: it may overtake in this call.

    The policy that sent it knew which row has the worker, so no second call is needed.
    """
    if q.ready[row] <= now:
        mark_worker(q, q.worker[row])


@kernel
def add_rows(q: Queues, now: int, chunks: ChunkRows) -> int:
    """Add dispatched chunks; there must be room. O(n log n)."""
    for i in range(len(chunks.worker)):
        row = q.size[ROWS]
        q.size[ROWS] = row + 1
        q.worker[row], q.key[row] = chunks.worker[i], chunks.key[i]
        q.job[row], q.unit[row] = chunks.job[i], chunks.unit[i]
        q.ready[row], q.left[row] = chunks.ready[i], chunks.left[i]
        q.overtakes[row], q.inverse_rate[row] = chunks.overtakes[i] != 0, chunks.inverse_rate[i]
        q.owed[row], q.anchor[row], q.since[row] = 0, 0, 0
        q.phase[row] = UPLOADING
        q.size[UPLOADS] = push(q.uploads, 0, q.size[UPLOADS], q.position, q.ready, row)
        link(q, q.in_upload, q.worker[row], row)
        _mark_if_uploaded(q, row, now)
        q.load[q.worker[row]] += q.left[row]
        q.rows[q.worker[row]] += 1
    return next_time(q, now)


@kernel
def set_ps(q: Queues, now: int, jobs: I64, holding: I64) -> int:
    """Set whether each job holds a parameter server from now on, 0 or 1; O(n)."""
    for i in range(len(jobs)):
        job, holds = jobs[i], holding[i] != 0
        if q.holds_ps[job] != holds:
            q.holds_ps[job] = holds
            if q.first_served[job] >= 0:
                note_ps_change(q, job)
    return next_time(q, now)


@kernel
def set_keys(q: Queues, now: int, jobs: I64, keys: I64) -> int:
    """Set the key of all chunks of each job; ``jobs`` is sorted. O(rows log n), as every row is visited."""
    for row in range(q.size[ROWS]):
        i = np.searchsorted(jobs, q.job[row])
        if q.phase[row] == DONE or i == len(jobs) or jobs[i] != q.job[row]:
            continue
        if q.phase[row] == QUEUED:
            worker = q.worker[row]
            q.version[worker] += 1
            rekey(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row, keys[i])
        else:
            q.key[row] = keys[i]
    mark_due(q, now)
    return next_time(q, now)


@kernel
def _drop(q: Queues, row: int, now: int) -> None:
    """Remove a row in any phase but DONE, and mark its worker; O(log n)."""
    worker = q.worker[row]
    if q.phase[row] == UPLOADING:
        end_upload(q, row)
    elif q.phase[row] == QUEUED:
        q.version[worker] += 1
        q.waiting[worker] = remove(q.queue, q.base[worker], q.waiting[worker], q.position, q.key, row)
    else:
        if q.phase[row] == RUNNING:
            halt(q, row, now)
            report(q, PAUSE, row)
        leave_worker(q, row)
        report(q, DISPLACE, row)
    q.load[worker] -= q.left[row]
    q.rows[worker] -= 1
    q.phase[row] = DONE
    mark_worker(q, worker)


@kernel
def drop_rows(q: Queues, now: int, gone: Bool, stopped: Bool, ended: Bool) -> None:
    """Remove rows on workers that are ``gone``, (W,), and of ``stopped`` jobs, (J,), as LOST.

    Rows of ``ended`` jobs, (J,), leave too. O(rows log n). Call `advance` at the same instant afterwards.
    """
    for row in range(q.size[ROWS]):
        lost = gone[q.worker[row]] or stopped[q.job[row]]
        if q.phase[row] != DONE and (lost or ended[q.job[row]]):
            _drop(q, row, now)
            if lost:
                report(q, LOST, row)


@kernel
def resume(q: Queues, now: int, phases: I64, anchors: I64, owed: I64, since: I64) -> int:
    """Restore the phases of rows from a snapshot.

    Before: set the parameter servers, and add the rows as of a time before any upload ends, so that all of
    them are in the phase UPLOADING. O(n log n).
    """
    for row in range(len(phases)):
        q.owed[row] = owed[row]
        if phases[row] == UPLOADING:
            _mark_if_uploaded(q, row, now)
            continue
        end_upload(q, row)
        if phases[row] == QUEUED:
            enqueue(q, row)
            continue
        serve(q, row, since[row])
        if phases[row] == RUNNING:
            run(q, row, anchors[row])
        if q.holds_ps[q.job[row]] != (phases[row] == RUNNING):
            note_ps_change(q, q.job[row])
    q.size[NEWLY_SERVED] = 0
    mark_due(q, now)
    return next_time(q, now)
