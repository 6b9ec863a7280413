"""Exact validation of a decision's changes against servers, jobs and free capacity."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    I64,
    MOST_TASKS,
    PARAMETER_SERVER,
    RUNNING,
    WAITING,
    WORKER,
    Books,
    Changes,
)
from ray_sim.kernels.core.devices import DEVICE, GPU, choose_devices
from ray_sim.kernels.core.placement import in_pool
from ray_sim.kernels.core.placement_rows import add_placement
from ray_sim.kernels.core.queue_dispatch import copy_matrix

(
    OK,
    NOT_SORTED,
    NO_SUCH_JOB,
    NOT_ACTIVE,
    NO_SUCH_SERVER,
    WRONG_PARTITION,
    BAD_COUNT,
    BAD_ROLE,
    NOT_A_GANG,
    NOT_THERE,
    OVER_CAPACITY,
    NOTHING_HELD,
    BROKEN,
    WRONG_TYPE,
    NO_DEVICE,
    OTHER_DEVICES,
) = range(16)


@kernel
def _hangs_together(changes: Changes) -> bool:
    """Whether all indices into the arrays of the changes are in range: kernels do not check them."""
    n = changes.size[0]
    if n < 0 or n > len(changes.job) or n > len(changes.order) or n >= len(changes.ptr):
        return False
    rows = min(len(changes.server), len(changes.role), len(changes.tasks))
    for i in range(n):
        if changes.order[i] < 0 or changes.order[i] >= n:
            return False
        if changes.ptr[i] < 0 or changes.ptr[i] > changes.ptr[i + 1] or changes.ptr[i + 1] > rows:
            return False
    return True


@kernel
def _fits_devices(changes: Changes, named: I64 | None, device: I64 | None) -> bool:
    """Whether devices that are named are those of the servers, one row for each of the changes."""
    if named is None:
        return True
    if device is None:
        return False
    rows = changes.ptr[changes.size[0]]
    return bool(named.shape[1] == device.shape[1] and len(named) >= rows)


@kernel
def _take_devices(
    server: int, tasks: int, ask: int, named: I64 | None, row: int, free: I64, device: I64 | None
) -> int:
    """Subtract the devices of a row, named or default, from ``free``; return its fault.

    ``ask`` is the milli-GPU of a task. Named devices must be some that the row's tasks can take.
    """
    if device is None:
        return OK
    first, total = free.shape[1] - device.shape[1], 0
    if named is None:
        if not choose_devices(free, server, first, ask, tasks, device, 0):
            return NO_DEVICE
    else:
        for d in range(device.shape[1]):
            taken = named[row, d]
            if taken < 0 or (taken > 0 and (ask == 0 or taken % min(ask, DEVICE) != 0)):
                return OTHER_DEVICES
            total += taken
            device[0, d] = taken
        if total != tasks * ask:
            return OTHER_DEVICES
    for d in range(device.shape[1]):
        if device[0, d] > free[server, first + d]:
            return NO_DEVICE
        free[server, first + d] -= device[0, d]
    return OK


@kernel
def check_changes(
    books: Books,
    changes: Changes,
    evicted: I64,
    elastic: bool,
    least: int,
    free: I64,
    device: I64 | None,
) -> tuple[int, int, int]:
    """Return the first fault of the changes as (fault, job, server), or (OK, -1, -1).

    Placements of ``evicted`` and of all changed jobs are released first, then each row of the changes is
    checked and subtracted, so that jobs may swap servers. No job is both evicted and changed.
    O(S R + rows x R).

    Parameters
    ----------
    least : fewest tasks of a row
    free : (S, R + D) work space; if there is no fault, set to the quanta left free
    device : (1, D) work space: milli-GPU that a row takes of each device; None where tasks share none
    """
    if not (_hangs_together(changes) and _fits_devices(changes, changes.device, device)):
        return BROKEN, -1, -1
    arrays, ledger, pool = books.arrays, books.ledger, books.pool
    copy_matrix(pool.free, free)
    for job in evicted:
        add_placement(arrays, pool, job, 1, free)
    for k in range(changes.size[0]):
        job = changes.job[changes.order[k]]
        if job < 0 or job >= len(arrays.submit):
            return NO_SUCH_JOB, job, -1
        if k > 0 and changes.job[changes.order[k - 1]] >= job:
            return NOT_SORTED, job, -1
        if ledger.status[job] != WAITING and ledger.status[job] != RUNNING:
            return NOT_ACTIVE, job, -1
        add_placement(arrays, pool, job, 1, free)
    for i in range(changes.size[0]):
        job = changes.job[i]
        workers = 0
        for k in range(changes.ptr[i], changes.ptr[i + 1]):
            server, role, count = changes.server[k], changes.role[k], changes.tasks[k]
            if server < 0 or server >= len(arrays.capacity):
                return NO_SUCH_SERVER, job, server
            if arrays.server_part[server] != arrays.job_part[job]:
                return WRONG_PARTITION, job, server
            if not pool.there[server]:
                return NOT_THERE, job, server
            if role < WORKER or role > PARAMETER_SERVER or role >= arrays.demand.shape[1]:
                return BAD_ROLE, job, server
            if not in_pool(arrays, arrays.class_pool[arrays.job_class[job], role], server):
                return WRONG_TYPE, job, server
            if count < least or count > MOST_TASKS or (not elastic and count > arrays.gang[job, role]):
                return BAD_COUNT, job, server
            if k > changes.ptr[i]:
                before, role_before = changes.server[k - 1], changes.role[k - 1]
                if before > server or (before == server and role_before >= role):
                    return NOT_SORTED, job, server
            for r in range(arrays.demand.shape[2]):
                free[server, r] -= count * arrays.demand[job, role, r]
                if free[server, r] < 0:
                    return OVER_CAPACITY, job, server
            ask = arrays.demand[job, role, GPU]
            fault = _take_devices(server, count, ask, changes.device, k, free, device)
            if fault != OK:
                return fault, job, server
            if role == WORKER:
                workers += count
        held = pool.head[job] >= 0
        if changes.ptr[i + 1] == changes.ptr[i]:
            if not held:
                return NOTHING_HELD, job, -1
        elif not elastic and workers != arrays.gang[job, WORKER]:
            return NOT_A_GANG, job, -1
    return OK, -1, -1
