"""Elastic jobs of a run: slow workers, data that move, traffic between servers, errors of estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl

from ray_sim.engine.decision import NO_JOBS, NO_WAKE, Decision, Wake
from ray_sim.engine.gpu_time import held_gpu_us
from ray_sim.engine.kinds.elastic.colocation import RunColocation
from ray_sim.engine.kinds.elastic.decision import ElasticDecision, Estimates
from ray_sim.engine.kinds.elastic.estimate_errors import SPEED, WORK_LEFT, EstimateErrors, check_estimates
from ray_sim.engine.kinds.elastic.facts import ElasticFacts, Stragglers
from ray_sim.engine.kinds.elastic.noisy_losses import NoisyLosses
from ray_sim.engine.kinds.elastic.view import ElasticContext, ElasticView, Losses
from ray_sim.engine.kinds.elastic.weighted_time import WeightedTime, trained_us
from ray_sim.engine.kinds.run import KindOutcome, KindRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.states import State, Stateful, all_within, joined, section
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, RUNNING, Recorder
from ray_sim.kernels.core.progress import work_left_of
from ray_sim.kernels.elastic.training import Training, book_traffic, note_placements
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures import ElasticFigures
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.progress_rule import rows_of, tasks_of
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ElasticOutcome(KindOutcome):
    """Figures of a run of elastic jobs, arrays (J,) each."""

    moved_mb: FloatArray
    """Sent from server to server."""
    task_us: FloatArray
    """Time of training, each microsecond times the job's tasks in it."""
    computing_us: FloatArray
    """Time that the samples trained take one worker on a server of speed 1."""
    with_ps_us: IntArray
    """Time of training with parameter servers."""
    beyond_us: FloatArray
    """The same, each microsecond times what the skew of the job's parameter servers was beyond 1 in it."""
    estimate_errors: EstimateErrors
    """Errors of the policy's estimates."""
    trained_us: IntArray
    """Time of training."""
    interference_us: FloatArray | None
    """Time of training that interference cost; None in a world without it."""

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> ElasticFigures:
        """Pauses, traffic, skew of parameter servers, and errors of estimates."""
        moved_mb, with_ps_us, beyond_us, tasks_us, computing_us = (
            column if counted is None else column[counted]
            for column in (self.moved_mb, self.with_ps_us, self.beyond_us, self.task_us, self.computing_us)
        )
        total_us, task_us = int(with_ps_us.sum()), float(tasks_us.sum())
        chosen = jobs if counted is None else jobs.filter(counted)
        span_s = chosen.select(pl.col("finish_s").max() - pl.col("submit_s").min()).item()
        errors = [None if np.isnan(mean) else float(mean) for mean in self.estimate_errors.means()]
        return ElasticFigures(
            restart_share=self.restart_share(jobs, counted),
            cross_server_gb=float(moved_mb.sum()) / 1000,
            mean_tasks=task_us / US_PER_S / span_s if span_s else None,
            computing_share=float(computing_us.sum()) / task_us if task_us > 0 else None,
            ps_imbalance=1.0 + float(beyond_us.sum()) / total_us if total_us else None,
            speed_error=errors[SPEED],
            convergence_error=errors[WORK_LEFT],
            interference_share=self._interference_share(counted),
        )

    def gpu_us(self, world: World, record: Recorder, held_us: IntArray) -> FloatArray:
        """(J,) GPU-microseconds that each job has held, by the events of its holdings."""
        return held_gpu_us(world, record, self.now_us)

    def _interference_share(self, counted: BoolArray | None) -> float | None:
        """Share of the time of training that interference cost the counted jobs."""
        if self.interference_us is None:
            return None
        chosen = slice(None) if counted is None else counted
        trained = int(self.trained_us[chosen].sum())
        return float(self.interference_us[chosen].sum()) / trained if trained else None

    def timeline(self, time_us: IntArray) -> Mapping[str, pl.Series]:
        """Errors of the estimates given at each instant, null where none was."""
        means = self.estimate_errors.means_at(time_us)
        columns = {"speed_error": SPEED, "convergence_error": WORK_LEFT}
        return {name: pl.Series(means[:, column]).fill_nan(None) for name, column in columns.items()}

    def job_columns(self) -> Mapping[str, pl.Series]:
        """In a world with interference, how many times as long each job trained; null where it never did."""
        if self.interference_us is None:
            return {}
        alone_us = self.trained_us - self.interference_us
        slowdown = np.full(len(alone_us), np.nan)
        np.divide(self.trained_us, alone_us, out=slowdown, where=self.trained_us > 0)
        return {"interference_slowdown": pl.Series(slowdown).fill_nan(None)}


_PART_OF_AN_EPOCH = 1e-9
"""An epoch whose last sample is lost in rounding is over."""

_CHANGING = ("straggling", "workers", "mb_per_sample", "booked_left", "moved_mb")
"""Columns of `Training` that change along a run."""


def _new_training(profile: TrainingProfile) -> Training:
    jobs = len(profile.samples)
    return Training(
        exchange=profile.exchange,
        batch=profile.batch,
        gradient_mb=profile.gradient_mb,
        straggling=np.ones(jobs),
        workers=np.zeros(jobs, dtype=np.int64),
        mb_per_sample=np.zeros(jobs),
        booked_left=profile.work.copy(),
        moved_mb=np.zeros(jobs),
    )


class ElasticRun(KindRun):
    """Elastic jobs of one run."""

    view: ClassVar[type[View]] = ElasticView
    decision_type: ClassVar[type[Decision]] = ElasticDecision

    def __init__(
        self, core: RunCore, facts: ElasticFacts, streams: Streams, parameter_blocks: str = AS_WORLD
    ) -> None:
        jobs = len(facts.profile.samples)
        self._facts = facts
        self._streams = streams
        self._training = _new_training(facts.profile)
        self._training_handle = handle(self._training)
        self.straggling: FloatArray = self._training.straggling
        """(J,) how many times as long the slowest worker takes."""
        self._loads = facts.loads(parameter_blocks, streams)
        progress, colocated = partial(facts.progress, self.straggling, self._loads), facts.colocation
        self._colocation = None
        if colocated is not None:
            servers = core.world.cluster.server_names
            self._colocation = RunColocation(colocated, core.world.row_bound, servers, progress)
        super().__init__(core, progress() if self._colocation is None else self._colocation)
        self._slowed = None if colocated is None or not colocated.interferes else WeightedTime(jobs)
        """Time that interference costs."""
        self._tasks = WeightedTime(jobs)
        self._imbalance = None if self._loads is None else WeightedTime(jobs)
        """By how much the skew of each job's parameter servers was above 1."""
        self._trial_progress = facts.progress(np.ones(jobs), self._loads)
        self._strikes = 0
        self._estimate_errors = EstimateErrors(facts.profile.work)
        self._losses = None if facts.loss is None else NoisyLosses(facts.loss, streams)
        self._weighted = [each for each in (self._tasks, self._imbalance, self._slowed) if each is not None]
        parts: dict[str, Stateful | None] = {
            "tasks": self._tasks,
            "imbalance": self._imbalance,
            "slowed": self._slowed,
            "colocation": self._colocation,
            "estimate_errors": self._estimate_errors,
        }
        self._parts = {name: part for name, part in parts.items() if part is not None}
        """Parts whose arrays a snapshot has besides those of `Training`, by name."""

    @property
    def observed(self) -> ElasticRun:
        """Itself."""
        return self

    def context(self, sees: frozenset[str], policy: str) -> ElasticContext:
        """Facts of the world that a policy of this name may know; trial runs have no slow workers."""
        return ElasticContext(self._core.world, sees, policy, self._trial_progress)

    @property
    def next_us(self) -> int:
        """When workers of running jobs may become slow, or links change."""
        if self._core.counts[1] == 0:
            return NEVER_US
        links_us = NEVER_US if self._colocation is None else self._colocation.next_us
        return min(self._next_strike_us, links_us)

    @property
    def _next_strike_us(self) -> int:
        stragglers = self._facts.stragglers
        return NEVER_US if stragglers is None else (self._strikes + 1) * stragglers.every_us

    def happen(self, now_us: int) -> Wake:
        """Let a worker of some running jobs become slow, and links change, if it is time."""
        stragglers = self._facts.stragglers
        if stragglers is not None and now_us >= self._next_strike_us:
            slowed = self._slowed_now(now_us, stragglers)
            self.straggling[slowed] = stragglers.slowdown
            self._rate_others(now_us, slowed)
        if self._colocation is not None and now_us >= self._colocation.next_us:
            self._rate_others(now_us, self._colocation.change_links(now_us))
        return NO_WAKE

    def _rate(self, now_us: int, jobs: IntArray, pauses_us: IntArray) -> None:
        """Rate jobs; what interference costs until now is booked at their old slowdown."""
        if self._slowed is None or self._colocation is None or not len(jobs):
            super()._rate(now_us, jobs, pauses_us)
            return
        self._slowed.book(now_us, self._core.books, jobs)
        super()._rate(now_us, jobs, pauses_us)
        self._slowed.weigh(jobs, 1.0 - 1.0 / self._colocation.slowdown[jobs])

    def complete(self, now_us: int) -> IntArray:
        """End the jobs whose work is done; returns them, sorted."""
        done = super().complete(now_us)
        if self._losses is not None:
            self._losses.forget(done)
        return done

    def _slowed_now(self, now_us: int, stragglers: Stragglers) -> IntArray:
        """The running jobs, sorted, of which a worker becomes slow now."""
        self._strikes = now_us // stragglers.every_us
        if now_us % stragglers.every_us:
            return NO_JOBS
        hit = stragglers.mask(self._streams, self._strikes, len(self.straggling)) & (self.straggling == 1.0)
        running = self._core.scheduled
        return np.sort(running[hit[running]])

    def _lose_server(self, now_us: int, server: int) -> IntArray:
        self._before_placement(now_us, self._core.scheduled)
        return super()._lose_server(now_us, server)

    def _before_placement(self, now_us: int, jobs: IntArray) -> None:
        """Book what the jobs have sent so far."""
        book_traffic(now_us, self._core.books, self._training_handle, jobs)
        for each in self._weighted:
            each.book(now_us, self._core.books, jobs)

    def _placed(self, jobs: IntArray, pauses_us: IntArray) -> None:
        """The jobs hold new, sound workers, and pause until their data are there."""
        placements = self._core.placements
        note_placements(placements.held, self._training_handle, jobs, self._facts.data_move_us, pauses_us)
        ps = tasks_of(rows_of(placements, jobs), PARAMETER_SERVER)
        self._tasks.weigh(jobs, (self._training.workers[jobs] + ps).astype(np.float64))
        if self._imbalance is not None and self._loads is not None:
            self._imbalance.weigh(jobs, self._loads.of(jobs, ps).skew - 1.0)

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse estimates but of jobs that stay in the system, each at most once.

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """
        super().check(where, now_us, decision)
        if isinstance(decision, ElasticDecision) and decision.estimates is not None:
            core = self._core
            check_estimates(where, core.world, core.ledger, decision, decision.estimates)

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Place jobs as decided, and compare what the policy tells of them with the truth."""
        super().carry_out(now_us, decision)
        if isinstance(decision, ElasticDecision) and decision.estimates is not None:
            self._compare(now_us, decision.estimates)

    def _compare(self, now_us: int, estimates: Estimates) -> None:
        ledger, jobs, left = self._core.ledger, estimates.job, np.empty(len(estimates.job))
        work_left_of(ledger, jobs, now_us, left)
        speed = np.where(ledger.status[jobs] == RUNNING, ledger.rate[jobs] * US_PER_S, 0.0)
        self._estimate_errors.add(now_us, estimates, speed, left)

    def outcome(self, now_us: int, end_us: int) -> ElasticOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
        everybody = np.arange(len(self.straggling))
        self._before_placement(end_us, everybody)
        trained = trained_us(self._core.ledger, everybody, end_us)
        # Jobs that exchange through parameter servers train with them or not at all.
        profile, left = self._facts.profile, np.empty(len(everybody))
        with_ps = profile.exchange != Exchange.ALL_REDUCE
        work_left_of(self._core.ledger, everybody, end_us, left)
        return ElasticOutcome(
            self._core.ledger,
            now_us,
            self._training.moved_mb.copy(),
            self._tasks.weighted_us.copy(),
            (profile.work - left) * profile.sample_s * US_PER_S,
            np.where(with_ps, trained, 0),
            np.zeros(len(everybody)) if self._imbalance is None else self._imbalance.weighted_us.copy(),
            self._estimate_errors,
            trained,
            None if self._slowed is None else self._slowed.weighted_us.copy(),
        )

    def share_left(self, jobs: IntArray, left: FloatArray) -> FloatArray:
        """Share of the work of each job, (n,), of which ``left`` samples are left; 0 of no work."""
        work = self._facts.profile.work[jobs]
        return np.divide(left, work, out=np.zeros_like(left), where=work > 0)

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
        profile = self._facts.profile
        if self._losses is None:
            raise InvalidScenarioError(
                "the policy looks at losses, but the workload has no loss curves: draw them by "
                "`ray-sim enrich` with a profile that has them"
            )
        done = (profile.work[jobs] - left) / np.maximum(profile.samples[jobs], 1.0)
        last = np.floor(done + _PART_OF_AN_EPOCH).astype(np.int64)
        counts = np.maximum(last - first + 1, 0)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Losses(ptr, self._losses.at(jobs, first, counts))

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            "strikes": np.array([self._strikes]),
            **{name: getattr(self._training, name).copy() for name in _CHANGING},
            **joined({name: part.state() for name, part in self._parts.items()}),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within({name: state[name] for name in ("strikes", *_CHANGING)})
        self._strikes = int(state["strikes"][0])
        for name in _CHANGING:  # the progress rule reads these very arrays
            getattr(self._training, name)[:] = state[name]
        for name, part in self._parts.items():
            part.restore(section(state, name))
        super().restore(state)
