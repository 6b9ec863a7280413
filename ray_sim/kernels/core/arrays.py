"""Groups of arrays that kernels share: J jobs, S servers, R resources, C classes, P partitions, Q pools.

Kernels allocate nothing and return scalars only. Groups whose content grows have the size of an upper
bound; `numpy.empty` takes memory only for what is used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

NEVER = 2**62

# Job states, `Ledger.status`.
FUTURE, WAITING, RUNNING, COMPLETED, REJECTED, EVICTED, FAILED, KILLED = range(8)

# What a stopped job keeps of its progress: all, that of its last checkpoint, nothing.
KEEP_ALL, KEEP_CHECKPOINT, KEEP_NOTHING = range(3)

# Event kinds, `Recorder.kind`; the names are `EVENT_NAMES`.
SUBMIT, REJECT, START, MOVE, STOP, FINISH, EVICT, LEVEL, LOSE, SERVER_DOWN, SERVER_UP = range(11)
EVENT_NAMES = (
    *("submit", "reject", "start", "move", "stop", "finish", "evict", "level"),
    *("lose", "server_down", "server_up"),
)

# Roles in a placement; events also have CHUNK, a chunk on a worker, with the chunk's number as value.
WORKER, PARAMETER_SERVER, CHUNK = range(3)
ROLE_NAMES = ("worker", "ps", "chunk")

MOST_TASKS = 2**20
"""Limit of tasks on one server: times a demand of 2**40 quanta the product fits in 64 bits."""

# Columns of the events that sites report, one row each.
EVENT_CODE, EVENT_JOB, EVENT_UNIT = range(3)
"""The kind of event, the job, and its unit: the number of a part of the job."""

EVENT_COLUMNS = 5
"""The kind of job gives the last two a meaning."""

# Exchange of gradients and parameters between the workers of a job.
SYNC, ASYNC, ALL_REDUCE = range(3)


class WorldArrays(NamedTuple):
    """Constants of a run: servers, partitions, pools, gangs and their classes.

    A pool is the set of servers that a role of a job may use: those of its partition with an accepted GPU
    type. The first P pools are the partitions, and without GPU types there are no others. Jobs of one class
    have the same demand and the same pools, so if one cannot be placed, none can. Classes are numbered
    partition by partition.
    """

    capacity: I64
    """(S, R) quanta."""
    empty: I64
    """(S, R + D) free quanta of empty servers: of resources, and milli-GPU of devices. D is the most devices
    of a server, and 0 in a world whose tasks share no device."""
    speed: F64
    """(S,) progress of a rigid job, in work per microsecond."""
    weight: F64
    """(R,) 1 / capacity of the largest server, 0 if no server has any."""
    pool_ptr: I64
    pool_servers: I64
    """Servers of pool q in index order: pool_servers[pool_ptr[q]:pool_ptr[q + 1]]; those of partition p are
    pool p's."""
    pool_meets: Bool
    """(Q, Q) whether two pools share a server."""
    server_part: I64
    """(S,) partition of a server, -1 if it belongs to none."""
    job_part: I64
    """(J,) partition of a job, -1 if the cluster has none for it."""
    submit: I64
    """(J,) microseconds, non-decreasing."""
    gang: I64
    """(J, roles) tasks of the gang; of an elastic job the tasks it asks for."""
    demand: I64
    """(J, roles, R) quanta per task and role."""
    job_class: I64
    """(J,) class of a job."""
    class_job: I64
    """(C,) one job of the class."""
    class_pool: I64
    """(C, roles) pool of each role, that of the workers for a role without tasks; -1 without a partition."""
    part_class_ptr: I64
    """(P + 1,) classes of partition p: part_class_ptr[p] .. part_class_ptr[p + 1]."""
    class_single: Bool
    """(C,) whether the gang fits on one empty server of its pool."""
    class_size_ptr: I64
    """(C + 1,) prefix sums of the number of jobs per class: start of the heap of a class."""
    class_types: I64 | None = None
    """(C, T) pool of each GPU type on which jobs of the class run, in the order in which they are tried, then
    -1: a gang holds GPUs of one type. None where it may hold any."""
    class_fits: I64 | None = None
    """(C, T) whether a gang there fits on one empty server (1), must be on one (2), or neither (0)."""


class Outages(NamedTuple):
    """Times at which servers go and come back, in order."""

    time: I64
    """(N,) non-decreasing, >= 0."""
    server: I64
    up: Bool
    """Whether the server is there from then on."""


class Ledger(NamedTuple):
    """Progress of every job, (J,) each. Times in microseconds; NEVER where it has not happened.

    The last four but one are empty in a world where no stop costs progress.
    """

    status: I8
    anchor: I64
    """Time from which on `rate` holds; later than now during a restart pause."""
    work_left: F64
    """Work left at the anchor."""
    rate: F64
    """Work per microsecond since the anchor."""
    finish: I64
    """Time at which the work is done at this rate."""
    ran: I64
    """Microseconds of progress before the anchor."""
    held: I64
    """Microseconds with resources before `held_since`."""
    held_since: I64
    first_start: I64
    last_stop: I64
    end: I64
    """Time of completion, rejection or eviction."""
    preemptions: I32
    restarts: I32
    saved: F64
    """Work left at the last checkpoint."""
    saved_ran: I64
    """Microseconds of progress up to the last checkpoint."""
    interruptions: I32
    """Number of times that the job lost a server."""
    lost: I64
    """Microseconds of progress made and lost at stops."""
    checkpoint_us: I64
    """(1,) microseconds of progress between two checkpoints; 0 = continuous."""


class Pool(NamedTuple):
    """Placements as linked rows per job, and the free quanta of each server."""

    head: I64
    """(J,) first row of a job, -1 for none."""
    row_server: I64
    row_role: I64
    row_count: I64
    row_device: I64 | None
    """(rows, D) milli-GPU that the tasks of a row take of each device; None where tasks share no device."""
    row_next: I64
    top: I64
    """(2,) head of the list of spare rows, number of rows ever used."""
    free: I64
    """(S, R + D) quanta, of resources and of devices; 0 of servers that are not there."""
    there: Bool
    """(S,) servers that are there now."""


class Calendar(NamedTuple):
    """Indexed heap of running jobs by (finish, job)."""

    heap: I64
    position: I64
    size: I64
    """(1,)."""


class Books(NamedTuple):
    """Arrays of a run that most of its steps need."""

    arrays: WorldArrays
    ledger: Ledger
    pool: Pool
    calendar: Calendar
    used: I64
    """(R,) quanta in use."""
    counts: I64
    """(2,) jobs that wait, jobs that run."""
    affected: I64
    """(J,) work space: jobs that a step names."""
    verdict: I64
    """(C,) why no job of a class ever fits, 0 where it does."""


class Changes(NamedTuple):
    """Complete new placements of some jobs; a job without rows stops."""

    job: I64
    ptr: I64
    """Rows of change i: ptr[i] .. ptr[i + 1]."""
    server: I64
    role: I64
    tasks: I64
    order: I64
    """Numbers of the changes in job order, set by `order_changes`."""
    size: I64
    """(1,) number of changes."""
    device: I64 | None = None
    """(rows, D) milli-GPU that the tasks of a row take of each device; None: the default devices."""


class Recorder(NamedTuple):
    """Part of the record of a run; the engine empties it when `room_for_instant` says so."""

    time: I64
    kind: I8
    job: I32
    server: I32
    role: I8
    value: I32
    device: I64 | None
    """(events, D) milli-GPU that a holding takes of each device; None where tasks share no device."""
    line_time: I64
    line_waiting: I32
    line_running: I32
    line_used: I64
    """(lines, R) quanta."""
    size: I64
    """(2,) events, timeline rows."""


def empty(n: int, fill: int = 0, dtype: Any = np.int64) -> npt.NDArray[Any]:
    """Return a new array of n equal values."""
    return np.full(n, fill, dtype=dtype)


def devices(arrays: WorldArrays) -> int:
    """Return D of `WorldArrays.empty`."""
    return arrays.empty.shape[1] - arrays.capacity.shape[1]


def device_rows(rows: int, devices: int) -> I64 | None:
    """Return (rows, D) zeros; None without devices: kernels are compiled without what concerns these."""
    return np.zeros((rows, devices), dtype=np.int64) if devices else None


def new_ledger(work: I64 | F64, losses: bool = False, checkpoint_us: int = 0) -> Ledger:
    """Return a ledger of jobs not yet submitted, with all their work left."""
    n = len(work)
    saves = n if losses else 0
    return Ledger(
        status=empty(n, FUTURE, np.int8),
        anchor=empty(n),
        work_left=work.astype(np.float64),
        rate=np.zeros(n),
        finish=empty(n, NEVER),
        ran=empty(n),
        held=empty(n),
        held_since=empty(n),
        first_start=empty(n, NEVER),
        last_stop=empty(n, NEVER),
        end=empty(n, NEVER),
        preemptions=empty(n, 0, np.int32),
        restarts=empty(n, 0, np.int32),
        saved=work[:saves].astype(np.float64),
        saved_ran=empty(saves),
        interruptions=empty(saves, 0, np.int32),
        lost=empty(saves),
        checkpoint_us=np.array([checkpoint_us]),
    )


def new_pool(n_jobs: int, rows: int, arrays: WorldArrays, there: Bool) -> Pool:
    """Return a pool without placements and with room for ``rows`` rows.

    ``there``, (S,), are the servers that are there at first.
    """
    return Pool(
        head=empty(n_jobs, -1),
        row_server=np.empty(rows, np.int64),
        row_role=np.empty(rows, np.int64),
        row_count=np.empty(rows, np.int64),
        row_device=device_rows(rows, devices(arrays)),
        row_next=np.empty(rows, np.int64),
        top=np.array([-1, 0]),
        free=arrays.empty * there[:, None],
        there=there.copy(),
    )


def new_calendar(n_jobs: int) -> Calendar:
    """Return an empty calendar."""
    return Calendar(heap=empty(n_jobs), position=empty(n_jobs, -1), size=empty(1))


def new_changes(n_jobs: int, rows: int, devices: int) -> Changes:
    """Return empty changes with room for one per job and ``rows`` rows, which name devices."""
    ptr = np.empty(n_jobs + 1, np.int64)
    ptr[0] = 0
    return Changes(
        job=np.empty(n_jobs, np.int64),
        ptr=ptr,
        server=np.empty(rows, np.int64),
        role=np.empty(rows, np.int64),
        tasks=np.empty(rows, np.int64),
        order=np.empty(n_jobs, np.int64),
        size=empty(1),
        device=device_rows(rows, devices),
    )


def events_per_instant(n_jobs: int, others: int, *, losses: bool = False) -> int:
    """Return an upper bound on the events of one instant.

    Each job is submitted, rejected, moved to another queue, stopped and ended at most once; with ``losses``
    it may also be stopped once against the policy's will. ``others`` bounds the events of placements, chunks
    and servers.
    """
    return (6 if losses else 5) * n_jobs + others


def new_recorder(events: int, lines: int, n_resources: int, devices: int = 0) -> Recorder:
    """Return an empty record with room for these numbers of events and of timeline rows."""
    return Recorder(
        time=np.empty(events, np.int64),
        kind=np.empty(events, np.int8),
        job=np.empty(events, np.int32),
        server=np.empty(events, np.int32),
        role=np.empty(events, np.int8),
        value=np.empty(events, np.int32),
        device=device_rows(events, devices),
        line_time=np.empty(lines, np.int64),
        line_waiting=np.empty(lines, np.int32),
        line_running=np.empty(lines, np.int32),
        line_used=np.empty((lines, n_resources), np.int64),
        size=empty(2),
    )
