"""GPUs of a server as devices: a task asks for a share of one device, or for some that are wholly free.

A matrix of free quanta, (S, R + D), has the free milli-GPU of each device behind the R resources; D is 0 in a
world whose tasks share no device. The devices of a server sum to its GPU quanta, resource `GPU`. Placement
rules and rows of placements call these kernels; `room` says how many tasks fit.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64

GPU = 0
"""Index of GPUs among the resources, where there are devices."""

DEVICE = 1000
"""Quanta of a device."""


@kernel
def _least_sufficient(free: I64, server: int, first: int, ask: int, taken: I64, row: int) -> int:
    """Return the device with the least free that holds a share, ties to the lowest number; -1 for none."""
    best = -1
    for d in range(taken.shape[1]):
        left = free[server, first + d] - taken[row, d]
        if left >= ask and (best < 0 or left < free[server, first + best] - taken[row, best]):
            best = d
    return best


@kernel
def _first_whole(free: I64, server: int, first: int, taken: I64, row: int) -> int:
    """Return the lowest device that is wholly free, -1 for none."""
    for d in range(taken.shape[1]):
        if free[server, first + d] - taken[row, d] == DEVICE:
            return d
    return -1


@kernel
def add_devices(free: I64, server: int, taken: I64 | None, row: int, sign: int) -> None:
    """Add what a row takes of each device of a server to ``free``, (S, R + D), with ``sign`` 1; O(D)."""
    if taken is not None:
        first = free.shape[1] - taken.shape[1]
        for d in range(taken.shape[1]):
            free[server, first + d] += sign * taken[row, d]


@kernel
def copy_devices(source: I64 | None, row: int, target: I64 | None, to: int) -> None:
    """Copy what a row takes of each device to another row; O(D)."""
    if source is not None and target is not None:
        for d in range(target.shape[1]):
            target[to, d] = source[row, d]


@kernel
def hold_devices(
    free: I64, server: int, ask: int, tasks: int, named: I64 | None, row: int, held: I64 | None, to: int
) -> None:
    """Set row ``to`` of ``held`` to the devices that a row names, or to the default ones; O(tasks x D)."""
    if held is not None:
        if named is None:
            choose_devices(free, server, free.shape[1] - held.shape[1], ask, tasks, held, to)
        else:
            copy_devices(named, row, held, to)


@outlined
def choose_devices(free: I64, server: int, first: int, ask: int, tasks: int, taken: I64, row: int) -> bool:
    """Give tasks, one after another, devices of a server; return whether all found theirs; O(tasks x D).

    Parameters
    ----------
    free : (S, R + D) quanta without the row; not changed
    first : R, column of the first device
    ask : milli-GPU of a task; 0 takes no device
    taken : (rows, D); its ``row`` is set to the milli-GPU that all tasks take of each device
    """
    for d in range(taken.shape[1]):
        taken[row, d] = 0
    for _ in range(tasks):
        left = ask
        while left > 0:
            if ask < DEVICE:
                device = _least_sufficient(free, server, first, ask, taken, row)
            else:
                device = _first_whole(free, server, first, taken, row)
            if device < 0:
                return False
            taken[row, device] += min(ask, DEVICE)
            left -= DEVICE
    return True
