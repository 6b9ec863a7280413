"""The run of elastic jobs: slow workers, data that move, and what goes from server to server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.decision import NO_JOBS, Estimates
from ray_sim.engine.estimates import EstimateErrors
from ray_sim.engine.holdings import Holdings, State, part
from ray_sim.engine.imbalance import Imbalance, trained_us
from ray_sim.engine.training_world import TrainingWorld
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import PARAMETER_SERVER, RUNNING, WORKER, Ledger
from ray_sim.kernels.progress import work_left_of
from ray_sim.kernels.step_time import cross_mb_per_sample
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import Exchange, LossProfile
from ray_sim.model.loss import loss
from ray_sim.model.streams import Streams
from ray_sim.model.training_truth import rows_of, tasks_of
from ray_sim.model.units import NEVER_US, US_PER_S, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ElasticOutcome:
    """What there is to tell of the elastic jobs of a run, arrays (J,) each."""

    moved_mb: FloatArray
    """Sent from server to server."""
    with_ps_us: IntArray
    """Time of training with parameter servers."""
    beyond_us: FloatArray
    """The same, each microsecond times what the skew of the job's parameter servers was beyond 1 in it."""
    estimate_errors: EstimateErrors
    """Of what the policy told of them."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Points of loss curves: those of job i are ``value[ptr[i]:ptr[i + 1]]``."""

    ptr: IntArray
    value: FloatArray


def elastic_run_for(world: World, streams: Streams, policy: str, *, elastic: bool) -> ElasticRun | None:
    """The run of elastic jobs, where the world has them; ``elastic`` is whether the policy expects them.

    Policies that place whole gangs do so in elastic worlds too, with what each job asks for.

    Raises
    ------
    InvalidScenarioError : the policy is for elastic jobs, and the world has others
    """
    if world.training is not None:
        return ElasticRun(world.training, streams)
    if elastic:
        raise InvalidScenarioError(
            f"policy {policy} decides how many workers and parameter servers jobs get, but the jobs of this "
            f"world are not elastic: set -w truth=placement (or pd_ors)"
        )
    return None


_PART_OF_AN_EPOCH = 1e-9
"""An epoch whose last sample is lost in rounding is over."""


class ElasticRun:
    """Elastic jobs of one run."""

    def __init__(self, world: TrainingWorld, streams: Streams) -> None:
        jobs = len(world.profile.samples)
        self.world = world
        self._streams = streams
        self.straggling: FloatArray = np.ones(jobs)
        """(J,) how many times as long the slowest worker takes."""
        skew = None if world.blocks is None else world.blocks.skew(streams)
        self.truth = world.truth(self.straggling, skew)
        self.trial_truth = world.truth(np.ones(jobs), skew)
        """Of trial runs, in which nobody is slow."""
        self._imbalance = None if skew is None else Imbalance(jobs, skew)
        self._strikes = 0
        self._workers: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) at the last placement; 0 before the first."""
        self._mb_per_sample: FloatArray = np.zeros(jobs)
        self._booked_left: FloatArray = world.profile.work.copy()
        self._moved_mb: FloatArray = np.zeros(jobs)
        self.estimate_errors = EstimateErrors()

    @property
    def next_us(self) -> int:
        """When workers may become slow."""
        stragglers = self.world.stragglers
        return NEVER_US if stragglers is None else (self._strikes + 1) * stragglers.every_us

    def strike(self, now_us: int, running: IntArray) -> IntArray:
        """The running jobs, sorted, of which a worker becomes slow now."""
        stragglers = self.world.stragglers
        if stragglers is None or now_us < self.next_us:
            return NO_JOBS
        self._strikes = now_us // stragglers.every_us
        if now_us % stragglers.every_us:
            return NO_JOBS
        hit = stragglers.struck(self._streams, self._strikes, len(self.straggling)) & (self.straggling == 1.0)
        struck = np.sort(running[hit[running]])
        self.straggling[struck] = stragglers.slowdown
        return struck

    def book(self, now_us: int, ledger: Ledger, jobs: IntArray) -> None:
        """Book what the jobs have done so far; call it before their holdings change."""
        left = np.empty(len(jobs))
        work_left_of(ledger, jobs, now_us, left)
        self._moved_mb[jobs] += self._mb_per_sample[jobs] * (self._booked_left[jobs] - left)
        self._booked_left[jobs] = left
        if self._imbalance is not None:
            self._imbalance.book(now_us, ledger, jobs)

    def replace(self, holdings: Holdings, jobs: IntArray) -> IntArray:
        """The jobs hold new, sound workers; returns microseconds until their data are there."""
        rows = rows_of(holdings, jobs)
        workers = tasks_of(rows, WORKER)
        move_us = np.where(workers > 0, self.world.move_us(self._workers[jobs], workers), 0)
        self._workers[jobs] = np.where(workers > 0, workers, self._workers[jobs])
        self.straggling[jobs] = 1.0
        profile, mb = self.world.profile, np.empty(len(jobs))
        cross_mb_per_sample(profile.exchange, profile.batch, profile.gradient_mb, jobs, rows, mb)
        self._mb_per_sample[jobs] = mb
        if self._imbalance is not None:
            self._imbalance.replace(jobs, tasks_of(rows, PARAMETER_SERVER))
        return move_us

    def done(self, now_us: int, ledger: Ledger) -> ElasticOutcome:
        """What there is to say of the run so far."""
        everybody = np.arange(len(self._workers))
        self.book(now_us, ledger, everybody)
        # Who exchanges through parameter servers trains with them or not at all.
        with_ps = self.world.profile.exchange != Exchange.ALL_REDUCE
        with_ps_us = np.where(with_ps, trained_us(ledger, everybody, now_us), 0)
        beyond_us = np.zeros(len(everybody)) if self._imbalance is None else self._imbalance.beyond_us.copy()
        return ElasticOutcome(self._moved_mb.copy(), with_ps_us, beyond_us, self.estimate_errors)

    def compare(self, now_us: int, ledger: Ledger, estimates: Estimates) -> None:
        """Compare what a policy believes with the truth; call it when its decision is carried out."""
        jobs, left = estimates.job, np.empty(len(estimates.job))
        work_left_of(ledger, jobs, now_us, left)
        speed = np.where(ledger.status[jobs] == RUNNING, ledger.rate[jobs] * US_PER_S, 0.0)
        self.estimate_errors.add(now_us, estimates, speed, left)

    def losses(self, jobs: IntArray, first: IntArray, left: FloatArray) -> Losses:
        """Losses at the ends of epochs ``first``, ``first`` + 1, ... that the jobs have trained.

        Parameters
        ----------
        first : (n,) whole, >= 1
        left : (n,) samples that each job has yet to train

        Raises
        ------
        InvalidScenarioError : the workload has no loss curves
        """
        curves, profile = self.world.loss, self.world.profile
        if curves is None:
            raise InvalidScenarioError(
                "the policy looks at losses, but the workload has no loss curves: draw them by "
                "`ray-sim enrich` with a profile that has them"
            )
        done = (profile.work[jobs] - left) / np.maximum(profile.samples[jobs], 1.0)
        last = np.floor(done + _PART_OF_AN_EPOCH).astype(np.int64)
        counts = np.maximum(last - first + 1, 0)
        values = [
            self._noisy(curves, job, start, count)
            for job, start, count in zip(jobs.tolist(), first.tolist(), counts.tolist(), strict=True)
        ]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Losses(ptr, np.concatenate(values) if values else np.empty(0))

    def _noisy(self, curves: LossProfile, job: int, first: int, count: int) -> FloatArray:
        epochs = np.arange(first, first + count, dtype=np.float64)
        exact = loss(
            curves.loss_b0[job],
            curves.loss_b1[job],
            curves.loss_b2[job],
            epochs,
            curves.loss_drop[job],
            curves.loss_drop_epoch[job],
        )
        if curves.loss_noise[job] == 0.0 or count == 0:
            return exact
        draws = self._streams.generator("loss", job).standard_normal(first + count - 1)
        noisy: FloatArray = np.maximum(exact + curves.loss_noise[job] * draws[first - 1 :], 0.0)
        return noisy

    def state(self) -> State:
        """Arrays that `restore` takes."""
        imbalance = {} if self._imbalance is None else self._imbalance.state()
        return {
            "straggling": self.straggling.copy(),
            "strikes": np.array([self._strikes]),
            "workers": self._workers.copy(),
            "mb_per_sample": self._mb_per_sample.copy(),
            "booked_left": self._booked_left.copy(),
            "moved_mb": self._moved_mb.copy(),
            **{f"imbalance.{name}": array for name, array in imbalance.items()},
            **{f"estimate_errors.{name}": array for name, array in self.estimate_errors.state().items()},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._strikes = int(state["strikes"][0])
        self.straggling[:] = state["straggling"]  # the truth reads this very array
        for name in ("workers", "mb_per_sample", "booked_left", "moved_mb"):
            getattr(self, f"_{name}")[:] = state[name]
        if self._imbalance is not None:
            self._imbalance.restore(part(state, "imbalance"))
        self.estimate_errors.restore(part(state, "estimate_errors"))
