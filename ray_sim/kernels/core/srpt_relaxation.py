"""Preemptive schedule of one machine, one job at a time: the relaxation behind the bounds on JCT.

docs/certificates.md#the-three-bounds explains its use.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.core.heap import push, remove


@kernel
def serve_smallest_first(
    release: I64, key: I64, left: I64, heap: I64, position: I64, flow: I64, moment: F64
) -> None:
    """Serve the released job with the smallest (key, index) at all times, with preemption.

    With ``left`` itself as key this is shortest remaining processing time, which minimises the sum of flow
    times on one machine (Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time
    Discipline, 1968); with a copy of the sizes it is smallest job first. Invariant of the loop: the heap
    holds the released jobs with work left. Each iteration ends at a release or a completion, so there are
    at most 2 J of them; O(J log J). All times are ticks on one grid.

    Parameters
    ----------
    release : (J,) non-decreasing
    left : (J,) sizes, > 0; 0 on return
    heap, position : (J,) work space
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
        # The served job is at the root; its key does not grow, so it stays there without a sift.
        left[job] -= span
        if left[job] == 0:
            flow[job] = now - release[job]
            waiting = remove(heap, 0, waiting, position, key, job)
