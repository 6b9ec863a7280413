"""A job in slots, as in PD-ORS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.step_time import pd_ors_sample_s
from ray_sim.model.units import FloatArray, IntArray, tolerant_ceil
from ray_sim.model.utility import utility as worth


@dataclass(frozen=True, slots=True)
class SlotJob:
    """One job over T slots."""

    number: int
    """Index of the job in the run; keys its random streams."""
    arrival: int
    """First slot of the job, a; in [0, T)."""
    samples: float
    """V, > 0."""
    theta_internal: float
    """Slots per sample of one worker if all tasks are on one server, > 0."""
    theta_external: float
    """Slots per sample of one worker otherwise, > 0."""
    most_workers: int
    """F, >= 1."""
    workers_per_ps: float
    """gamma, >= 1."""
    worker_demand: IntArray
    """(R,) quanta."""
    ps_demand: IntArray
    """(R,) quanta."""
    utility: FloatArray
    """(T - a,) utility if the last slot used is a + d; >= 0, non-increasing."""

    @property
    def demand(self) -> IntArray:
        """(2, R) quanta of a worker and of a parameter server."""
        return np.stack([self.worker_demand, self.ps_demand])

    @property
    def fastest(self) -> float:
        """Slots per sample at the faster rate, the internal one unless the bandwidths are unusual."""
        return min(self.theta_internal, self.theta_external)

    @property
    def shortest(self) -> int:
        """Slots that the job takes with all its workers, d_min; at least 1."""
        return max(1, tolerant_ceil(self.samples * self.fastest / self.most_workers))

    @property
    def can_end(self) -> bool:
        """Whether the job can end before slot T alone on a server without capacity limits."""
        return self.shortest <= len(self.utility)

    @property
    def most_worth(self) -> float:
        """Utility if all workers train from the arrival on; requires `can_end`."""
        return float(self.utility[self.shortest - 1])


def slot_job(
    number: int, arrival: int, slots: int, slot_s: float, training: TrainingProfile, utility: UtilityProfile
) -> SlotJob:
    """Convert a job of a workload to slots.

    Parameters
    ----------
    arrival : first slot that begins at or after the submission, in [0, slots)
    slots : T
    slot_s : length of a slot
    """
    one = np.array([number])
    elapsed_s: FloatArray = slot_s * np.arange(slots - arrival, dtype=np.float64)
    return SlotJob(
        number=number,
        arrival=arrival,
        samples=float(training.work[number]),
        theta_internal=float(pd_ors_sample_s(training, one, True)[0]) / slot_s,
        theta_external=float(pd_ors_sample_s(training, one, False)[0]) / slot_s,
        most_workers=int(training.batch[number]),
        workers_per_ps=float(training.workers_per_ps[number]),
        worker_demand=training.worker_demand[number],
        ps_demand=training.ps_demand[number],
        utility=worth(utility, np.array(number), elapsed_s),
    )
