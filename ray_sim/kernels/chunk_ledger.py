"""How the ledger of chunked jobs follows from what sites report of their chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import (
    CHUNK,
    COMPLETED,
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
from ray_sim.kernels.chunks import COMPLETE, DISPLACE, LOST, PAUSE, PREEMPT, RUN, SERVE
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.record import add_event


class Chunked(NamedTuple):
    """Chunked jobs, (J,) each."""

    left: I64
    """Chunks not done."""
    undispatched: I64
    """Chunks that are neither done nor on a worker."""
    served: I64
    """Chunks that have a worker; a job with any is active."""
    in_slots: I64
    """Those of them whose worker is a slot, not on demand."""
    running: I64
    """Chunks that make progress."""
    active: Bool
    holds_ps: Bool
    in_cloud: Bool
    """All workers are in the cloud, and the parameter server has to be (zeta)."""
    stalled: I64
    """Microseconds as an active job without a parameter server, before `stalled_since`."""
    stalled_since: I64
    """Since when it has been one, NEVER if it is none."""


def new_chunked(chunks: I64) -> Chunked:
    """Nothing dispatched."""
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
    """Begin or end a job's time without a parameter server, after it became active or got or lost one."""
    stalls = jobs.active[job] and not jobs.holds_ps[job]
    if stalls and jobs.stalled_since[job] == NEVER:
        jobs.stalled_since[job] = now
    elif not stalls and jobs.stalled_since[job] != NEVER:
        jobs.stalled[job] += now - jobs.stalled_since[job]
        jobs.stalled_since[job] = NEVER


@kernel
def _run(ledger: Ledger, counts: I64, job: int, now: int) -> None:
    """The first chunk of a job runs."""
    ledger.status[job] = RUNNING
    ledger.held_since[job] = now
    ledger.anchor[job] = now
    ledger.first_start[job] = min(ledger.first_start[job], now)
    counts[0] -= 1
    counts[1] += 1


@kernel
def rest(ledger: Ledger, counts: I64, job: int, now: int) -> None:
    """No chunk of a job runs any more, if one did and it has not been evicted."""
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
    """Book events in their order; ``used[0]`` counts the worker slots in use.

    Returns
    -------
    (n, changed) : jobs completed, in ``finished``; whether other jobs are active than before
    """
    n, changed, was_active = 0, False, False
    for i in range(len(events)):
        kind, job, unit, worker = events[i, 0], events[i, 1], events[i, 2], events[i, 3]
        if i == 0 or events[i - 1, 1] != job:
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
        if i == len(events) - 1 or events[i + 1, 1] != job:
            jobs.active[job] = jobs.served[job] > 0
            note_stall(jobs, job, now)
            changed = changed or jobs.active[job] != was_active
    return n, changed
