"""Jobs as a computation of shares sees them; the programmes of this package take them."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.units import FloatArray, IntArray


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
