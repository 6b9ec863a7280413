"""Step times and training speeds in closed form, as the papers have them.

The truths of a simulation (`ray_sim.model.training_truth`) start from holdings; docs/training.md says where
they take equal time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.job import TrainingProfile
from ray_sim.model.units import BoolArray, FloatArray, IntArray

BITS_PER_BYTE = 8


def transfer_s(size_mb: FloatArray, bandwidth_mbps: FloatArray) -> FloatArray:
    """Seconds to move so many megabytes (10^6 bytes) at so many megabits per second."""
    return BITS_PER_BYTE * size_mb / bandwidth_mbps


def pd_ors_sample_s(profile: TrainingProfile, jobs: IntArray, internal: bool | BoolArray) -> FloatArray:
    """Seconds that a worker of speed 1 takes for a sample, tau + (gamma / F) 2 g / b.

    Parameters
    ----------
    jobs : any shape
    internal : whether all workers and parameter servers of a job stand on one server (Fact 1)

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, 1.1.
    """
    mbps = internal * profile.internal_bandwidth_mbps[jobs] + (1 - internal) * profile.bandwidth_mbps[jobs]
    exchange_s = 2 * transfer_s(profile.gradient_mb[jobs], mbps)
    seconds: FloatArray = (
        profile.sample_s[jobs] + profile.workers_per_ps[jobs] / profile.batch[jobs] * exchange_s
    )
    return seconds


@dataclass(frozen=True, slots=True)
class SyncSpeed:
    """Steps per second of a synchronous job, 1 / (th0 M / w + th1 + th2 w / p + th3 w + th4 p).

    Source: Peng et al., Optimus, EuroSys 2018, section 3.2.
    """

    batch: FloatArray
    """M, samples of a step of all workers."""
    theta: FloatArray
    """(..., 5), >= 0."""

    def steps_per_s(self, workers: FloatArray, ps: FloatArray) -> FloatArray:
        """At w, p >= 1 of any shape that broadcasts."""
        th = self.theta
        seconds: FloatArray = (
            th[..., 0] * self.batch / workers
            + th[..., 1]
            + th[..., 2] * workers / ps
            + th[..., 3] * workers
            + th[..., 4] * ps
        )
        return 1 / seconds


@dataclass(frozen=True, slots=True)
class AsyncSpeed:
    """Steps per second of all workers of an asynchronous job, w / (th0 + th1 w / p + th2 w + th3 p).

    Source: as `SyncSpeed`.
    """

    theta: FloatArray
    """(..., 4), >= 0."""

    def steps_per_s(self, workers: FloatArray, ps: FloatArray) -> FloatArray:
        """At w, p >= 1 of any shape that broadcasts."""
        th = self.theta
        seconds: FloatArray = th[..., 0] + th[..., 1] * workers / ps + th[..., 2] * workers + th[..., 3] * ps
        return workers / seconds
