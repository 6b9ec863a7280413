"""Events that a site reports of its chunks."""

from __future__ import annotations

from ray_sim.kernels.chunked.queue_state import EVENTS, Queues
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.site_events import EVENT_CODE, EVENT_COLUMNS, EVENT_JOB, EVENT_UNIT

EVENT_WORKER, EVENT_LEFT = range(EVENT_UNIT + 1, EVENT_COLUMNS)
"""Columns of `Queues.event` after those of every event: worker, microseconds of training left."""

# Kinds of event: the first column of `Queues.event`.
SERVE, RUN, PAUSE, PREEMPT, DISPLACE, COMPLETE, LOST = range(7)
"""SERVE: gets the worker. RUN, PAUSE: begins, stops making progress there. PREEMPT, DISPLACE: loses the
worker to another chunk, while it made progress, or not. COMPLETE: is done. LOST: its server went."""


@kernel
def report(q: Queues, event: int, row: int) -> None:
    """Append an event of a row; O(1)."""
    n = q.size[EVENTS]
    q.event[n, EVENT_CODE] = event
    q.event[n, EVENT_JOB] = q.job[row]
    q.event[n, EVENT_UNIT] = q.unit[row]
    q.event[n, EVENT_WORKER] = q.worker[row]
    q.event[n, EVENT_LEFT] = q.left[row] - q.owed[row]
    q.size[EVENTS] = n + 1
