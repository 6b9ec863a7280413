"""Announced jobs by what they are worth per GPU and round, without prices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policy_api import (
    AnnouncedContext,
    AnnouncedDecision,
    AnnouncedPolicy,
    AnnouncedView,
    Streams,
)


class ValueDensity(AnnouncedPolicy):
    """Greedy: jobs that have come start by expected value over expected GPU rounds, were they to start now.

    The expectation is over the reported durations that fit the signal. Jobs that are worth nothing any more
    are rejected. Nobody pays, and none is evicted.
    """

    name: ClassVar[str] = "value_density"
    section: ClassVar[str] = "docs/models/posted_price.md#baselines"
    summary: ClassVar[str] = "announced jobs by value per GPU and round, without prices"

    def start(self, world: AnnouncedContext, streams: Streams) -> None:
        """Prepare the tables of statements."""
        self._world = world

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        """Start jobs in order of density, leaving out those that do not fit."""
        present = view.present
        density = self._density(view, present)
        worthy = present[density > 0]
        order = worthy[np.lexsort((worthy, -density[density > 0]))]
        gpus = self._world.statements.concurrency
        free = self._world.nodes - int(gpus[view.running].sum())
        chosen = []
        for job in order.tolist():
            if gpus[job] <= free:
                chosen.append(job)
                free -= int(gpus[job])
        return AnnouncedDecision(
            changes=view.starts(np.array(sorted(chosen), dtype=np.int64)),
            reject=present[density <= 0],
            reject_reason="worth nothing any more",
        )

    def _density(self, view: AnnouncedView, jobs: IntArray) -> FloatArray:
        """(n,) expected value per GPU round of a start now; 0 where no reported duration fits the signal."""
        signalled = view.signals(jobs)
        pairs = zip(jobs.tolist(), signalled.tolist(), strict=True)
        return np.array([self._of_job(view.round, job, signal) for job, signal in pairs], dtype=np.float64)

    def _of_job(self, now: int, job: int, signal: int) -> float:
        statements = self._world.statements
        outlooks, points = statements.outlooks, statements.points(job)
        fits = outlooks.signal[points] == signal
        duration, weight = outlooks.duration[points][fits], outlooks.probability[points][fits]
        worth = statements.worth(job, now + duration - statements.birth[job])
        gpu_rounds = float((weight * duration).sum()) * int(statements.concurrency[job])
        return float((weight * worth).sum()) / gpu_rounds if gpu_rounds else 0.0
