"""Sorted list of the running jobs of a partition, by (due, job).

A list is the slice of `RunningList.order` from ``lo`` on with ``n`` entries; an entry is the number of a
slot.
Slots keep the data of running jobs side by side and are reused: arrays over all jobs would miss the
processor's cache at each access. Invariant after `sort`: entries increase by (due, job).
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Pool, WorldArrays
from ray_sim.kernels.core.placement_rows import add_placement
from ray_sim.kernels.core.queue_arrays import RunningList


@kernel
def comes_before(running: RunningList, slot: int, due: int, job: int) -> bool:
    """Whether the running job of a slot precedes (due, job)."""
    return bool(running.due[slot] < due or (running.due[slot] == due and running.job[slot] < job))


@kernel
def first_after(running: RunningList, lo: int, n: int, visited: int, due: int, job: int) -> int:
    """Return the first entry from ``visited`` on that does not precede (due, job); bisection, O(log n)."""
    low, high = visited, n
    while low < high:
        middle = (low + high) >> 1
        if comes_before(running, running.order[lo + middle], due, job):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insert(running: RunningList, lo: int, n: int, job: int, due: int, server: int, quanta: int) -> None:
    """Insert a job in order into a list of n entries with room for one more.

    O(log n) to find the place, O(n) to shift the entries behind it.
    """
    if running.top[0] > 0:
        running.top[0] -= 1
        slot = running.spare[running.top[0]]
    else:
        slot = running.top[1]
        running.top[1] += 1
    running.job[slot], running.due[slot] = job, due
    running.server[slot], running.quanta[slot] = server, quanta
    running.slot[job] = slot
    at = lo + first_after(running, lo, n, 0, due, job)
    for k in range(lo + n, at, -1):
        running.order[k] = running.order[k - 1]
    running.order[at] = slot


@kernel
def drop(running: RunningList, lo: int, n: int, job: int) -> int:
    """Remove a job from a list of n entries; O(log n) to find it, O(n) to shift entries.

    Returns the slot, whose content stays until the next `insert`.
    """
    slot = running.slot[job]
    at = lo + first_after(running, lo, n, 0, running.due[slot], job)
    if at >= lo + n or running.order[at] != slot:
        at = lo  # jobs at different speeds overtake each other until the next `sort`: search linearly
        while running.order[at] != slot:
            at += 1
    for k in range(at, lo + n - 1):
        running.order[k] = running.order[k + 1]
    running.spare[running.top[0]] = slot
    running.top[0] += 1
    return slot


@kernel
def sort(running: RunningList, lo: int, n: int) -> None:
    """Insertion sort by (due, job); O(n + inversions), few from one instant to the next."""
    for i in range(lo + 1, lo + n):
        slot = running.order[i]
        k = i
        while k > lo and comes_before(
            running, slot, running.due[running.order[k - 1]], running.job[running.order[k - 1]]
        ):
            running.order[k] = running.order[k - 1]
            k -= 1
        running.order[k] = slot


@kernel
def single_row(arrays: WorldArrays, pool: Pool, job: int) -> tuple[int, int]:
    """Return server and quanta of a placement of one row in one resource; (-1, 0) for any other."""
    row = pool.head[job]
    if pool.row_next[row] >= 0 or pool.free.shape[1] > 1:
        return -1, 0
    return pool.row_server[row], pool.row_count[row] * arrays.demand[job, pool.row_role[row], 0]


@kernel
def give_back(running: RunningList, slot: int, arrays: WorldArrays, pool: Pool, free: I64) -> None:
    """Add the quanta that the running job of a slot holds to ``free``; O(rows x R)."""
    if running.server[slot] >= 0:
        free[running.server[slot], 0] += running.quanta[slot]
        return
    add_placement(arrays, pool, running.job[slot], 1, free)


@kernel
def claim_place(running: RunningList, slot: int, arrays: WorldArrays, pool: Pool, claimable: I64) -> bool:
    """Subtract a running job from ``claimable`` if all of it is still there; return whether it was.

    On failure the rows are added again, so ``claimable`` is unchanged. O(rows x R).
    """
    if running.server[slot] >= 0:
        if claimable[running.server[slot], 0] < running.quanta[slot]:
            return False
        claimable[running.server[slot], 0] -= running.quanta[slot]
        return True
    job = running.job[slot]
    add_placement(arrays, pool, job, -1, claimable)
    row = pool.head[job]
    while row >= 0:  # after all rows: two roles on one server must fit together
        for r in range(claimable.shape[1]):
            if claimable[pool.row_server[row], r] < 0:
                add_placement(arrays, pool, job, 1, claimable)
                return False
        row = pool.row_next[row]
    return True
