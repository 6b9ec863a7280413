"""Progress of rows: a served row runs exactly while its job holds a parameter server.

Progress is linear from the anchor of a row: work left now = `left` - (now - `anchor`).

Source: Wang et al. (A_online), JSAC 2022, constraint (2e): a job progresses only while it holds a parameter
server; docs/models/a_online.md#problem.
"""

from __future__ import annotations

from ray_sim.kernels.chunked.queue_state import (
    CALENDAR,
    DONE,
    NEWLY_SERVED,
    PAUSE,
    PREEMPT,
    PS_CHANGED,
    ROWS,
    RUN,
    RUNNING,
    SERVED,
    Queues,
    report,
)
from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.heap import push, remove


@outlined
def run(q: Queues, row: int, now: int) -> None:
    """Start the progress of a served row; O(log n)."""
    q.phase[row] = RUNNING
    q.anchor[row] = now
    q.finish[row] = now + q.left[row]
    q.size[CALENDAR] = push(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)


@outlined
def halt(q: Queues, row: int, now: int) -> None:
    """Stop the progress of a running row and book the work done; O(log n)."""
    lasted = now - q.anchor[row]
    q.left[row] -= lasted
    q.owed[row] -= min(q.owed[row], lasted)
    q.load[q.worker[row]] -= lasted
    q.size[CALENDAR] = remove(q.calendar, 0, q.size[CALENDAR], q.position, q.finish, row)
    q.phase[row] = SERVED


@kernel
def preempt(q: Queues, row: int, now: int) -> None:
    """Stop a running row that loses its worker; add the repeated work of a preemption."""
    halt(q, row, now)
    q.left[row] += q.preemption_cost
    q.owed[row] += q.preemption_cost
    q.load[q.worker[row]] += q.preemption_cost
    report(q, PREEMPT, row)


@kernel
def note_ps_change(q: Queues, job: int) -> None:
    """Note a job whose served rows may have to start or stop; a second note has no effect."""
    if not q.is_ps_changed[job]:
        q.is_ps_changed[job] = True
        q.ps_changed[q.size[PS_CHANGED]] = job
        q.size[PS_CHANGED] += 1


@kernel
def follow_ps(q: Queues, now: int) -> None:
    """Restore the invariant that served rows run exactly while their job holds a parameter server.

    Only rows served since the last call (`newly_served`) and rows of jobs whose parameter servers changed
    (`ps_changed`) can violate it. O(log n) for each of them.
    """
    for i in range(q.size[NEWLY_SERVED]):
        row = q.newly_served[i]
        if q.holds_ps[q.job[row]]:
            run(q, row, now)
            report(q, RUN, row)
    q.size[NEWLY_SERVED] = 0
    for i in range(q.size[PS_CHANGED]):
        job = q.ps_changed[i]
        q.is_ps_changed[job] = False
        row = q.first_served[job]
        while row >= 0:
            if q.holds_ps[job] and q.phase[row] == SERVED:
                run(q, row, now)
                report(q, RUN, row)
            elif not q.holds_ps[job] and q.phase[row] == RUNNING:
                halt(q, row, now)
                report(q, PAUSE, row)
            row = q.after[row]
    q.size[PS_CHANGED] = 0


@kernel
def loads_at(q: Queues, now: int, loads: I64) -> None:
    """Set ``loads``, (W,): work left now of all chunks dispatched to each worker, in its own time; O(W)."""
    for worker in range(len(loads)):
        loads[worker] = q.load[worker]
        row = q.served[worker]
        if row >= 0 and q.phase[row] == RUNNING:
            loads[worker] -= now - q.anchor[row]


@kernel
def work_of_jobs(q: Queues, now: int, chunks: I64, left: I64, trained: I64) -> None:
    """Add the work of each job's rows to ``left`` and ``trained``, (J,), in time on their workers; O(rows).

    ``left`` includes repeated work after preemptions, ``trained`` does not: it is the length of the rows
    minus what is left to train.

    Parameters
    ----------
    chunks : (J,) D of each job, at least 1: `inverse_rate` is D times the length of a row
    """
    for row in range(q.size[ROWS]):
        if q.phase[row] == DONE:
            continue
        job, lasted = q.job[row], 0
        if q.phase[row] == RUNNING:
            lasted = now - q.anchor[row]
        row_left = q.left[row] - lasted
        left[job] += row_left
        trained[job] += q.inverse_rate[row] // chunks[job] - row_left + max(q.owed[row] - lasted, 0)
