"""Facts about job classes that stay for a run: gangs that fit on one server, gangs that never fit.

Each function visits every server for every class, O(C S), once before a run.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER, Bool, WorldArrays
from ray_sim.kernels.core.placement import gang_total, in_pool, place, unit_pool
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.kernels.core.room import room, task_room

FITS, EXCEEDS_CAPACITY, BREAKS_PLACEMENT = range(3)


@kernel
def find_single_server_classes(arrays: WorldArrays, total: I64) -> None:
    """Set `class_single`: whether the gang fits on one empty server of its pool.

    ``total``, (R,), is work space.
    """
    single = arrays.class_single
    for c in range(arrays.part_class_ptr[0], len(single)):
        job = arrays.class_job[c]
        q, tasks = unit_pool(arrays, job), arrays.gang[job, WORKER]
        gang_total(arrays, job, total)
        for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
            server = arrays.pool_servers[i]
            workers = task_room(arrays.empty, server, arrays.demand[job, WORKER], tasks)
            if workers == tasks and room(arrays.capacity, server, total, 1) == 1:
                single[c] = True
                break


@kernel
def judge_capacity(arrays: WorldArrays, verdict: I64) -> None:
    """Set ``verdict``, (C,): `FITS` if its empty pool can hold the gang, else `EXCEEDS_CAPACITY`."""
    verdict[:] = EXCEEDS_CAPACITY
    for c in range(arrays.part_class_ptr[0], len(verdict)):
        job = arrays.class_job[c]
        q, left = arrays.class_pool[c, WORKER], arrays.gang[job, WORKER]
        for i in range(arrays.pool_ptr[q], arrays.pool_ptr[q + 1]):
            left -= task_room(arrays.empty, arrays.pool_servers[i], arrays.demand[job, WORKER], left)
            if left == 0:
                verdict[c] = FITS
                break


@kernel
def judge_smallest(arrays: WorldArrays, verdict: I64) -> None:
    """Set ``verdict``, (C,): `FITS` if its empty pools hold one task per role, else `EXCEEDS_CAPACITY`.

    One worker and, unless the job asks for none, one parameter server is the least with which an elastic
    job trains. They fit if one server holds both, or if two different servers hold one each.
    """
    verdict[:] = EXCEEDS_CAPACITY
    for c in range(arrays.part_class_ptr[0], len(verdict)):
        job = arrays.class_job[c]
        p, pools = arrays.job_part[job], arrays.class_pool[c]
        workers, servers_of_ps, either, both = 0, 0, 0, 0
        for i in range(arrays.pool_ptr[p], arrays.pool_ptr[p + 1]):
            server = arrays.pool_servers[i]
            worker = in_pool(arrays, pools[WORKER], server)
            worker = worker and room(arrays.capacity, server, arrays.demand[job, WORKER], 1) == 1
            ps = in_pool(arrays, pools[PARAMETER_SERVER], server)
            ps = ps and room(arrays.capacity, server, arrays.demand[job, PARAMETER_SERVER], 1) == 1
            workers += worker
            servers_of_ps += ps
            either += worker or ps
            if worker and ps:
                together = True
                for r in range(arrays.capacity.shape[1]):
                    least = arrays.demand[job, WORKER, r] + arrays.demand[job, PARAMETER_SERVER, r]
                    together = together and least <= arrays.capacity[server, r]
                both += together
        alone = arrays.gang[job, PARAMETER_SERVER] == 0
        apart = workers > 0 and servers_of_ps > 0 and either > 1
        if (alone and workers > 0) or both > 0 or apart:
            verdict[c] = FITS


@kernel
def judge_placement(rule: int, arrays: WorldArrays, there: Bool, verdict: I64, scratch: Scratch) -> None:
    """Change `FITS` to `BREAKS_PLACEMENT` for gangs that the rule cannot place in an empty partition.

    ``there`` is (S,) servers that count.
    """
    free = arrays.empty
    for c in range(len(verdict)):
        if verdict[c] == FITS and place(rule, arrays, arrays.class_job[c], free, there, scratch) == 0:
            verdict[c] = BREAKS_PLACEMENT
