"""Give capacity that no plan uses to admitted jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.shared.bundles import Bundles, bundles
from ray_sim.policies.shared.jobs_in_slots import JobsInSlots
from ray_sim.policies.shared.sold_plans import JOB, SERVER, WORKERS, BookedPlans
from ray_sim.policy_api import ElasticContext
from ray_sim.solvers.planning.market import SlotPlan
from ray_sim.solvers.planning.slot_job import SlotJob


class IdleCapacity:
    """Idle capacity of slots, for jobs that train faster with more workers and parameter servers."""

    def __init__(self, world: ElasticContext, jobs: JobsInSlots) -> None:
        self._world = world
        self._jobs = jobs
        self._bundles = bundles(world, world.jobs.batch)

    def given(
        self, available: BoolArray, takers: IntArray, now: BookedPlans, slot: int, counted: Counter[str]
    ) -> BookedPlans:
        """Plans of a slot after idle capacity is given to jobs, in job order.

        Parameters
        ----------
        available : (S,) servers
        takers : jobs, sorted
        now : plans of the slot
        counted : counts of the policy; jobs that get more are added to its ``gifts``
        """
        there = self._world.cluster.capacity * available[:, None]
        demand = self._world.jobs.role_demand
        for number in takers.tolist():
            job = self._jobs.in_slots(number)
            if job is None:
                continue
            usable = self._jobs.may_hold_bundles(number) & available
            speed = partial(self._jobs.speed, job)
            larger = enlarged(
                job, now.of(number), slot, self._bundles, left_free(there, now, demand), usable, speed
            )
            if larger is not None:
                now = now.kept(now.rows[:, JOB] != number).having(number, larger)
                counted["gifts"] += 1
        return now


def enlarged(
    job: SlotJob,
    held: SlotPlan,
    slot: int,
    bundles: Bundles,
    free: IntArray,
    usable: BoolArray,
    speed_of: Callable[[SlotPlan], float],
) -> SlotPlan | None:
    """Enlarge the tasks of a job in a slot; None if it would train no faster.

    The bundles go to the lowest servers with room: to the one server that holds all tasks of the job, or to
    all servers, whichever trains more.

    Parameters
    ----------
    held : planned tasks of the slot, possibly none
    free : (S, R) free quanta
    usable : (S,) servers that the job may use; without demand it would fit on any
    speed_of : speed of the job with these tasks in a slot, in any unit
    """
    workers = int(bundles.workers[job.number])
    if workers == 0:
        return None
    demand = bundles.demand[job.number]
    needed = demand > 0
    most = (job.most_workers - int(held.workers.sum())) // workers
    room = np.where(usable, max(most, 0), 0)
    room[:] = np.minimum(room, (free[:, needed] // demand[needed]).min(axis=1, initial=most))
    best, speed = None, speed_of(held)
    for only in ([held.server] if len(held.server) == 1 else []) + [np.arange(len(free))]:
        count = np.zeros(len(free), dtype=np.int64)
        count[only] = np.diff(np.minimum(np.cumsum(room[only]), most), prepend=0)
        larger = _with_bundles(held, slot, count, workers, int(bundles.ps[job.number]))
        if (then := speed_of(larger)) > speed:
            best, speed = larger, then
    return best


def _with_bundles(held: SlotPlan, slot: int, count: IntArray, workers: int, ps: int) -> SlotPlan:
    tasks = np.outer(count, [workers, ps])
    tasks[held.server] += np.stack([held.workers, held.ps], axis=1)
    server = np.flatnonzero(tasks.any(axis=1))
    return SlotPlan(np.full(len(server), slot), server, tasks[server, 0], tasks[server, 1])


def left_free(capacity: IntArray, plans: BookedPlans, demand: IntArray) -> IntArray:
    """(S, R) quanta that plans of one slot leave free; ``demand`` is (J, 2, R)."""
    free = capacity.copy()
    rows = plans.rows
    np.subtract.at(free, rows[:, SERVER], (rows[:, WORKERS:, None] * demand[rows[:, JOB]]).sum(axis=1))
    return free
