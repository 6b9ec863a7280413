"""State of the chunk queues of a site: rows of dispatched chunks, workers, and jobs that hold a PS.

A dispatched chunk is a row; rows are numbered in the order of dispatch. A row is uploaded, waits in the
queue of its worker, is served, and makes progress while its job holds a parameter server. Invariant: a row
that waits for an event is in exactly one heap: of uploads by their end, of a worker's queue by (key, row), of
the calendar of running rows by completion. An event costs O(log n) for n rows.

Modules: `commands` changes the rows as a policy decides, `instants` advances them to the next event,
`worker_queues` and `row_progress` hold the steps of both, `increments` prices a chunk that is not dispatched.

Source: Wang et al., Preemptive Scheduling for Distributed ML Jobs in Edge-Cloud Networks, IEEE JSAC 2022
(A_online), problem (2); docs/models/a_online.md#problem. docs/glossary.md lists the symbols.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import EVENT_CODE, EVENT_COLUMNS, EVENT_JOB, EVENT_UNIT, I8, I64, Bool, empty

# Phases of a row, `Queues.phase`. A served chunk has the worker, a running one makes progress.
UPLOADING, QUEUED, SERVED, RUNNING, DONE = range(5)

# Entries of `Queues.size`.
ROWS, UPLOADS, CALENDAR, NEWLY_SERVED, MARKED, PS_CHANGED, EVENTS = range(7)

EVENTS_PER_ROW = 6
"""Upper bound on the events of a row at one instant: it may lose the worker, get it back, run, be done."""

EVENT_WORKER, EVENT_LEFT = range(EVENT_UNIT + 1, EVENT_COLUMNS)
"""Columns of `Queues.event` after those of every event: worker, microseconds of training left."""

# Kinds of event: the first column of `Queues.event`.
SERVE, RUN, PAUSE, PREEMPT, DISPLACE, COMPLETE, LOST = range(7)
"""SERVE: gets the worker. RUN, PAUSE: begins, stops making progress there. PREEMPT, DISPLACE: loses the
worker to another chunk, while it made progress, or not. COMPLETE: is done. LOST: its server went, or its job
was stopped."""


class ChunkRows(NamedTuple):
    """Chunks as they are dispatched, (n,) each; the columns of `Queues` of the same names."""

    worker: I64
    key: I64
    job: I64
    unit: I64
    ready: I64
    left: I64
    overtakes: I64
    """0 or 1."""
    inverse_rate: I64


_DISPATCHED = tuple(name for name in ChunkRows._fields if name != "overtakes")
"""Columns of numbers that a dispatch sets."""


class Queues(NamedTuple):
    """N rows, W workers, J jobs. Times in microseconds."""

    job: I64
    unit: I64
    worker: I64
    key: I64
    """(N,) smaller is served first; ties by row."""
    inverse_rate: I64
    """(N,) D p, weight of a chunk in increments: chunks of its job x time of a whole chunk on this worker."""
    ready: I64
    """(N,) when the upload ends."""
    left: I64
    """(N,) work left at the anchor, in time on this worker."""
    owed: I64
    """(N,) the first part of `left`: repeated work after preemptions, which trains nothing."""
    anchor: I64
    finish: I64
    """(N,) start of the progress of a running row, and its completion if nothing stops it."""
    overtakes: Bool
    """(N,) whether the row preempts a chunk with a larger key."""
    since: I64
    """(N,) time at which a served row got its worker; at that same instant any row before it takes it."""
    phase: I8
    position: I64
    """(N,) place in the heap that holds the row."""
    before: I64
    after: I64
    """(N,) neighbours in the linked list that holds the row (`in_upload` or `first`), -1 for none."""
    uploads: I64
    calendar: I64
    newly_served: I64
    """(N,) rows served since `follow_ps` last ran."""
    on_demand: Bool
    """(W,) whether the worker stands for a new one per chunk (cloud): no chunk waits there."""
    served: I64
    """(W,) the row that has the worker, -1 for none."""
    base: I64
    room: I64
    waiting: I64
    """(W,) the worker's slice of `queue`: its start, its length, the number of rows in it."""
    load: I64
    """(W,) sum of work left of its rows, as of the anchor of the running one."""
    rows: I64
    """(W,) number of rows not done."""
    in_upload: I64
    """(W,) head of the list of rows in upload to the worker, newest first, -1 for none."""
    version: I64
    """(W,) number of changes of the worker's slice of `queue`: a sorted copy with another number is stale."""
    mark: Bool
    marked: I64
    """(W,) flag, and list, of workers that choose which row they serve in this instant."""
    queue: I64
    first_served: I64
    """(J,) head of the list of served rows of a job, -1 for none."""
    holds_ps: Bool
    """(J,)."""
    ps_changed: I64
    """(J,) list of jobs with served rows that got or lost their parameter server."""
    is_ps_changed: Bool
    event: I64
    """(EVENTS_PER_ROW N, EVENT_COLUMNS), see `report`."""
    size: I64
    preemption_cost: int
    """Repeated work that a preemption adds to a row, in microseconds."""


def new_queues(rows: int, on_demand: Bool, n_jobs: int, preemption_cost: int) -> Queues:
    """Return empty queues with room for ``rows`` rows; `queue` itself has none yet."""
    n_workers = len(on_demand)
    numbers = {name: np.empty(rows, np.int64) for name in _DISPATCHED}
    return Queues(
        **numbers,
        owed=np.empty(rows, np.int64),
        anchor=np.empty(rows, np.int64),
        finish=np.empty(rows, np.int64),
        overtakes=np.empty(rows, np.bool_),
        since=np.empty(rows, np.int64),
        phase=np.empty(rows, np.int8),
        position=np.empty(rows, np.int64),
        before=np.empty(rows, np.int64),
        after=np.empty(rows, np.int64),
        uploads=np.empty(rows, np.int64),
        calendar=np.empty(rows, np.int64),
        newly_served=np.empty(rows, np.int64),
        on_demand=on_demand,
        served=empty(n_workers, -1),
        base=empty(n_workers),
        room=empty(n_workers),
        waiting=empty(n_workers),
        load=empty(n_workers),
        rows=empty(n_workers),
        in_upload=empty(n_workers, -1),
        version=empty(n_workers),
        mark=np.zeros(n_workers, np.bool_),
        marked=np.empty(n_workers, np.int64),
        queue=np.empty(0, np.int64),
        first_served=empty(n_jobs, -1),
        holds_ps=np.zeros(n_jobs, np.bool_),
        ps_changed=np.empty(n_jobs, np.int64),
        is_ps_changed=np.zeros(n_jobs, np.bool_),
        event=np.empty((EVENTS_PER_ROW * rows, EVENT_COLUMNS), np.int64),
        size=empty(7),
        preemption_cost=preemption_cost,
    )


@kernel
def report(q: Queues, event: int, row: int) -> None:
    """Append an event of a row; O(1)."""
    n = q.size[EVENTS]
    q.event[n, EVENT_CODE] = event
    q.event[n, EVENT_JOB] = q.job[row]
    q.event[n, EVENT_UNIT] = q.unit[row]
    q.event[n, EVENT_WORKER] = q.worker[row]
    q.event[n, EVENT_LEFT] = q.left[row] - q.owed[row]
    q.size[EVENTS] = n + 1
