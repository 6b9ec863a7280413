"""Exact failure probabilities, by enumeration of what may still become of earlier jobs."""

from __future__ import annotations

import math

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import FloatArray
from ray_sim.policies.posted_price.exact_kernels import Enumeration, enumerated_failures
from ray_sim.policies.posted_price.failure import FailureOracle, ring_size

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
        jobs, points, rows = self._jobs.jobs, self._jobs.points, self._jobs.loaded()
        joint = math.prod((jobs.high - jobs.low)[rows].tolist())
        if joint > MOST_POINTS:
            raise InvalidScenarioError(
                f"failure_oracle=exact: would enumerate {joint:,} joint points of the {len(rows):,} active "
                f"jobs born before it, at most {MOST_POINTS:,} are allowed; use failure_oracle=sampled, "
                "or announce jobs by outlooks of fewer points"
            )
        until = max(birth + sum(failures.shape) - 2, self._jobs.end())
        load = np.zeros(ring_size(until - birth), dtype=np.int64)
        total = np.array([points.probability[jobs.low[row] : jobs.high[row]].sum() for row in rows])
        work = Enumeration(rows, np.zeros_like(rows), np.ones(len(rows) + 1), load, total)
        enumerated_failures(
            self._jobs.jobs_handle,
            self._jobs.points_handle,
            work,
            birth,
            concurrency,
            self._capacity,
            failures,
        )
