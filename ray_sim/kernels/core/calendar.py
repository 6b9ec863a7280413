"""Calendars: heaps of jobs by (time, job), of completions and of crossings of limits.

The time of each job stands in an array of the caller, (J,), NEVER for a job that has none. Invariant between
calls: the calendar holds its jobs in the order of these times.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, NEVER, Calendar
from ray_sim.kernels.core.heap import push, rekey, remove


@kernel
def schedule(calendar: Calendar, times: I64, job: int, time: int) -> None:
    """Insert a job at a time, or move it there; O(log n)."""
    if calendar.position[job] >= 0:
        rekey(calendar.heap, 0, calendar.size[0], calendar.position, times, job, time)
    else:
        times[job] = time
        calendar.size[0] = push(calendar.heap, 0, calendar.size[0], calendar.position, times, job)


@kernel
def unschedule(calendar: Calendar, times: I64, job: int) -> None:
    """Remove a job; its time stays in ``times``; O(log n)."""
    calendar.size[0] = remove(calendar.heap, 0, calendar.size[0], calendar.position, times, job)


@kernel
def next_time(calendar: Calendar, times: I64) -> int:
    """Return the time of the first job, NEVER if the calendar is empty; O(1)."""
    return times[calendar.heap[0]] if calendar.size[0] > 0 else NEVER


@kernel
def is_due(calendar: Calendar, times: I64, now: int) -> bool:
    """Whether the time of the first job is now; O(1)."""
    return bool(calendar.size[0] > 0 and times[calendar.heap[0]] == now)
