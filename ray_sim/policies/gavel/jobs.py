"""Jobs as a computation of shares sees them; the programmes of this package take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policy_api import State


@dataclass(frozen=True, slots=True)
class JobsNow:
    """J jobs that have arrived and not ended, P pairs of them that may share GPUs, and T GPU types.

    Types are in alphabetical order. An *entry* is a job or a pair; shares of time are (J + P, T), jobs first.
    """

    job: IntArray
    """(J,) rows in the workload, increasing, so in order of arrival."""
    speed: FloatArray
    """(J, T) steps per second alone on GPUs of each type; 0 where it cannot run."""
    gpus: IntArray
    """(J,) GPUs that each job holds while it runs, >= 1."""
    weight: FloatArray
    """(J,) > 0; more is higher."""
    steps_left: FloatArray
    """(J,) > 0."""
    age_s: FloatArray
    """(J,) seconds since arrival, >= 0."""
    capacity: IntArray
    """(T,) GPUs of each type, >= 0."""
    pairs: IntArray
    """(P, 2) positions in `job`, first < second; both jobs of a pair have the same number of GPUs."""
    pair_speed: FloatArray
    """(P, 2, T) steps per second of each of the two on GPUs that they share; 0 where they do not fit."""

    def only(self, jobs: BoolArray, pairs: BoolArray) -> JobsNow:
        """Some of the jobs, (J,), and some pairs of them, (P,)."""
        of_jobs = ("job", "speed", "gpus", "weight", "steps_left", "age_s")
        return replace(
            self,
            **{name: getattr(self, name)[jobs] for name in of_jobs},
            pairs=(np.cumsum(jobs) - 1)[self.pairs[pairs]],
            pair_speed=self.pair_speed[pairs],
        )


class Shares(Protocol):
    """A computation of shares, with what it remembers from one to the next."""

    def shares(self, now: JobsNow) -> FloatArray:
        """(J + P, T) share of time of each entry on each type, >= 0."""

    def state(self) -> State:
        """Arrays that `restore` takes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
