"""Statements of work: size, worth and expected times of announced jobs, in rounds.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
section 2. A statement is (V, c, P): what a finish is worth, how many nodes the job holds, and the joint
distribution of its arrival and duration. Rounds are whole slots; values and prices are whole numbers of 1e-9
of a unit, so that sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray

NANO = 1_000_000_000
"""Units of values and prices in one unit of the user's."""

NEVER_ROUND = 2**62
"""Start of a job that is not launched; its price is 0."""


@dataclass(frozen=True, slots=True)
class Outlooks:
    """Distinct distributions of (arrival, duration); row o has points ``ptr[o]`` to ``ptr[o + 1] - 1``.

    Points of a row differ, and are sorted by (arrival, signal, duration).
    """

    ptr: IntArray
    """(O + 1,)"""
    arrival: IntArray
    """(n,) rounds after the birth, >= 0."""
    duration: IntArray
    """(n,) rounds, >= 1."""
    probability: FloatArray
    """(n,) > 0; those of a row sum to 1."""
    signal: IntArray
    """(n,) signal of the duration when the job arrives; a function of the duration."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of J jobs; jobs are in order of birth."""

    birth: IntArray
    """(J,) round in which the statement is submitted, non-decreasing."""
    concurrency: IntArray
    """(J,) nodes held while running, >= 1."""
    value_row: IntArray
    """(J,) row of ``values``."""
    outlook_row: IntArray
    """(J,) row of ``outlooks``."""
    values: IntArray
    """(V, S + 1) worth of a finish k rounds after the birth, non-increasing in k; the last column is 0, and
    so is every later finish."""
    outlooks: Outlooks

    def __len__(self) -> int:
        return len(self.birth)

    def points(self, job: int) -> slice:
        """Points of the distribution of a job, in `outlooks`."""
        row = self.outlook_row[job]
        return slice(self.outlooks.ptr[row], self.outlooks.ptr[row + 1])

    def worth(self, jobs: IntArray | int, delay: IntArray) -> IntArray:
        """Worth of finishes of these jobs, by rounds after their births, in 1e-9 of a unit."""
        worth: IntArray = self.values[self.value_row[jobs], np.minimum(delay, self.values.shape[1] - 1)]
        return worth

    def taken(self, jobs: IntArray | BoolArray) -> Statements:
        """The statements of these jobs."""
        return replace(
            self,
            birth=self.birth[jobs],
            concurrency=self.concurrency[jobs],
            value_row=self.value_row[jobs],
            outlook_row=self.outlook_row[jobs],
        )
