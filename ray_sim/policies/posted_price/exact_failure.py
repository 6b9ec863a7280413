"""Exact failure probabilities, by enumeration of what may still become of earlier jobs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import FloatArray
from ray_sim.policies.posted_price.failure import FailureOracle
from ray_sim.policies.posted_price.failure_kernels import (
    JobRows,
    PointRows,
    accumulate,
    add_load,
    ring_size,
    tally,
)

MOST_POINTS = 1_000_000
"""Largest number of joint points of earlier jobs that is enumerated."""


class ExactFailure(FailureOracle):
    """Enumeration of the product of the remaining points of earlier jobs, with Bayes weights.

    A question that the total load of these jobs answers (nothing can fail) needs no enumeration.
    """

    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        """Write the probabilities.

        Raises
        ------
        InvalidScenarioError : there are more than `MOST_POINTS` joint points
        """
        jobs, points, slots = self._jobs, self._points, np.flatnonzero(self._loaded())
        joint = math.prod((jobs.high - jobs.low)[slots].tolist())
        if joint > MOST_POINTS:
            raise InvalidScenarioError(
                f"failure_oracle=exact: would enumerate {joint:,} joint points of the {len(slots):,} active "
                f"jobs born before it, at most {MOST_POINTS:,} are allowed; use failure_oracle=sampled, "
                "or announce jobs by outlooks of fewer points"
            )
        ends = (points.start + points.duration)[: self._points_used]
        last_end = int(ends[points.start[: self._points_used] < NEVER_ROUND].max(initial=0))
        rounds = max(birth + sum(failures.shape) - 2, last_end) - birth
        work = Enumeration(
            slots=slots,
            chosen=np.zeros_like(slots),
            weight=np.ones(len(slots) + 1),
            load=np.zeros(ring_size(rounds), dtype=np.int64),
            total=np.array([points.probability[jobs.low[k] : jobs.high[k]].sum() for k in slots]),
        )
        asked = (birth, concurrency, self._capacity, failures)
        enumerated_failures(self._jobs_handle, self._points_handle, work, *asked)


class Enumeration(NamedTuple):
    """Work space of `enumerated_failures` for n jobs."""

    slots: I64
    """(n,) jobs with load, by row."""
    chosen: I64
    """(n,) point of each job."""
    weight: F64
    """(n + 1,) probability of the points of the first jobs; the first element is 1."""
    load: I64
    """(W,) zeros, by round modulo W; holds all rounds asked for and all in which a job may run."""
    total: F64
    """(n,) prior probability of the remaining points of each job."""


@outlined
def enumerated_failures(
    jobs: JobRows,
    points: PointRows,
    work: Enumeration,
    birth: int,
    concurrency: int,
    capacity: int,
    failures: F64,
) -> None:
    """Write the probability that a job fails, by depth-first enumeration of the points of earlier jobs.

    O(product of the numbers of points) times O(rounds + D).
    """
    depth, deepest = 0, len(work.slots) - 1
    if deepest < 0:
        tally(work.load, birth, concurrency, capacity, 1.0, failures)
        depth = -1
    else:
        work.chosen[0] = jobs.low[work.slots[0]] - 1
    while depth >= 0:
        slot, point = work.slots[depth], work.chosen[depth]
        nodes = jobs.concurrency[slot]
        if point >= jobs.low[slot]:
            add_load(work.load, points, point, birth, -nodes)
        point += 1
        if point == jobs.high[slot]:
            depth -= 1
            continue
        work.chosen[depth] = point
        add_load(work.load, points, point, birth, nodes)
        work.weight[depth + 1] = work.weight[depth] * points.probability[point] / work.total[depth]
        if depth == deepest:
            tally(work.load, birth, concurrency, capacity, work.weight[depth + 1], failures)
        else:
            depth += 1
            work.chosen[depth] = jobs.low[work.slots[depth]] - 1
    accumulate(failures, 1.0)
