"""Give capacity that no plan uses to admitted jobs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.booked_plans import JOB, SERVER, WORKERS, BookedPlans
from ray_sim.policies.shared.bundles import Bundles
from ray_sim.solvers.planning.market import SlotPlan
from ray_sim.solvers.planning.slot_job import SlotJob


def enlarged(
    job: SlotJob,
    held: SlotPlan,
    slot: int,
    bundles: Bundles,
    free: IntArray,
    speed_of: Callable[[SlotPlan], float],
) -> SlotPlan | None:
    """Enlarge the tasks of a job in a slot; None if it would train no faster.

    The bundles go to the lowest servers with room: to the one server that holds all tasks of the job, or to
    all servers, whichever trains more.

    Parameters
    ----------
    held : planned tasks of the slot, possibly none
    free : (S, R) free quanta, 0 on servers that the job may not use
    speed_of : speed of the job with these tasks in a slot, in any unit
    """
    workers = int(bundles.workers[job.number])
    if workers == 0:
        return None
    demand = bundles.demand[job.number]
    needed = demand > 0
    most = (job.most_workers - int(held.workers.sum())) // workers
    room = np.full(len(free), max(most, 0))
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
