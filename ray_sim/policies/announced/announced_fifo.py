"""Announced jobs in order of arrival, without prices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.policy_api import (
    NO_JOBS,
    AnnouncedContext,
    AnnouncedDecision,
    AnnouncedPolicy,
    AnnouncedView,
    Streams,
)


class AnnouncedFifo(AnnouncedPolicy):
    """Jobs start in order of arrival, as soon as the first of them fits; nobody pays, and none is evicted."""

    name: ClassVar[str] = "announced_fifo"
    section: ClassVar[str] = "docs/models/posted_price.md#baselines"
    summary: ClassVar[str] = "announced jobs in order of arrival, without prices"

    def start(self, world: AnnouncedContext, streams: Streams) -> None:
        """Prepare an empty queue."""
        self._world = world
        self._queue = NO_JOBS

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        """Start the first jobs of the queue that fit together."""
        queue = np.concatenate([self._queue, view.came])
        queue = queue[np.isin(queue, view.waiting)]  # without those that were killed
        gpus = self._world.statements.concurrency
        free = self._world.nodes - int(gpus[view.running].sum())
        n = int(np.searchsorted(np.cumsum(gpus[queue]), free, side="right"))
        self._queue = queue[n:]
        return AnnouncedDecision(changes=view.starts(np.sort(queue[:n])))
