"""Training times of chunks: the model of A_online.

Source: Wang et al., Preemptive Scheduling for Distributed ML Jobs in Edge-Cloud Networks, JSAC 40(8), 2022.

A chunk is M mini-batches, trained E times by one worker. After each mini-batch the gradients go to the
parameter server and the parameters come back. This exchange takes no time if all workers and the parameter
server of the job are in the cloud (zeta = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.job import ChunkProfile
from ray_sim.model.step_time import transfer_s
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray, tolerant_ceils


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
