"""Step times in closed form, as in the papers.

The progress rules of a simulation (`ray_sim.model.training_progress`) start from placements; docs/training.md
says where both are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.job import ChunkProfile, Exchange, TrainingProfile
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray, tolerant_ceils

BITS_PER_BYTE = 8


def transfer_s(size_mb: FloatArray, bandwidth_mbps: FloatArray) -> FloatArray:
    """Seconds to move megabytes (10^6 bytes) at megabits per second."""
    return BITS_PER_BYTE * size_mb / bandwidth_mbps


def pd_ors_sample_s(
    profile: TrainingProfile,
    jobs: IntArray,
    internal: bool | BoolArray,
    speed: float | FloatArray = 1.0,
) -> FloatArray:
    """Seconds per sample of a worker, tau / speed + (gamma / F) 2 g / b.

    Parameters
    ----------
    jobs : any shape
    internal : whether all workers and parameter servers of a job are on one server (Fact 1)
    speed : of the slowest server held

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, 2021;
    docs/models/pd_ors.md#problem.
    """
    mbps = internal * profile.internal_bandwidth_mbps[jobs] + (1 - internal) * profile.bandwidth_mbps[jobs]
    exchange_s = 2 * transfer_s(profile.gradient_mb[jobs], mbps)
    seconds: FloatArray = (
        profile.sample_s[jobs] / speed + profile.workers_per_ps[jobs] / profile.batch[jobs] * exchange_s
    )
    return seconds


def least_placement_sample_s(profile: TrainingProfile, jobs: IntArray) -> FloatArray:
    """Least seconds per sample of up to F workers of speed 1 in any placement, by `truth=placement`.

    F workers and F parameter servers attain it if a step has no overhead per worker or parameter server;
    otherwise it is a lower bound.

    Parameters
    ----------
    jobs : (n,)
    """
    batch, exchange = profile.batch[jobs], profile.exchange[jobs]
    training, per_worker = batch * profile.sample_s[jobs], profile.step_s_per_worker[jobs]
    bandwidth = np.maximum(profile.bandwidth_mbps[jobs], profile.internal_bandwidth_mbps[jobs])
    there_and_back = 2 * transfer_s(profile.gradient_mb[jobs], bandwidth)
    with_servers = there_and_back + profile.step_s_per_ps[jobs]
    in_step = least_of_sum(training, per_worker, batch) + with_servers
    in_ring = np.minimum(
        training + per_worker,
        least_of_sum(np.maximum(training - there_and_back, 0.0), per_worker, batch) + there_and_back,
    )
    by_itself = training + with_servers + per_worker * batch
    kinds = [exchange == Exchange.ALL_REDUCE, exchange == Exchange.ASYNC]
    step_s = np.select(kinds, [in_ring, by_itself], in_step) + profile.step_s[jobs]
    at_a_time = np.where(kinds[1], batch, 1.0)  # F asynchronous workers make a step of F samples each
    seconds: FloatArray = step_s / (batch * at_a_time)
    return seconds


def least_of_sum(shared: FloatArray, each: FloatArray, most: FloatArray) -> FloatArray:
    """Minimum of shared / n + each n over real n from 1 to ``most``."""
    best = np.sqrt(np.divide(shared, each, out=np.full_like(shared, np.inf), where=each > 0))
    n = np.clip(best, 1.0, np.maximum(most, 1.0))
    least: FloatArray = shared / n + each * n
    return least


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Training times of chunks, as multiples of a grid: the slot, or a microsecond."""

    profile: ChunkProfile
    """One entry per job, without NaN."""
    grid_us: int
    """Grid to which upload ends and chunk lengths are rounded up, > 0."""
    speed_up: float = 1.0
    """Factor on the speed of all workers, 1 + eps in the paper, > 0."""

    def minibatch_s(self, jobs: IntArray, speed: FloatArray, in_cloud: BoolArray) -> FloatArray:
        """Seconds per mini-batch, (m / speed + (1 - zeta) 2 q / b) / speed_up; this is slot / n in the paper.

        Parameters
        ----------
        jobs : any shape
        speed : progress of the worker's server, > 0; divides the training, not the communication
        in_cloud : zeta, whether all workers and the parameter server of the job are in the cloud
        """
        of = self.profile
        exchange_s = 2 * transfer_s(of.gradient_mb[jobs], of.bandwidth_mbps[jobs])
        seconds: FloatArray = of.minibatch_s[jobs] / speed + np.where(in_cloud, 0.0, exchange_s)
        return seconds / self.speed_up

    def chunk_us(self, jobs: IntArray, speed: FloatArray, in_cloud: BoolArray) -> IntArray:
        """Microseconds that a worker needs for one chunk, ceil(E M / n) on the grid; see `minibatch_s`."""
        minibatches = self.profile.epochs[jobs] * self.profile.minibatches_per_chunk[jobs]
        seconds = minibatches * self.minibatch_s(jobs, speed, in_cloud)
        return self.grid_us * tolerant_ceils(seconds * (US_PER_S / self.grid_us))

    def on_grid(self, time_us: IntArray) -> IntArray:
        """Round instants up to the grid."""
        return -(-time_us // self.grid_us) * self.grid_us
