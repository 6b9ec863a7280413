"""A queue that policies may use: jobs wait by key and are served under a placement rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.engine.decision import NO_JOBS, Decision, QueueLevels
from ray_sim.engine.order import never_fits
from ray_sim.engine.read_only import read_only
from ray_sim.engine.scoring import placement_state, scoring_of
from ray_sim.engine.states import State, check_heaps, copies, joined, overwrite, same, section
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Changes, WorldArrays
from ray_sim.kernels.core.heap import rekey
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.kernels.core.queue_arrays import RunningList, new_running, new_serving
from ray_sim.kernels.core.queue_dispatch import dequeue, enqueue, order_changes, serve_all
from ray_sim.kernels.core.queue_steps import QueueBooks, push_jobs, serve_queue
from ray_sim.kernels.core.scored_placement import begin_scores
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InvalidScenarioError, RunFailedError, UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.view import View


_ROUND = "round with np.rint(...).astype(np.int64), fractions after a multiplication that keeps them apart"


def whole_keys(what: str, keys: IntArray, jobs: int) -> IntArray:
    """Copy keys that a policy gives; a fraction is refused, as it would change the order without a word.

    Parameters
    ----------
    what : beginning of the error, up to its verb
    jobs : number of jobs that the keys are for

    Raises
    ------
    RunFailedError : the keys are not one integer for each job
    """
    given = np.asarray(keys)
    if given.shape != (jobs,) or given.dtype.kind not in "iu":
        raise RunFailedError(
            f"{what} one whole number for each of the {jobs} jobs, found {given.dtype} of shape "
            f"{given.shape}; {_ROUND}"
        )
    return given.astype(np.int64)


NO_ROOM = "no_room"
"""Reason of jobs that are rejected because they find no room when they come."""


FASTEST = "fastest"
"""A job of measured speed takes, of the GPU types with room, the one on which it is fastest."""
ANY = "any"
"""It takes the type of the first server with room."""


class JobQueue:
    """Waiting jobs in key order (ties: job index), one queue per partition.

    Push what arrives, then `serve` answers with who starts where. Only partitions in which
    something happened since the last decision are served. A gang that the placement rule cannot
    place even on empty servers is rejected when it is pushed.
    """

    def __init__(
        self,
        world: World,
        placement: str,
        *,
        backfill: bool,
        preemptive: bool,
        reject: bool = False,
        streams: Streams | None = None,
        gpu_type: str = FASTEST,
    ) -> None:
        if placement not in QUEUE_RULES:
            raise UnknownNameError("placement", placement, QUEUE_RULES)
        self._arrays = world.arrays if gpu_type == FASTEST else _types_by_server(world.arrays, gpu_type)
        self._may_be_killed = len(world.injectors) > 0
        self._rule = QUEUE_RULES.index(placement)
        self._backfill = backfill
        self._preemptive = preemptive
        self._reject = reject
        self._verdict = never_fits(world, placement)
        scoring, state = scoring_of(world, placement), placement_state(streams)
        self._serving = new_serving(self._arrays, world.row_bound, scoring, state)
        self._queue = self._serving.queue
        self._scores = self._serving.scratch.scores
        self._rejected = NO_JOBS
        self._to_serve = np.zeros(len(self._arrays.part_class_ptr) - 1, dtype=np.bool_)
        self._refused = np.empty(len(world.table), dtype=np.int64)
        self._books = handle(QueueBooks(self._serving, self._to_serve, self._verdict, self._refused))

    @property
    def key(self) -> IntArray:
        """(J,) current keys, of waiting and, once set by `serve`, of running jobs; read-only."""
        return read_only(self._queue.key)

    def push(self, jobs: IntArray, keys: IntArray) -> None:
        """Jobs begin to wait with these keys (integers, smaller first).

        Raises
        ------
        RunFailedError : there is no such job, or not a whole number as the key of each
        """
        if len(jobs) == 0:
            return
        whole = whole_keys("push: keys must be", keys, len(jobs))
        # Copies, because kernels are compiled anew for arrays that are read-only.
        wrong, refused = push_jobs(self._books, jobs.copy(), whole)
        if wrong >= 0:
            count = len(self._arrays.job_class)
            raise RunFailedError(f"push: job {jobs[wrong]} is none of the {count} jobs 0 to {count - 1}")
        if refused:
            self._rejected = np.union1d(self._rejected, self._refused[:refused])

    def rekey(self, job: int, key: int) -> None:
        """Change the key of a waiting job.

        Raises
        ------
        RunFailedError : the key is not an integer
        """
        if not isinstance(key, (int, np.integer)):
            raise RunFailedError(
                f"rekey: the key of job {job} must be a whole number, found {key!r}; {_ROUND}"
            )
        c = self._arrays.job_class[job]
        queue = self._queue
        rekey(queue.heap, self._arrays.class_size_ptr[c], queue.size[c], queue.position, queue.key, job, key)

    def serve(
        self,
        view: View,
        running_keys: tuple[IntArray, IntArray] | None = None,
        *,
        levels: QueueLevels | None = None,
        review_us: int = NEVER_US,
    ) -> Decision:
        """Decide who starts, and with ``preemptive`` who is suspended.

        ``running_keys`` is (jobs, keys) of all running jobs, needed when preemptive.

        Raises
        ------
        RunFailedError : a running job has not a whole number as its key
        """
        if len(view.completed):
            if self._may_be_killed:
                self._forget(view.completed)
            self._to_serve[self._arrays.job_part[view.completed]] = True
        if len(view.changed_servers):
            self._to_serve[self._arrays.server_part[view.changed_servers]] = True
        if view.reviewed:
            self._to_serve[:] = True
        if self._preemptive:
            changes = self._serve_preemptive(view, running_keys)
            came = np.setdiff1d(view.arrived, view.returned)  # jobs that ran before wait
            no_room = self._forget(came) if self._reject else NO_JOBS
        else:
            changes = self._serving.changes
            pool, running = view.placements._pool, NO_JOBS if self._scores is None else view.running
            now, backfill, reject = view.now_us, self._backfill, self._reject
            refused = serve_queue(self._books, self._rule, now, backfill, reject, pool, running)
            no_room = self._serving.refused[:refused].copy()
        rejected, self._rejected = self._rejected, NO_JOBS
        reasons: str | tuple[str, ...] = "never_fits"
        if len(no_room):
            rejected = np.union1d(rejected, no_room)
            reasons = tuple(NO_ROOM if job else "never_fits" for job in np.isin(rejected, no_room))
        return Decision(
            changes=changes if changes.size[0] > 0 else None,
            reject=rejected,
            reject_reason=reasons,
            levels=levels,
            review_us=review_us,
        )

    def _forget(self, jobs: IntArray) -> IntArray:
        """Take out those of these jobs that wait, and return them; jobs may be killed while they wait."""
        waiting = jobs[self._queue.position[jobs] >= 0]
        for job in waiting.tolist():
            dequeue(self._arrays, self._queue, job)
        return waiting

    def _serve_preemptive(self, view: View, running_keys: tuple[IntArray, IntArray] | None) -> Changes:
        arrays, queue, changes = self._arrays, self._queue, self._serving.changes
        pool = view.placements._pool
        changes.size[0] = 0
        running = NO_JOBS
        if running_keys is not None:
            jobs, keys = running_keys
            if len(jobs):
                keys = whole_keys("serve: keys of running jobs must be", keys, len(jobs))
            queue.key[jobs] = keys
            running = jobs[np.lexsort((jobs, keys))]
        for p in np.flatnonzero(self._to_serve).tolist():
            mine = np.ascontiguousarray(running[arrays.job_part[running] == p])
            if self._scores is not None:
                begin_scores(self._rule, view.now_us, arrays, pool, mine, len(mine), self._scores)
            serve_all(
                p,
                self._rule,
                self._backfill,
                True,
                self._serving,
                _as_running(mine, queue.key[mine]),
                0,
                len(mine),
                0,
                pool,
            )
        for i in range(changes.size[0]):
            if changes.ptr[i + 1] == changes.ptr[i]:
                enqueue(arrays, queue, changes.job[i], queue.key[changes.job[i]])
        order_changes(changes)
        self._to_serve[:] = False
        return changes

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return joined({"queue": copies(self._queue)})

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        saved = section(state, "queue")
        class_of, waiting = check_heaps(saved, saved["key"], self._arrays.class_size_ptr[:-1]).T
        same("queue.heap", self._arrays.job_class[waiting], class_of)
        overwrite(self._queue, saved)


def _types_by_server(arrays: WorldArrays, gpu_type: str) -> WorldArrays:
    """The arrays with the types of each class in the order of their first servers.

    Raises
    ------
    InvalidScenarioError : speeds do not depend on the GPU type
    """
    types, fits = arrays.class_types, arrays.class_fits
    if types is None or fits is None:
        raise InvalidScenarioError(
            f"type={gpu_type}: is about jobs of truth=measured; set that, or leave it out"
        )
    first = np.append(arrays.pool_servers, len(arrays.capacity))[arrays.pool_ptr[types]]
    order = np.argsort(np.where(types < 0, len(arrays.capacity) + 1, first), axis=1, kind="stable")
    return arrays._replace(
        class_types=np.take_along_axis(types, order, axis=1),
        class_fits=np.take_along_axis(fits, order, axis=1),
    )


def _as_running(jobs: IntArray, keys: IntArray) -> RunningList:
    """A list in the order given."""
    n = len(jobs)
    return new_running(n)._replace(
        order=np.arange(n), job=jobs, due=keys, server=np.full(n, -1), quanta=np.zeros(n, np.int64)
    )
