"""Events that a site reports of its chunks."""

from __future__ import annotations

from ray_sim.kernels.chunked.queue_state import EVENTS, Queues
from ray_sim.kernels.compile import kernel

# Kinds of event: the first column of `Queues.event`.
SERVE, RUN, PAUSE, PREEMPT, DISPLACE, COMPLETE, LOST = range(7)
"""SERVE: gets the worker. RUN, PAUSE: begins, stops making progress there. PREEMPT, DISPLACE: loses the
worker to another chunk, while it made progress, or not. COMPLETE: is done. LOST: its server went."""


@kernel
def report(q: Queues, event: int, row: int) -> None:
    """Append an event of a row; O(1)."""
    n = q.size[EVENTS]
    q.event[n, 0] = event
    q.event[n, 1] = q.job[row]
    q.event[n, 2] = q.unit[row]
    q.event[n, 3] = q.worker[row]
    q.event[n, 4] = q.left[row] - q.owed[row]
    q.size[EVENTS] = n + 1
