"""Ledger of chunked jobs: book the chunk events that sites report.

A job runs while at least one of its chunks makes progress, and is active while at least one has a worker.
docs/engine.md#chunked-jobs has the rules.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.chunked.queue_state import (
    COMPLETE,
    DISPLACE,
    EVENT_WORKER,
    LOST,
    PAUSE,
    PREEMPT,
    RUN,
    SERVE,
)
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    CHUNK,
    COMPLETED,
    EVENT_CODE,
    EVENT_JOB,
    EVENT_UNIT,
    FINISH,
    I64,
    LOSE,
    NEVER,
    RUNNING,
    START,
    STOP,
    WAITING,
    Bool,
    Ledger,
    Recorder,
    empty,
)
from ray_sim.kernels.core.record import add_event


class Chunked(NamedTuple):
    """State of chunked jobs; each array is (J,)."""

    left: I64
    """Number of chunks not done."""
    undispatched: I64
    """Number of chunks that are neither done nor dispatched."""
    served: I64
    """Number of chunks that have a worker; a job with any is active."""
    in_slots: I64
    """Number of those whose worker is a slot, not on demand."""
    running: I64
    """Number of chunks that make progress."""
    active: Bool
    holds_ps: Bool
    in_cloud: Bool
    """Whether all workers are in the cloud, so that the parameter server is too (zeta)."""
    stalled: I64
    """Microseconds as an active job without a parameter server, up to `stalled_since`."""
    stalled_since: I64
    """Start of the current stall, NEVER if there is none."""


def new_chunked(chunks: I64) -> Chunked:
    """Return the state of jobs with these numbers of chunks, none dispatched."""
    n = len(chunks)
    return Chunked(
        left=chunks.copy(),
        undispatched=chunks.copy(),
        served=empty(n),
        in_slots=empty(n),
        running=empty(n),
        active=np.zeros(n, np.bool_),
        holds_ps=np.zeros(n, np.bool_),
        in_cloud=np.zeros(n, np.bool_),
        stalled=empty(n),
        stalled_since=empty(n, NEVER),
    )


@kernel
def note_stall(jobs: Chunked, job: int, now: int) -> None:
    """Start or end the stall of a job, after its activity or its parameter server changed; O(1)."""
    stalls = jobs.active[job] and not jobs.holds_ps[job]
    if stalls and jobs.stalled_since[job] == NEVER:
        jobs.stalled_since[job] = now
    elif not stalls and jobs.stalled_since[job] != NEVER:
        jobs.stalled[job] += now - jobs.stalled_since[job]
        jobs.stalled_since[job] = NEVER


@kernel
def _run(ledger: Ledger, counts: I64, job: int, now: int) -> None:
    """Set a job to running when its first chunk runs; ``counts`` are the jobs waiting, running."""
    ledger.status[job] = RUNNING
    ledger.held_since[job] = now
    ledger.anchor[job] = now
    ledger.first_start[job] = min(ledger.first_start[job], now)
    counts[0] -= 1
    counts[1] += 1


@kernel
def rest(ledger: Ledger, counts: I64, job: int, now: int) -> None:
    """Set a running job to waiting when its last chunk stops; other jobs are left as they are."""
    if ledger.status[job] != RUNNING:
        return
    ledger.status[job] = WAITING
    ledger.held[job] += now - ledger.held_since[job]
    ledger.ran[job] += now - ledger.anchor[job]
    ledger.last_stop[job] = now
    counts[0] += 1
    counts[1] -= 1


@kernel
def _complete(ledger: Ledger, counts: I64, job: int, now: int) -> None:
    """Complete a job, which waits because its last chunk has just stopped."""
    ledger.status[job] = COMPLETED
    ledger.work_left[job] = 0.0
    ledger.end[job] = now
    ledger.finish[job] = now
    counts[0] -= 1


@kernel
def book_events(
    now: int,
    events: I64,
    worker_server: I64,
    on_demand: Bool,
    jobs: Chunked,
    ledger: Ledger,
    counts: I64,
    used: I64,
    record: Recorder,
    finished: I64,
) -> tuple[int, bool]:
    """Book events in their order; O(events).

    Events of one job are adjacent, so its stall and its activity are settled once, after its last event:
    a job that loses one worker and gets another at the same instant stays active. Invariant after each event:
    the numbers of `Chunked` are those of the chunks of its job, up to this event.

    Parameters
    ----------
    events : (n, EVENT_COLUMNS) as `queue_state.Queues.event`
    used : (1,) worker slots in use, updated
    finished : set to the completed jobs

    Returns
    -------
    (n, changed) : number of completed jobs; whether the set of active jobs has changed
    """
    n, changed, was_active = 0, False, False
    for i in range(len(events)):
        kind, job = events[i, EVENT_CODE], events[i, EVENT_JOB]
        unit, worker = events[i, EVENT_UNIT], events[i, EVENT_WORKER]
        if i == 0 or events[i - 1, EVENT_JOB] != job:
            was_active = jobs.active[job]
        if kind == SERVE:
            jobs.served[job] += 1
            jobs.in_slots[job] += not on_demand[worker]
        elif kind == RUN:
            jobs.running[job] += 1
            if jobs.running[job] == 1:
                _run(ledger, counts, job, now)
            used[0] += not on_demand[worker]
            add_event(record, now, START, job, worker_server[worker], CHUNK, unit)
        if kind == PREEMPT or kind == DISPLACE or kind == COMPLETE:
            jobs.served[job] -= 1
            jobs.in_slots[job] -= not on_demand[worker]
        if kind == PAUSE or kind == PREEMPT or kind == COMPLETE:
            jobs.running[job] -= 1
            if jobs.running[job] == 0:
                rest(ledger, counts, job, now)
            used[0] -= not on_demand[worker]
            ended = FINISH if kind == COMPLETE else STOP
            add_event(record, now, ended, job, worker_server[worker], CHUNK, unit)
        if kind == PREEMPT:
            ledger.preemptions[job] += 1
        if kind == LOST:
            jobs.undispatched[job] += 1
            add_event(record, now, LOSE, job, worker_server[worker], CHUNK, unit)
        if kind == COMPLETE:
            jobs.left[job] -= 1
            if jobs.left[job] == 0:
                _complete(ledger, counts, job, now)
                add_event(record, now, FINISH, job, -1, -1, 0)
                finished[n] = job
                n += 1
        if i == len(events) - 1 or events[i + 1, EVENT_JOB] != job:
            jobs.active[job] = jobs.served[job] > 0
            note_stall(jobs, job, now)
            changed = changed or jobs.active[job] != was_active
    return n, changed
