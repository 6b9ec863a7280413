"""A job in slots, as in PD-ORS.

In the published form w workers train w / theta samples in a slot. Where the time of a sample depends on the
number of workers, a table has the samples of each number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.step_time import pd_ors_sample_s
from ray_sim.model.units import FloatArray, IntArray, scaled_down, tolerant_ceil
from ray_sim.model.utility import utility as worth

_SAME = 1e-9
"""Relative difference below which two numbers of samples, or times, count as equal."""

_LEAST_WORKERS = 2e-9
"""Fewest workers that train any samples: `tolerant_ceil` counts fewer as none."""


class SampleTimes(NamedTuple):
    """Seconds per sample of each worker of a job that has 1, 2, .. W of them."""

    internal_s: FloatArray
    """(W,) if all tasks are on one server."""
    external_s: FloatArray
    """(W,) otherwise."""


class SlotSamples(NamedTuple):
    """Samples that a job trains in a slot with 0, 1, .. W workers; it never has more than W."""

    internal: FloatArray
    """(W + 1,) if all tasks are on one server."""
    external: FloatArray
    """(W + 1,) otherwise."""


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
    """Slots per sample of one worker if all tasks are on one server, > 0; with `samples_of`, the least of any
    number of workers."""
    theta_external: float
    """Slots per sample of one worker otherwise, > 0; as above."""
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
    samples_of: SlotSamples | None = None
    """Samples by number of workers; None where w workers train w / theta."""

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
        """Slots that the job takes at its largest speed, d_min; at least 1."""
        if self.samples_of is None:
            return max(1, tolerant_ceil(self.samples * self.fastest / self.most_workers))
        return max(1, tolerant_ceil(self.samples / self._most_samples(self.samples_of)))

    @property
    def can_end(self) -> bool:
        """Whether the job can end before slot T alone on a server without capacity limits."""
        return self.shortest <= len(self.utility)

    @property
    def most_worth(self) -> float:
        """Utility if all workers train from the arrival on; requires `can_end`."""
        return float(self.utility[self.shortest - 1])

    def samples_trained(self, workers: int, *, on_one_server: bool) -> float:
        """Samples that this number of workers trains in a slot."""
        if self.samples_of is None:
            return workers / (self.theta_internal if on_one_server else self.theta_external)
        return float(self.samples_of[0 if on_one_server else 1][workers])

    def workers_for(self, samples: FloatArray, *, on_one_server: bool) -> FloatArray:
        """Fewest workers that train these samples, > 0, in a slot, possibly more than the job may have.

        They are fractions in the published form, else whole numbers, F + 1 where no number is enough.
        """
        if self.samples_of is None:
            theta = self.theta_internal if on_one_server else self.theta_external
            return np.maximum(samples * theta, _LEAST_WORKERS)
        most_so_far = np.maximum.accumulate(self.samples_of[0 if on_one_server else 1])
        workers = np.searchsorted(most_so_far, samples * (1.0 - _SAME))
        return np.where(workers < len(most_so_far), workers, self.most_workers + 1).astype(np.float64)

    def workers_in_each(self, slots: int, *, on_one_server: bool) -> int:
        """Fewest workers that do all the work in this number of slots, equally many in each."""
        if self.samples_of is None:
            theta = self.theta_internal if on_one_server else self.theta_external
            return max(1, tolerant_ceil(self.samples * theta / slots))
        return int(self.workers_for(np.array([self.samples / slots]), on_one_server=on_one_server)[0])

    def parts_per_slot(self, samples: float) -> int:
        """Most parts of `samples` samples each, > 0, that the job trains in a slot; at most 2^53."""
        of = self.samples_of
        at_most = self.most_workers / self.fastest if of is None else self._most_samples(of)
        return int(scaled_down(1.0, min(at_most / samples, 2.0**53)))

    def apart(self) -> SlotJob:
        """Copy of the job that trains at the external rate only."""
        of = self.samples_of
        external = None if of is None else SlotSamples(of.external, of.external)
        return replace(self, theta_internal=self.theta_external, samples_of=external)

    @staticmethod
    def _most_samples(of: SlotSamples) -> float:
        return float(max(of.internal.max(), of.external.max()))


def slot_job(
    number: int,
    arrival: int,
    slots: int,
    slot_s: float,
    training: TrainingProfile,
    utility: UtilityProfile,
    times: SampleTimes | None = None,
) -> SlotJob:
    """Convert a job of a workload to slots.

    Parameters
    ----------
    arrival : first slot that begins at or after the submission, in [0, slots)
    slots : T
    slot_s : length of a slot
    times : time of a sample by number of workers; the published form without it
    """
    times = published_times(training, number) if times is None else times
    published = all(_is_constant(each) for each in times)
    # Of equal times the longest; where they differ, theta serves lower bounds.
    internal, external = (float(each.max() if published else each.min()) / slot_s for each in times)
    elapsed_s: FloatArray = slot_s * np.arange(slots - arrival, dtype=np.float64)
    return SlotJob(
        number=number,
        arrival=arrival,
        samples=float(training.work[number]),
        theta_internal=internal,
        theta_external=external,
        most_workers=int(training.batch[number]),
        workers_per_ps=float(training.workers_per_ps[number]),
        worker_demand=training.worker_demand[number],
        ps_demand=training.ps_demand[number],
        utility=worth(utility, np.array(number), elapsed_s),
        samples_of=None if published else SlotSamples(*(slot_s * _samples_per_s(each) for each in times)),
    )


def published_times(training: TrainingProfile, number: int) -> SampleTimes:
    """Time of a sample in the published form, the same for every number of workers."""
    one = np.array([number])
    return SampleTimes(pd_ors_sample_s(training, one, True), pd_ors_sample_s(training, one, False))


def _is_constant(sample_s: FloatArray) -> bool:
    return bool(sample_s.max() <= sample_s.min() * (1.0 + _SAME))


def _samples_per_s(sample_s: FloatArray) -> FloatArray:
    """(W + 1,) samples per second of 0, 1, .. W workers."""
    rates: FloatArray = np.append(0.0, np.arange(1, len(sample_s) + 1) / sample_s)
    return rates
