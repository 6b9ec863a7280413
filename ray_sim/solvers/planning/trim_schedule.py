"""Trim a schedule: remove tasks that are not needed, since quanta and tasks are rounded up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.units import IntArray, tolerant_ceil
from ray_sim.solvers.planning.slot_costs import SlotTasks
from ray_sim.solvers.planning.slot_job import SlotJob

_TOLERANCE = 1e-9
"""Relative number of samples that may be missing, as in the tolerant ceil that counts workers."""


def samples_trained(job: SlotJob, held: IntArray) -> float:
    """Samples per slot of (n, 2) tasks on n servers; tasks on one server train at the internal rate."""
    on_one = np.count_nonzero(held.any(axis=1)) == 1
    return job.samples_trained(int(held[:, WORKER].sum()), on_one_server=on_one)


def trim(job: SlotJob, slots: Sequence[SlotTasks]) -> list[SlotTasks]:
    """Remove workers while the work is still done, the most expensive first; then parameter servers.

    Slots are visited by falling cost per worker, the last of equals first; in a slot the most expensive
    worker is removed, on the lowest server of equals. Slots without workers are dropped.

    Raises
    ------
    ValueError : the schedule does not do all the work
    """
    held = [each.held.copy() for each in slots]
    trained = [samples_trained(job, each) for each in held]
    enough = job.samples * (1 - _TOLERANCE)
    if sum(trained) < enough:
        raise ValueError(f"job {job.number}: {sum(trained):g} samples of {job.samples:g}")
    changed = True
    while changed:
        changed = False
        for i in _dearest_first(slots, held):
            while (fewer := _without_a_worker(slots[i], held[i])) is not None:
                then = samples_trained(job, fewer)
                if sum(trained[:i]) + then + sum(trained[i + 1 :]) < enough:
                    break
                held[i], trained[i], changed = fewer, then, True
        for i, tasks in enumerate(slots):
            changed |= _drop_idle_ps(job, tasks, held[i])
            trained[i] = samples_trained(job, held[i])
    kept = [(tasks, rows, rows.any(axis=1)) for tasks, rows in zip(slots, held, strict=True) if rows.any()]
    return [SlotTasks(t.slot, t.server[some], rows[some], t.price[some]) for t, rows, some in kept]


def _dearest_first(slots: Sequence[SlotTasks], held: Sequence[IntArray]) -> list[int]:
    workers = [int(rows[:, WORKER].sum()) for rows in held]
    per_worker = [
        float((tasks.price * rows).sum()) / max(n, 1)
        for tasks, rows, n in zip(slots, held, workers, strict=True)
    ]
    busy = [i for i, n in enumerate(workers) if n > 0]
    return sorted(busy, key=lambda i: (-per_worker[i], -slots[i].slot))


def _without_a_worker(tasks: SlotTasks, held: IntArray) -> IntArray | None:
    some = np.flatnonzero(held[:, WORKER] > 0)
    if len(some) == 0:
        return None
    fewer = held.copy()
    fewer[some[np.argmax(tasks.price[some, WORKER])], WORKER] -= 1
    return fewer


def _drop_idle_ps(job: SlotJob, tasks: SlotTasks, held: IntArray) -> bool:
    """Remove unneeded parameter servers, the most expensive first (ties: lowest server); whether any."""
    needed = tolerant_ceil(int(held[:, WORKER].sum()) / job.workers_per_ps)
    extra = int(held[:, PARAMETER_SERVER].sum()) - needed
    for _ in range(extra):
        some = np.flatnonzero(held[:, PARAMETER_SERVER] > 0)
        held[some[np.argmax(tasks.price[some, PARAMETER_SERVER])], PARAMETER_SERVER] -= 1
    return extra > 0
