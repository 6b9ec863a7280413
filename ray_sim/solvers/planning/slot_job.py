"""A job as PD-ORS sees it: in slots."""

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
    """First slot that it may use, a; in [0, T)."""
    samples: float
    """V, > 0."""
    theta_internal: float
    """Slots that a worker takes for a sample if all tasks stand on one server, > 0."""
    theta_external: float
    """The same if they do not."""
    most_workers: int
    """F, >= 1."""
    workers_per_ps: float
    """gamma, >= 1."""
    worker_demand: IntArray
    """(R,) quanta."""
    ps_demand: IntArray
    """(R,) quanta."""
    utility: FloatArray
    """(T - a,) what the job is worth if d slots after a is the last one it uses; >= 0, never rises."""

    @property
    def demand(self) -> IntArray:
        """(2, R) quanta of a worker and of a parameter server."""
        return np.stack([self.worker_demand, self.ps_demand])

    @property
    def fastest(self) -> float:
        """Slots per sample of the faster way, which is within a server unless bandwidths are odd."""
        return min(self.theta_internal, self.theta_external)

    @property
    def shortest(self) -> int:
        """Slots that all its workers take, d_min; at least 1."""
        return max(1, tolerant_ceil(self.samples * self.fastest / self.most_workers))

    @property
    def can_end(self) -> bool:
        """Whether it could end before slot T, alone on a server without bounds."""
        return self.shortest <= len(self.utility)

    @property
    def most_worth(self) -> float:
        """Utility if all its workers train it from its arrival on; it must be one that `can_end`."""
        return float(self.utility[self.shortest - 1])


def slot_job(
    number: int, arrival: int, slots: int, slot_s: float, training: TrainingProfile, utility: UtilityProfile
) -> SlotJob:
    """A job of a workload.

    Parameters
    ----------
    arrival : the first slot that begins when the job is there, in [0, slots)
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
