"""Groups of arrays of queues and placement rules: what waits, what runs in order, and work space.

Sizes as in `ray_sim.kernels.core.arrays`; D is the most devices of a server, K one more than its most GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.core.arrays import (
    F64,
    I64,
    U64,
    WORKER,
    Bool,
    Changes,
    WorldArrays,
    device_rows,
    devices,
    empty,
    new_changes,
)


class Queue(NamedTuple):
    """Waiting jobs: per class an indexed heap by (key, job)."""

    key: I64
    """(J,) smaller is served first."""
    heap: I64
    position: I64
    size: I64
    """(C,)."""
    blocked: Bool
    """(C,) work space of one dispatch: no job of the class may start."""
    stuck: Bool
    """(C,) whether the class's first job did not fit when it was last tried, and still cannot."""
    tries: I64 | None
    """(J,) number of times that the job has left the queue, which tells its draws apart; None where no rule
    scores servers."""


class RunningList(NamedTuple):
    """Running jobs of each partition, sorted; see `ray_sim.kernels.core.running`."""

    order: I64
    """Slots in order, partition by partition."""
    job: I64
    """Job of each slot."""
    due: I64
    """Sort key of each slot: the key of the job; for keys that fall with time, key plus now."""
    server: I64
    quanta: I64
    """Placement of each slot, if it is one row in one resource; else server -1."""
    slot: I64
    """Slot of each running job."""
    spare: I64
    top: I64
    """(2,) number of spare slots, number of slots ever used."""


class Target(NamedTuple):
    """Typical tasks, see `ray_sim.kernels.core.fragmentation`: G tasks, T types of servers."""

    cpu: I64
    gpu: I64
    gpus: I64
    share: F64
    """(G,) each."""
    accepts: Bool
    """(G, T) whether the task runs on servers of a type."""
    order: I64
    """(G,) numbers of the tasks in the order in which fragments are summed."""
    size: I64
    """(1,) how many of these there are."""


class Arrivals(NamedTuple):
    """Counts of which a target follows from the jobs that have come; of a target that is given, no jobs."""

    group: I64
    """(J,) number of the job's demand, a task of the target; larger demands have smaller numbers."""
    tasks: I64
    """(J,)."""
    counts: I64
    """(G,) tasks that have come; `Target.order` sorts by it, the most frequent first."""
    come: I64
    """(1,) jobs counted so far."""


class Scoring(NamedTuple):
    """Constants of `ray_sim.kernels.core.server_scores` for a cluster."""

    column: I64
    """(2,) columns of CPU and GPU among the resources, -1 where the cluster has none."""
    most: I64
    """(2,) CPU and GPU milli of the largest server, at least 1."""
    gpus: I64
    """(S,) devices of a server."""
    kind: I64
    """(S,) type of a server, a column of the target's ``accepts``."""
    target: Target
    arrivals: Arrivals


NO_ARRIVALS = Arrivals(*(np.zeros(n, np.int64) for n in (0, 0, 0, 1)))
"""What stands for `Arrivals` where the target is given."""

NO_SCORING = Scoring(
    column=np.full(2, -1),
    most=np.ones(2, np.int64),
    gpus=np.zeros(0, np.int64),
    kind=np.zeros(0, np.int64),
    target=Target(
        cpu=np.zeros(0, np.int64),
        gpu=np.zeros(0, np.int64),
        gpus=np.zeros(0, np.int64),
        share=np.zeros(0),
        accepts=np.zeros((0, 0), np.bool_),
        order=np.zeros(0, np.int64),
        size=np.zeros(1, np.int64),
    ),
    arrivals=NO_ARRIVALS,
)
"""What stands for a `Scoring` under placement rules that give servers no score: arrays without entries."""

SCORE_ROWS = 1024
"""Classes of tasks whose scores are kept at a time."""


class ScoreBook(NamedTuple):
    """Scores that hold as long as their server does not change, and work space of scoring.

    A change is found by comparing what is free with what was seen, so the book needs no notice of changes
    and serves amounts that a rule only supposes to be free.
    """

    cpu: I64
    """(S,) free."""
    device: I64
    """(S, D) free milli; 0 beyond the devices of a server."""
    tags: I64
    """(S, K) tasks by tag: those that run and those that start at this instant."""
    holds: Bool
    """(S,) servers that hold the task."""
    seen: I64
    """(S, 1 + D + K) CPU, devices and tags of a server when it was last looked at."""
    stamp: I64
    """(S,) number of that state, from 1."""
    clock: I64
    """(1,) states numbered so far."""
    before: F64
    """(S,) fragments of the server in that state."""
    owner: I64
    """(ROWS,) class of tasks that a row belongs to; -1 for none."""
    scored: I64
    """(ROWS, S) stamp of the state that a score is of."""
    score: I64
    """(ROWS, S)."""
    classes: F64
    """(7,) work space of `fragments`."""
    trial: I64
    """(D,) devices with one more task."""
    rest: I64
    """(S, R + D) free quanta after the tasks of a gang placed so far."""
    state: U64
    """(1,) state of the stream of random numbers."""


class DeviceRoom(NamedTuple):
    """Work space of placement on devices: room for tasks on them as one more resource; no rows without."""

    demand: I64
    """(R + 1,)."""
    free: I64
    """(S, R + 1)."""
    empty: I64
    """(S, R + 1)."""


class Scores(NamedTuple):
    """Work space of rules that score servers, and of placement on devices."""

    scoring: Scoring
    book: ScoreBook
    """Empty unless the rule scores servers."""
    tries: I64
    """(J,) see `Queue.tries`."""
    of_devices: DeviceRoom


class Scratch(NamedTuple):
    """Work space of placement."""

    server: I64
    role: I64
    tasks: I64
    """(roles x S,): rows of the last placement."""
    device: I64 | None
    """(roles x S, D) milli-GPU that these rows take of each device; None where tasks share no device."""
    tally: I64
    """(S,)."""
    most: I64
    """(2, 2, R) results of `ray_sim.kernels.core.placement.measure` for idle and for claimable quanta."""
    total: I64
    """(R,) total quanta of a gang."""
    by_role: I64
    """(roles, S) tasks of a gang whose roles are placed one after the other."""
    rest: I64
    """(S, R) free quanta after the roles placed so far; no rows if there is one role."""
    scores: Scores | None
    """None unless the rule scores servers or tasks lie on devices: then kernels are compiled without both."""


class Serving(NamedTuple):
    """Waiting jobs, what a dispatch decides of them, and its work space."""

    arrays: WorldArrays
    queue: Queue
    changes: Changes
    """Placements of the jobs that start, and the jobs that stop."""
    scratch: Scratch
    idle: I64
    """(S, R + D) quanta."""
    claimable: I64
    """(S, R + D) quanta."""
    refused: I64
    """(J,) jobs that found no room, where these are not to wait."""
    n_refused: I64
    """(1,)."""


def new_queue(n_jobs: int, n_classes: int, *, scored: bool = False) -> Queue:
    """Return an empty queue; ``scored`` says whether its placement rule scores servers."""
    return Queue(
        key=empty(n_jobs),
        heap=empty(n_jobs),
        position=empty(n_jobs, -1),
        size=empty(n_classes),
        blocked=np.zeros(n_classes, dtype=np.bool_),
        stuck=np.zeros(n_classes, dtype=np.bool_),
        tries=empty(n_jobs) if scored else None,
    )


def new_running(n_jobs: int) -> RunningList:
    """Return an empty list with room for all jobs."""
    return RunningList(
        order=np.empty(n_jobs, np.int64),
        job=np.empty(n_jobs, np.int64),
        due=np.empty(n_jobs, np.int64),
        server=np.empty(n_jobs, np.int64),
        quanta=np.empty(n_jobs, np.int64),
        slot=np.empty(n_jobs, np.int64),
        spare=np.empty(n_jobs, np.int64),
        top=empty(2),
    )


def new_serving(
    arrays: WorldArrays, rows: int, scoring: Scoring | None = None, state: np.uint64 | None = None
) -> Serving:
    """Return an empty queue, and room for changes of ``rows`` rows; see `new_scores`."""
    n_jobs = len(arrays.job_class)
    queue = new_queue(n_jobs, len(arrays.class_job), scored=scoring is not None)
    return Serving(
        arrays=arrays,
        queue=queue,
        changes=new_changes(n_jobs, rows, devices(arrays)),
        scratch=new_scratch(arrays, scoring, queue.tries, state),
        idle=np.empty_like(arrays.empty),
        claimable=np.empty_like(arrays.empty),
        refused=empty(n_jobs),
        n_refused=empty(1),
    )


def new_scratch(
    arrays: WorldArrays,
    scoring: Scoring | None = None,
    tries: I64 | None = None,
    state: np.uint64 | None = None,
) -> Scratch:
    """Return work space for the placements of a run; see `new_scores`."""
    n_servers, n_resources = arrays.capacity.shape
    roles = arrays.gang.shape[1]
    scored = scoring is not None or devices(arrays) > 0
    return Scratch(
        server=empty(roles * n_servers),
        role=empty(roles * n_servers, WORKER),
        tasks=empty(roles * n_servers),
        device=device_rows(roles * n_servers, devices(arrays)),
        tally=empty(n_servers),
        most=np.zeros((2, 2, n_resources), dtype=np.int64),
        total=empty(n_resources),
        by_role=np.zeros((roles, n_servers), dtype=np.int64),
        rest=np.zeros((n_servers if roles > 1 else 0, n_resources), dtype=np.int64),
        scores=new_scores(arrays, scoring, tries, state) if scored else None,
    )


def new_scores(
    arrays: WorldArrays,
    scoring: Scoring | None = None,
    tries: I64 | None = None,
    state: np.uint64 | None = None,
) -> Scores:
    """Return a handle of work space of rules that score servers, and of placement on devices.

    Parameters
    ----------
    scoring : None for rules that score no servers
    tries : (J,) `Queue.tries` of the queue that is served
    state : of the stream of random numbers of placement
    """
    from ray_sim.kernels.handle import handle  # numba is slow to import

    n_servers, n_resources = arrays.capacity.shape
    scored = NO_SCORING if scoring is None else scoring
    on_devices = n_servers if devices(arrays) else 0
    book = new_score_book(scored, arrays.empty.shape[1])
    if state is not None:
        book.state[:] = state
    return handle(
        Scores(
            scoring=scored,
            book=book,
            tries=empty(len(arrays.job_class)) if tries is None else tries,
            of_devices=DeviceRoom(
                demand=empty(n_resources + 1),
                free=np.zeros((on_devices, n_resources + 1), np.int64),
                empty=np.zeros((on_devices, n_resources + 1), np.int64),
            ),
        )
    )


def new_score_book(scoring: Scoring, columns: int) -> ScoreBook:
    """Return a book without scores, for matrices of free quanta with R + D columns."""
    servers, most = len(scoring.gpus), int(scoring.gpus.max(initial=0))
    tags = most + 1
    return ScoreBook(
        cpu=empty(servers),
        device=np.zeros((servers, most), np.int64),
        tags=np.zeros((servers, tags), np.int64),
        holds=np.zeros(servers, np.bool_),
        seen=np.full((servers, 1 + most + tags), -1, np.int64),
        stamp=empty(servers),
        clock=empty(1),
        before=np.zeros(servers),
        owner=empty(SCORE_ROWS, -1),
        scored=np.zeros((SCORE_ROWS, servers), np.int64),
        score=np.zeros((SCORE_ROWS, servers), np.int64),
        classes=np.zeros(7),
        trial=empty(most),
        rest=np.zeros((servers, columns), np.int64),
        state=np.zeros(1, np.uint64),
    )
