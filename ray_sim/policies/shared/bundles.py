"""Allocation by bundles of some workers and their parameter server on one server: drf, tetris and dorm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, MOST_TASKS, PARAMETER_SERVER, WORKER, Changes
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.units import NEVER_US, FloatArray, IntArray
from ray_sim.policies.shared.elastic_options import deciding_slot_us, waits_for_slot
from ray_sim.policies.shared.typed_servers import bundle_pool
from ray_sim.policy_api import (
    ALL_REDUCE,
    Decision,
    ElasticContext,
    ElasticPolicy,
    ElasticView,
    Parameter,
    PolicyContext,
    State,
    Streams,
    View,
    Wake,
    allocation_changes,
    keeping_places,
)

NEVER_FITS = "bundle_never_fits"
"""Reject reason of a job whose bundle fits on no server, even an empty one."""

_UNLIMITED = 2**40

CAP = Parameter(
    "cap",
    "choice",
    "batch",
    "largest number of workers of a job. batch: one per sample of its batch; asked: as many as it asks for",
    source="docs/models/baselines.md#bundles; F, as Yu et al.",
    choices=("batch", "asked"),
)
MOST_WORKERS = Parameter(
    "most_workers",
    "int",
    None,
    "bound on the workers of any job; none = no such bound",
    source="docs/models/baselines.md#drf; 16 in the simulator of DL2 (Peng et al.)",
    minimum=1,
)


def worker_limit(world: PolicyContext, cap: str, most_workers: int | None) -> IntArray | FloatArray:
    """(J,) largest number of workers of each job, by the parameters `CAP` and `MOST_WORKERS`."""
    limit = world.jobs.batch if cap == "batch" else world.jobs.gang[:, WORKER]
    return limit if most_workers is None else np.minimum(limit, most_workers)


class Bundles(NamedTuple):
    """Bundle of each job: at most `workers_per_ps` workers and one parameter server.

    It is reduced until it has no more workers than the job may have, and until an empty server of its pool
    holds it. For an all-reduce job it is one worker.
    """

    workers: IntArray
    """(J,) 0 where no server holds a bundle."""
    ps: IntArray
    demand: IntArray
    """(J, R) quanta."""
    most: IntArray
    """(J,) largest number of bundles of a job, 0 where no server holds one."""

    def rows(self, jobs: IntArray, of_job: IntArray, server: IntArray, servers: int) -> Rows:
        """Placements of ``jobs``: bundle i belongs to job ``jobs[of_job[i]]`` and is on ``server[i]``."""
        placed = of_job * servers + server
        placed.sort()
        room = np.empty((len(Rows._fields) - 1, 2 * len(placed)), dtype=np.int64)
        rows = Rows(np.empty(len(jobs) + 1, dtype=np.int64), *room)
        n = write_rows(placed, servers, self.workers[jobs], self.ps[jobs], rows)
        return Rows(rows.ptr, rows.server[:n], rows.role[:n], rows.tasks[:n])


def bundles(world: PolicyContext, most_workers: IntArray | FloatArray) -> Bundles:
    """Compute the bundles of all jobs.

    Parameters
    ----------
    most_workers : (J,) largest number of workers of each job, >= 1
    """
    jobs = world.jobs
    limit = np.minimum(most_workers, MOST_TASKS).astype(np.int64)
    alone = jobs.exchange == ALL_REDUCE
    ps = np.where(alone, 0, 1)
    wanted = np.where(alone, 1, np.minimum(jobs.workers_per_ps, limit)).astype(np.int64)
    demand = jobs.role_demand
    of_ps = ps[:, None] * demand[:, PARAMETER_SERVER]
    workers = np.minimum(wanted, _beside(world, demand[:, WORKER], of_ps))
    some = workers > 0
    return Bundles(
        workers=workers,
        ps=np.where(some, ps, 0),
        demand=workers[:, None] * demand[:, WORKER] + of_ps,
        most=np.where(some, np.maximum(limit // np.maximum(workers, 1), 1), 0),
    )


def _beside(world: PolicyContext, worker: IntArray, ps: IntArray) -> IntArray:
    """(J,) workers that an empty server of a job's pool holds together with one parameter server.

    ``worker`` and ``ps`` are (J, R) quanta.
    """
    most: IntArray = np.zeros(len(worker), dtype=np.int64)
    pool = bundle_pool(world, np.arange(len(worker)))
    for q in np.unique(pool).tolist():
        mine, here = np.flatnonzero(pool == q), world.cluster.capacity[world.pools[q]]
        for capacity in np.unique(here, axis=0):
            left = capacity - ps[mine]
            room = np.full(left.shape, _UNLIMITED)
            np.floor_divide(left, worker[mine], out=room, where=worker[mine] > 0)
            room[left < 0] = 0
            np.maximum.at(most, mine, room.min(axis=1))
    return most


def bundle_bound(demand: IntArray, most: IntArray, total: IntArray) -> int:
    """Upper bound on the number of bundles that are given out.

    The size of a bundle is its share of the total, summed over resources; all bundles together have a size of
    at most one per resource.
    """
    offered = total > 0
    share = (demand[:, offered] / total[offered]).sum(axis=1)
    some = share > 0
    free = int(most[~some].sum())
    return free + min(int(most[some].sum()), int(offered.sum() / share.min(initial=1.0, where=some)) + 1)


class BundlePolicy(ElasticPolicy):
    """Shares all servers anew among all jobs by bundles, at slot boundaries or at once."""

    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.SERVER_CHANGE | Wake.REVIEW

    def __init__(
        self, when: str, parameter_blocks: str, cap: str = "asked", most_workers: int | None = None
    ) -> None:
        self._when = when
        self.parameter_blocks = parameter_blocks
        self._cap = cap
        self._most_workers = most_workers

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Compute the bundles.

        Raises
        ------
        InvalidScenarioError : when=slot in a world without slots
        """
        self._world = world
        self._slot_us = deciding_slot_us(self.name, self._when, world)
        limit = worker_limit(world, self._cap, self._most_workers)
        self._reallocation = Reallocation(world, bundles(world, limit))

    def decide(self, view: ElasticView) -> Decision:
        """Share all servers among all jobs; within a slot, ask to be called at its end."""
        waits = waits_for_slot(view, self._slot_us)
        if waits is not None:
            return waits
        return self._reallocation.decide(view, partial(self._share, view), self._review_us(view))

    @abstractmethod
    def _share(self, view: ElasticView, jobs: IntArray, servers: IntArray) -> tuple[IntArray, IntArray]:
        """Index in ``jobs`` and server of each bundle that is placed, from these servers empty."""

    def _review_us(self, view: ElasticView) -> int:
        """Time of the next decision while any job runs, without another event."""
        return NEVER_US


Share = Callable[[IntArray, IntArray], tuple[IntArray, IntArray]]
"""Place bundles of jobs on empty servers; returns the index in ``jobs`` and the server of each."""


class Reallocation:
    """Reallocates all servers to all jobs of a world by bundles.

    It remembers the last question whose answer was to change nothing: the same jobs in the same places with
    the same target on the same servers keep their places again, so they need no new matching.
    """

    def __init__(self, world: PolicyContext, bundles: Bundles) -> None:
        self._world = world
        self.bundles = bundles
        self._settled: tuple[bytes, ...] = ()

    def decide(self, view: View, share: Share, review_us: int = NEVER_US) -> Decision:
        """Share each partition among its jobs.

        Equivalent servers are matched so that jobs keep their placements, see `keeping_places`. Jobs whose
        bundle fits on no server are rejected. The next review is at ``review_us`` while any job runs;
        otherwise the next arrival or server change is enough.
        """
        jobs = np.concatenate([view.waiting, view.running])
        jobs.sort()
        fit = self.bundles.most[jobs] > 0
        refused, jobs = jobs[~fit], jobs[fit]
        target = self._target(view, jobs, share)
        return Decision(
            changes=self._changes(view, jobs, target),
            reject=refused,
            reject_reason=NEVER_FITS,
            review_us=review_us if len(target.server) else NEVER_US,
        )

    def _target(self, view: View, jobs: IntArray, share: Share) -> Rows:
        """Placements of the jobs from empty servers, partition by partition."""
        of_job, server = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        partition = self._world.jobs.partition[jobs]
        for p in np.unique(partition).tolist():
            mine = np.flatnonzero(partition == p)
            there = np.flatnonzero((self._world.server_partition == p) & view.available)
            owner, where = share(jobs[mine], there)
            of_job.append(mine[owner])
            server.append(where)
        return self.bundles.rows(jobs, np.concatenate(of_job), np.concatenate(server), len(view.available))

    def _changes(self, view: View, jobs: IntArray, target: Rows) -> Changes | None:
        now = view.placements.rows_of(jobs)
        question = tuple(array.tobytes() for array in (jobs, view.available, *now, *target))
        if question == self._settled:
            return None
        target = keeping_places(view.placements, jobs, target, self._world.server_kind, view.available)
        changes = allocation_changes(view.placements, jobs, target)
        self._settled = question if changes is None else ()
        return changes

    def state(self) -> State:
        """No arrays: without its memory it answers the same."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Forget the last question."""
        self._settled = ()


@kernel
def write_rows(placed: I64, servers: int, workers: I64, ps: I64, rows: Rows) -> int:
    """Write the rows of n jobs in (server, role) order, and return their number; O(bundles + n).

    Parameters
    ----------
    placed : number of the job x ``servers`` + server of each bundle, sorted
    servers : S
    workers, ps : (n,) tasks of each job's bundle
    rows : set; it has room for two rows of each bundle
    """
    n, first, job = 0, 0, 0
    rows.ptr[0] = 0
    while first < len(placed):
        end = first
        while end < len(placed) and placed[end] == placed[first]:
            end += 1
        owner, server = placed[first] // servers, placed[first] % servers
        while job < owner:
            job += 1
            rows.ptr[job] = n
        for role in (WORKER, PARAMETER_SERVER):
            tasks = (workers[owner] if role == WORKER else ps[owner]) * (end - first)
            if tasks > 0:
                rows.server[n], rows.role[n], rows.tasks[n] = server, role, tasks
                n += 1
        first = end
    while job < len(workers):
        job += 1
        rows.ptr[job] = n
    return n
