"""Base class of policies for elastic jobs, and what they see: facts of the world, observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import RUNNING, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.core.progress import work_left_of
from ray_sim.model.errors import BlindPolicyError, InvalidScenarioError
from ray_sim.model.parameter_blocks import AS_WORLD, BlockRule
from ray_sim.model.speed_bound import SpeedBound
from ray_sim.model.training_progress import SpeedProgress, trial_speeds
from ray_sim.model.units import US_PER_S, FloatArray, IntArray


class ElasticContext(PolicyContext):
    """Facts of a world of elastic jobs. Arrays are read-only."""

    __slots__ = {
        "slowing_options": "World options, e.g. ``nic=per_server``, by which jobs may train slower than "
        "`speed_alone` says."
    }

    def __init__(
        self, world: World, sees: frozenset[str], policy: str, trial_progress: SpeedProgress
    ) -> None:
        super().__init__(world, sees, policy)
        self._trial = trial_progress
        self._sees = sees
        facts = ElasticFacts.in_world(world)
        self._truth = facts.rule.truth
        self.slowing_options: tuple[str, ...] = facts.slowing_options

    def trial_speed(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(n,) samples per second in trial runs of jobs, without slow workers; see `trial_speeds`.

        Raises
        ------
        BlindPolicyError : the policy's `sees` lacks training_speed
        """
        self._demand_visible("training_speed", "makes trial runs")
        return trial_speeds(self._trial, jobs, rows)

    def speed_alone(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(n,) samples per second of jobs with these placements, by the world's progress rule.

        Each has the servers to itself, nominal links and no slow worker.

        Parameters
        ----------
        jobs : (n,), repeats allowed
        rows : placements, sorted by server

        Raises
        ------
        BlindPolicyError : the policy's `sees` lacks training_profile
        """
        self._demand_visible("training_profile", "asks for the speed of placements")
        return self._trial.samples_per_s(jobs, rows)

    def longest_sample_s(
        self, jobs: IntArray, workers: IntArray, ps: IntArray, servers: IntArray, *, on_one_server: bool
    ) -> FloatArray:
        """(n,) most seconds that each worker of a job takes per sample, wherever on servers its tasks stand.

        The job trains at least ``workers`` / this samples per second, alone as in `speed_alone`; see
        `SpeedBound`.

        Parameters
        ----------
        jobs, workers, ps : (n,), repeats of jobs allowed, numbers >= 1
        servers : those on which workers may stand; the slowest with room for a worker counts
        on_one_server : whether all tasks stand on one server; otherwise they may stand anywhere

        Raises
        ------
        BlindPolicyError : the policy's `sees` lacks training_profile
        InvalidScenarioError : the world's step-time rule states no bound
        """
        self._demand_visible("training_profile", "asks for bounds of speed")
        if not isinstance(self._trial, SpeedBound):
            raise InvalidScenarioError(
                f"policy {self._policy} asks for a lower bound of speeds, but truth={self._truth} states none"
            )
        speed = self._slowest(jobs, servers)
        return self._trial.longest_sample_s(jobs, workers, ps, speed, on_one_server=on_one_server)

    def _slowest(self, jobs: IntArray, servers: IntArray) -> FloatArray:
        """(n,) speed of the slowest of these servers with room for a worker; of the cluster if none has."""
        capacity, speed = self.cluster.capacity[servers], self.cluster.speed[servers]
        different, which = np.unique(jobs, return_inverse=True)
        found = np.empty(len(different))
        for i, demand in enumerate(self.jobs.role_demand[different, WORKER]):
            room = (capacity >= demand).all(axis=1)
            found[i] = (speed[room] if room.any() else self.cluster.speed).min()
        return found[which]

    def _demand_visible(self, name: str, what: str) -> None:
        if name not in self._sees:
            raise BlindPolicyError(f"policy {self._policy} {what}, but its `sees` lacks {name}")


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


class ElasticPolicy(Policy[ElasticContext, ElasticView]):
    """A scheduler of elastic jobs: it decides how many workers and parameter servers each holds, and where.

    It runs under truth=placement and pd_ors. It may answer with an `ElasticDecision`.
    """

    schedules: ClassVar[str] = ELASTIC
    parameter_blocks: str = AS_WORLD
    """Rule that assigns parameters of models to parameter servers, under truth=placement: `EVEN`, a
    `BlockRule`, or `AS_WORLD`, as the world says."""

    @property
    def draws(self) -> bool:
        """Whether its runs draw random numbers."""
        return self.uses_seed or self.parameter_blocks == BlockRule.MXNET
