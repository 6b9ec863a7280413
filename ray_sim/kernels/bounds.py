"""One machine that serves one job at a time and may preempt: the relaxation behind the JCT bounds."""

from __future__ import annotations

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.heap import push, remove


@kernel
def serve_smallest_first(
    release: I64, key: I64, left: I64, heap: I64, position: I64, flow: I64, moment: F64
) -> None:
    """Always serve the available job with the smallest (key, index), preempting any other.

    With ``left`` itself as key, that is the shortest remaining time first; with a copy of the sizes,
    the smallest job first. O(n log n). All times are ticks on one grid.

    Parameters
    ----------
    release : (J,) non-decreasing
    left : (J,) sizes, > 0; 0 on return
    heap, position : (J,) working space
    flow : (J,) set to completion minus release
    moment : (J,) zeros; set to the time since release, added up over the job's work, in ticks^2
    """
    arrived, waiting, now = 0, 0, 0
    while arrived < len(release) or waiting > 0:
        if waiting == 0:
            now = release[arrived]
        while arrived < len(release) and release[arrived] <= now:
            waiting = push(heap, 0, waiting, position, key, arrived)
            arrived += 1
        job = heap[0]
        span = left[job]
        if arrived < len(release):
            span = min(span, release[arrived] - now)
        moment[job] += span * (now - release[job] + 0.5 * span)
        now += span
        # A served job is on top of the heap, and only rises as its work shrinks.
        left[job] -= span
        if left[job] == 0:
            flow[job] = now - release[job]
            waiting = remove(heap, 0, waiting, position, key, job)
