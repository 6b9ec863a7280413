"""Upper bounds of failure probabilities, from the distribution of the load of each round."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.posted_price.failure import FailureOracle, OracleState, ring_size, widened
from ray_sim.policies.posted_price.union_kernels import (
    LoadLaws,
    add_law,
    bounded_failures,
    find_laws,
    forget_laws,
)


class UnionFailure(FailureOracle):
    """Sum over rounds of the probability of too high a load (union bound), by convolution of earlier jobs.

    At least the exact probability. A round whose jobs have been observed is convolved anew, in O(jobs C).

    Parameters
    ----------
    capacity, longest : as of `FailureOracle`
    """

    def __init__(self, capacity: int, longest: int) -> None:
        super().__init__(capacity, longest)
        self._laws = _unknown(ring_size(1), capacity)

    def restore(self, state: OracleState) -> None:
        """Continue from a snapshot; see `FailureOracle.restore`."""
        super().restore(state)
        self._laws = _unknown(ring_size(self._jobs.end() - self._round), self._capacity)

    def _pass_rounds(self, until: int) -> None:
        width = len(self._laws.known)
        self._laws.known[np.arange(self._round, min(until, self._round + width)) % width] = 0

    def _reach(self, end: int) -> None:
        width = ring_size(end - self._round)
        if width > len(self._laws.known):
            self._laws = LoadLaws(*(widened(column, self._round, width) for column in self._laws))

    def _added(self, row: int) -> None:
        since = self._round
        add_law(
            self._jobs.jobs_handle,
            self._jobs.points_handle,
            self._laws,
            row,
            since,
            since + len(self._laws.known),
        )

    def _changed(self, rows: IntArray) -> None:
        forget_laws(self._jobs.jobs_handle, self._jobs.points_handle, self._laws, rows, self._round)

    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        jobs, until = self._jobs, birth + sum(failures.shape) - 2
        find_laws(jobs.jobs_handle, jobs.points_handle, self._laws, jobs.count, birth, until)
        bounded_failures(self._laws, birth, concurrency, self._capacity, failures)


def _unknown(width: int, capacity: int) -> LoadLaws:
    """Distributions of ``width`` rounds, none of them known."""
    return LoadLaws(np.zeros((width, capacity + 2)), np.zeros(width, dtype=np.int64))
