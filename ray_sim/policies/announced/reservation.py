"""Announced jobs in fixed windows that are reserved at their births, without prices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.policy_api import (
    AnnouncedContext,
    AnnouncedDecision,
    AnnouncedPolicy,
    AnnouncedView,
    Streams,
)

REFUSED = -1


class Reservation(AnnouncedPolicy):
    """Each job reserves one window of rounds at its birth, and holds its GPUs there whether it runs or not.

    A job starts when it has come and its window has begun, and is evicted at the end of the window. The
    window is the one of most expected value that is still free; ties go to the shortest, then the earliest.
    Windows begin at a reported arrival and end where a run from a reported arrival may end.
    """

    name: ClassVar[str] = "reservation"
    section: ClassVar[str] = "docs/models/posted_price.md#baselines"
    summary: ClassVar[str] = "announced jobs in windows reserved at their births, without prices"

    def start(self, world: AnnouncedContext, streams: Streams) -> None:
        """Prepare an empty calendar."""
        self._world = world
        statements = world.statements
        points = statements.outlooks
        latest = 2 * int(points.arrival.max(initial=0)) + int(points.duration.max(initial=0))
        known = int(statements.birth.max(initial=0)) + latest
        self._reserved = np.zeros(
            (known if world.rounds is None else min(known, world.rounds)) + 1, dtype=np.int64
        )
        self._first = np.full(len(statements), REFUSED)
        self._end = np.full(len(statements), REFUSED)

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        """Reserve for new jobs, evict those whose windows end, and start those that have come."""
        refused = np.array([job for job in view.arrived.tolist() if not self._reserve(job)], dtype=np.int64)
        now, active = view.round, np.union1d(view.waiting, view.running)
        over = active[(self._end[active] <= now) & (self._end[active] != REFUSED)]
        present = np.setdiff1d(view.present, np.union1d(refused, over))
        due = present[self._first[present] <= now]
        return AnnouncedDecision(
            changes=view.starts(due, np.intersect1d(over, view.running)),
            reject=refused,
            reject_reason="no window is free",
            evict=over,
        )

    def _reserve(self, job: int) -> bool:
        """Reserve the best window of a job; False where none is free and worth something."""
        statements = self._world.statements
        points = statements.points(job)
        arrival = statements.outlooks.arrival[points] + statements.birth[job]
        duration = statements.outlooks.duration[points]
        weight = statements.outlooks.probability[points]
        gpus = int(statements.concurrency[job])
        best, window = (0.0, 0), None
        for first in np.unique(arrival).tolist():
            finish = np.maximum(arrival, first) + duration
            for end in np.unique(finish).tolist():
                worth = statements.worth(job, finish - statements.birth[job])
                value = float((worth * (weight * (finish <= end))).sum())
                rank = (value, first - end)
                inside = end < len(self._reserved)  # windows that end after the horizon serve nobody
                fits = inside and self._reserved[first:end].max(initial=0) + gpus <= self._world.nodes
                if value > 0 and rank > best and fits:
                    best, window = rank, (first, end)
        if window is None:
            return False
        self._first[job], self._end[job] = window
        self._reserved[window[0] : window[1]] += gpus
        return True
