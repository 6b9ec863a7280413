"""Time of training of each job, weighted by a number that changes along a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.states import State, all_within
from ray_sim.kernels.core.arrays import Books, Ledger
from ray_sim.kernels.core.progress import executed_of
from ray_sim.kernels.elastic.training import TimeWeights, book_weighted
from ray_sim.kernels.handle import handle
from ray_sim.model.units import FloatArray, IntArray


def trained_us(ledger: Ledger, jobs: IntArray, now_us: int) -> IntArray:
    """(n,) microseconds in which each job has trained so far."""
    ran = np.empty(len(jobs), dtype=np.int64)
    executed_of(ledger, jobs, now_us, ran)
    return ran


class WeightedTime:
    """Microseconds of training of each job, each times the job's weight in it; a weight is 0 at first."""

    def __init__(self, jobs: int) -> None:
        self._weight: FloatArray = np.zeros(jobs)
        self._booked_us: IntArray = np.zeros(jobs, dtype=np.int64)
        self.weighted_us: FloatArray = np.zeros(jobs)
        """(J,) as booked."""
        self._time = handle(TimeWeights(self._weight, self._booked_us, self.weighted_us))

    def book(self, now_us: int, books: Books, jobs: IntArray) -> None:
        """Book the time that the jobs have trained; call it before their weights change."""
        book_weighted(now_us, books, self._time, jobs)

    def weigh(self, jobs: IntArray, weight: FloatArray) -> None:
        """Set the weights, (n,), of jobs from now on."""
        self._weight[jobs] = weight

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            "weight": self._weight.copy(),
            "booked_us": self._booked_us.copy(),
            "weighted_us": self.weighted_us.copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within(state)
        self._weight[:] = state["weight"]
        self._booked_us[:] = state["booked_us"]
        self.weighted_us[:] = state["weighted_us"]
