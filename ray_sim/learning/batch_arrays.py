"""Arrays of a batch of episodes: E episodes at once, of at most M jobs each, on S servers with R resources.

`ray_sim.learning.model_world` makes them with `new_batch` for the offline training of Harmony. The kernels of
`ray_sim.learning` read and write them in place, so a field's shape or type changes together with every kernel
that names it. They are in memory only, and in no file.

An episode runs the jobs of one *set*. Sets are stored one after the other; job i of set p is number
``first[p] + i`` among all J jobs. Within an episode a job is named by i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.core.arrays import F64, I8, I64, NEVER, Bool

F32 = npt.NDArray[np.float32]


class JobSets(NamedTuple):
    """Jobs of P sets, J in total, and the servers. An episode has all servers to itself."""

    first: I64
    """(P + 1,) first job of each set."""
    submit: I64
    """(J,) microseconds since the first submission of the set, non-decreasing within it."""
    model: I64
    """(J,) column of `Boards.kind`, -1 for none."""
    gang: I64
    """(J, 2) workers and parameter servers."""
    demand: I64
    """(J, 2, R) quanta of one worker and of one parameter server."""
    work: F64
    """(J,) samples to train, > 0."""
    fits: Bool
    """(J,) whether the job fits on empty servers; else it is rejected at its first decision."""
    capacity: I64
    """(S, R) quanta."""
    unit: F64
    """(R,) share of the largest server that a quantum is."""
    clock: I64
    """(3,) limits of an episode: [0] length of a slot in microseconds; [1] its last microsecond, `NEVER` - 1
    if it ends when all jobs have; [2] largest value of `Runs.idle`, as in the engine."""
    completion: I64
    """(J,) time at which the job completed in the latest episode of its set; `NEVER` if it did not."""


class Runs(NamedTuple):
    """State of the episodes between two decisions."""

    job_set: I64
    """(E,)."""
    now: I64
    """(E,) microseconds; -1 before the first instant."""
    next_job: I64
    """(E,) jobs 0 .. next_job - 1 have been submitted."""
    review: I64
    """(E,) time of a decision that was asked for, `NEVER` for none."""
    last_slot: I64
    """(E,) number of the last slot boundary with a decision, -1 before."""
    unseen_events: Bool
    """(E,) whether a job has come or completed since the last decision."""
    free: I64
    """(E, S, R) quanta. During a decision, what its new jobs hold so far is already taken off."""
    waiting: I64
    """(E, M) waiting jobs, sorted."""
    n_waiting: I64
    running: I64
    """(E, M) running jobs, sorted."""
    n_running: I64
    tasks: I64
    """(E, M, 2, S) workers and parameter servers of each job on each server."""
    left: F64
    """(E, M) samples left at the anchor."""
    rate: F64
    """(E, M) samples per microsecond since the anchor."""
    anchor: I64
    """(E, M) time from which on the rate holds."""
    finish: I64
    """(E, M) time at which the job will be done at this rate."""
    completed: I64
    """(E,) jobs completed so far."""
    idle: I64
    """(E,) decisions in a row that placed nothing while no event was to come."""
    reading: F64
    """(E,) sum over jobs of the share of its work that is done, at the last decision with a valid action."""
    since: I64
    """(E,) time of the last decision with a valid action, microseconds."""
    present: F64
    """(E,) job-microseconds in the system since that decision, of jobs that wait or run."""


class Boards(NamedTuple):
    """State of the decision that each episode makes, and what it shows: N rows, N' of them for new jobs."""

    job: I64
    """(E, N) job of each row, -1 of a padded one."""
    new: I64
    """(E,) new jobs shown, in the first rows."""
    batch_end: I64
    """(E,) number of waiting jobs up to the end of the batch shown."""
    placed: I64
    """(E, M) jobs completely placed by this decision, sorted."""
    n_placed: I64
    missing: I64
    """(E, N', 2) tasks of each new job that are not placed yet."""
    valid: I64
    """(E,) number of valid actions."""
    again: Bool
    """(E,) whether the next slot is asked for."""
    kind: F32
    """(E, N, L) one-hot model."""
    demands: F32
    """(E, N, 2 (1 + R)) workers, demand of each, parameter servers, demand of each."""
    workers: F32
    """(E, N) placed so far."""
    ps: F32
    """(E, N) placed so far."""
    free: F32
    """(E, S, R) shares of the largest server."""
    placement: F32
    """(E, S, 2 N) workers and parameter servers of each row on each server."""
    hidden: F32
    """(E, 2) waiting and running jobs that are not shown."""
    mask: I8
    """(E, N' x 2 x S) 1 where an action is valid: ((row x 2 + role) x S + server)."""


class Answers(NamedTuple):
    """Results of a step."""

    reward: F64
    """(E,)."""
    length: F64
    """(E,) microseconds of the interval that ended."""
    present: F64
    """(E,) job-microseconds in the system within it."""
    interval_ended: Bool
    """(E,)."""
    episode_ended: Bool
    """(E,)."""
    queue: I64
    """(E,) numbers of episodes whose running jobs need new rates, the first ones; kernels return how many."""


class Batch(NamedTuple):
    """All arrays of a batch."""

    sets: JobSets
    runs: Runs
    boards: Boards
    answers: Answers


def new_batch(sets: JobSets, episodes: int, rows: int, new: int, models: int) -> Batch:
    """Return a batch with placeholders; `begin_episode` of `clock_kernels` sets the state of an episode.

    Parameters
    ----------
    rows, new : N and N'
    models : L, columns of the one-hot model
    """
    servers, resources = sets.capacity.shape
    most = int(np.diff(sets.first).max())

    def whole(*shape: int, fill: int = 0) -> I64:
        return np.full((episodes, *shape), fill, dtype=np.int64)

    def single(*shape: int) -> F32:
        return np.zeros((episodes, *shape), dtype=np.float32)

    def flags() -> Bool:
        return np.zeros(episodes, dtype=np.bool_)

    runs = Runs(
        job_set=whole(),
        now=whole(),
        next_job=whole(),
        review=whole(fill=NEVER),
        last_slot=whole(),
        unseen_events=flags(),
        free=whole(servers, resources),
        waiting=whole(most),
        n_waiting=whole(),
        running=whole(most),
        n_running=whole(),
        tasks=whole(most, 2, servers),
        left=np.zeros((episodes, most)),
        rate=np.zeros((episodes, most)),
        anchor=whole(most),
        finish=whole(most, fill=NEVER),
        completed=whole(),
        idle=whole(),
        reading=np.zeros(episodes),
        since=whole(),
        present=np.zeros(episodes),
    )
    boards = Boards(
        job=whole(rows, fill=-1),
        new=whole(),
        batch_end=whole(),
        placed=whole(most),
        n_placed=whole(),
        missing=whole(new, 2),
        valid=whole(),
        again=flags(),
        kind=single(rows, models),
        demands=single(rows, 2 * (1 + resources)),
        workers=single(rows),
        ps=single(rows),
        free=single(servers, resources),
        placement=single(servers, 2 * rows),
        hidden=single(2),
        mask=np.zeros((episodes, new * 2 * servers), dtype=np.int8),
    )
    answers = Answers(
        reward=np.zeros(episodes),
        length=np.zeros(episodes),
        present=np.zeros(episodes),
        interval_ended=flags(),
        episode_ended=flags(),
        queue=whole(),
    )
    return Batch(sets, runs, boards, answers)
