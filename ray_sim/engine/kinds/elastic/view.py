"""Observations of elastic jobs at one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ray_sim.engine.read_only import read_only
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import RUNNING
from ray_sim.kernels.core.progress import work_left_of
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.units import US_PER_S, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Losses:
    """Points of loss curves: those of job i are ``value[ptr[i]:ptr[i + 1]]``."""

    ptr: IntArray
    value: FloatArray


class TrainingJobs(Protocol):
    """Source of the observations of elastic jobs."""

    straggling: FloatArray
    """(J,) step time of the slowest worker relative to the others."""

    def share_left(self, jobs: IntArray, left: FloatArray) -> FloatArray:
        """(n,) share of the work of each job of which ``left`` samples are left; 0 of no work."""

    def losses(self, jobs: IntArray, first: IntArray, left: FloatArray) -> Losses:
        """Losses at the ends of epochs ``first``, ``first`` + 1, ... that the jobs have trained."""


@dataclass(frozen=True, slots=True)
class ElasticView(View):
    """View of a policy in a world of elastic jobs, whose work is samples."""

    _observed: TrainingJobs

    def time_left_us(self, jobs: IntArray) -> FloatArray:
        """Microseconds of run time that each job has left: of `duration_s` the share whose samples are left.

        The run time is that of the job with what it asks for.

        Raises
        ------
        BlindPolicyError : the policy's `sees` lacks work_left or duration_s
        """
        left = self.work_left(jobs)
        if "duration_s" not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} asks for time left, but its `sees` lacks duration_s"
            )
        return self._observed.share_left(jobs, left) * self.jobs.work_us[jobs]

    def samples_per_s(self, jobs: IntArray) -> FloatArray:
        """(n,) samples that each running job trains per second, restart pauses left out; else 0."""
        self._demand_visible("training_speed")
        running = self._ledger.status[jobs] == RUNNING
        return np.where(running, self._ledger.rate[jobs] * US_PER_S, 0.0)

    def slowdown(self, jobs: IntArray) -> FloatArray:
        """(n,) step time of the slowest worker of each job relative to the others, >= 1."""
        self._demand_visible("slow_workers")
        return read_only(self._observed.straggling)[jobs]

    def losses(self, jobs: IntArray, first: IntArray) -> Losses:
        """Losses at the ends of epochs so far, from epoch number ``first``, (n,), of each job on."""
        self._demand_visible("losses")
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs.copy(), self.now_us, left)
        return self._observed.losses(jobs, first, left)
