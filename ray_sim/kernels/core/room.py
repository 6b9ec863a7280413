"""Number of tasks for which a server has room; placement rules and verdicts call these kernels."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.devices import DEVICE, GPU


@kernel
def room(free: I64, server: int, demand: I64, wanted: int) -> int:
    """Return the number of tasks, at most ``wanted``, for which the resources of a server have room."""
    fit = wanted
    for r in range(len(demand)):
        if demand[r] > 0:
            if free[server, r] < demand[r]:
                return 0
            if free[server, r] < fit * demand[r]:
                fit = free[server, r] // demand[r]
    return fit


@kernel
def holds_all(free: I64, server: int, demand: I64, tasks: int) -> bool:
    """Whether the resources of a server have room for all these tasks."""
    for r in range(len(demand)):
        if demand[r] > 0 and free[server, r] < tasks * demand[r]:
            return False
    return True


@outlined
def device_room(free: I64, server: int, first: int, ask: int, wanted: int) -> int:
    """Return the tasks, at most ``wanted``, for which the devices of a server have room; O(D).

    Parameters
    ----------
    free : (S, R + D) quanta
    first : R, column of the first device
    ask : milli-GPU of a task, > 0: less than a device, or whole devices
    """
    fit = 0
    for d in range(first, free.shape[1]):
        if ask < DEVICE:
            fit += max(free[server, d], 0) // ask
        elif free[server, d] == DEVICE:
            fit += 1
    if ask > DEVICE:
        fit = fit * DEVICE // ask
    return min(fit, wanted)


@outlined
def task_room(free: I64, server: int, demand: I64, wanted: int) -> int:
    """Return `room`, also of the server's devices where ``free`` has them, (S, R + D)."""
    fit = room(free, server, demand, wanted)
    if fit > 0 and free.shape[1] > len(demand) and demand[GPU] > 0:
        fit = device_room(free, server, len(demand), demand[GPU], fit)
    return fit
