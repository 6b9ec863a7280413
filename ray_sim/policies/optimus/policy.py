"""Optimus: allocation and placement in every interval, by fitted models of loss and speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from ray_sim.model.job import Exchange
from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.units import (
    NEVER_US,
    QUANTA_PER_UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    seconds_to_us,
)
from ray_sim.policies.optimus.allocation import Claims, Normalise, steps_per_s
from ray_sim.policies.optimus.interval import (
    Choices,
    IntervalJobs,
    StayBy,
    part_of,
    stay_factors,
    target_of,
    tasks_of,
)
from ray_sim.policies.optimus.knowledge import (
    Knowledge,
    carried_over,
    fit_speeds,
    note_speeds,
    nothing_known,
)
from ray_sim.policies.optimus.loss_fit import LEAST_POINTS, epochs_left, fitted_curves
from ray_sim.policies.optimus.parameters import PARAMETERS
from ray_sim.policies.optimus.speed_fit import TrialRuns
from ray_sim.policies.shared.typed_servers import type_resources
from ray_sim.policy_api import (
    NO_JOBS,
    WORKER,
    ElasticContext,
    ElasticDecision,
    ElasticPolicy,
    ElasticView,
    Estimates,
    Parameter,
    PlacementTable,
    Rows,
    State,
    Streams,
    Wake,
    all_within,
    allocation_changes,
    sorted_indices,
)

_MOST_WORKERS = 2**20
"""Bound on the workers of an asynchronous job."""

_COUNTS = ("slow_workers_replaced", "shrunk_for_room", "without_room", "most_tasks", "most_steps")
_REPLACED, _SHRUNK, _WITHOUT_ROOM, _TASKS, _STEPS = range(5)


class Optimus(ElasticPolicy):
    """Minimise the sum of remaining times by fitted losses and speeds.

    In every interval (slot) it fits each job's loss curve and speed to the observations, gives workers and
    parameter servers one by one to the job with the largest gain per resource, and places them evenly over
    few servers. Jobs whose placements stay pay no restart. Slow workers are replaced.

    Source: Peng et al., Optimus, EuroSys 2018.
    """

    name: ClassVar[str] = "optimus"
    section: ClassVar[str] = "docs/models/optimus.md#algorithm (Peng et al., EuroSys 2018)"
    summary: ClassVar[str] = "marginal gains by fitted loss and speed, even placement (Optimus)"
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.SERVER_CHANGE | Wake.REVIEW
    sees: frozenset[str] = frozenset({"training_speed", "slow_workers", "losses"})
    slotted: ClassVar[bool] = True
    uses_seed: ClassVar[bool] = True

    def __init__(
        self,
        as_published: bool = False,
        allocation: str = "optimus",
        remaining: str = "predicted",
        normalise: Normalise | None = None,
        placement: str = "even",
        misfit: str | None = None,
        keep_places: bool | None = None,
        job_order: str = "demand",
        least_stay_s: float = 0.0,
        least_stay_by: StayBy = "same",
        young_factor: float = 0.95,
        most_epochs: float = 100.0,
        slow_above: float = 2.0,
        speed_error: float = 0.0,
        convergence_error: float = 0.0,
        parameter_blocks: str = AS_WORLD,
    ) -> None:
        self.parameter_blocks = parameter_blocks
        self._predicts = remaining == "predicted"
        if not self._predicts:
            self.sees = (self.sees - {"losses"}) | {"work_left"}
        self._choices_for = partial(
            Choices,
            allocation=allocation,
            normalise=normalise or ("amount" if as_published else "share"),
            placement=placement,
            shrink=(misfit or ("wait" if as_published else "shrink")) == "shrink",
            keep_places=not as_published if keep_places is None else keep_places,
            by_demand=job_order == "demand",
        )
        self._least_stay_us = int(seconds_to_us(least_stay_s))
        self._least_stay_by = least_stay_by
        self._young_factor = young_factor
        self._most_epochs = most_epochs
        self._slow_above = slow_above
        self._speed_error = speed_error
        self._convergence_error = convergence_error

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Reset: no job is known."""
        self._world = world
        self._streams = streams
        self._trials = TrialRuns(world)
        self._known = nothing_known(NO_JOBS)
        self._counts = np.zeros(len(_COUNTS), dtype=np.int64)
        resources = world.cluster.resources
        quanta = np.array([QUANTA_PER_UNIT[resource] for resource in resources])
        self._choices = self._choices_for(quanta, resources.index("gpu"))

    def decide(self, view: ElasticView) -> ElasticDecision:
        """Fit to the observations of the last interval, then allocate and place."""
        jobs = np.concatenate([view.waiting, view.running])
        jobs.sort()
        placements = _numbered(view.placements.rows_of(jobs))
        held, useful = tasks_of(placements, len(jobs)), _useful_workers(view, jobs)
        slow = view.slowdown(jobs) > self._slow_above
        self._learn(view, jobs, held, useful, slow)
        known = self._known
        claims, asked = self._claims(view, jobs, useful), view.jobs.gang[jobs, WORKER]
        least_us = self._least_stay_us * stay_factors(claims, held, self._least_stay_by)
        stays = (held[:, WORKER] > 0) & (view.now_us - known.changed_us < least_us)
        interval = IntervalJobs(claims, asked, placements, held, stays)
        target = self._target(view, jobs, interval)
        replaced = slow & known.was_slow
        self._counts[_REPLACED] += replaced.sum()
        changes = allocation_changes(view.placements, jobs, target, replaced)
        known.was_slow[:] = slow
        if changes is not None:
            at = np.searchsorted(jobs, changes.job)
            known.was_slow[at], known.changed_us[at] = False, view.now_us
        beliefs = _beliefs(view, jobs, interval.claims, tasks_of(_numbered(target), len(jobs)))
        return ElasticDecision(changes=changes, estimates=beliefs, review_us=self._next_us(view, target))

    def _next_us(self, view: ElasticView, target: Rows) -> int:
        """Time of the next slot while any job runs; otherwise the next arrival or server change is enough."""
        slot_us = self._world.slot_us
        assert slot_us is not None, "a slotted policy runs where there are slots"
        return (view.now_us // slot_us + 1) * slot_us if len(target.server) else NEVER_US

    def _learn(
        self, view: ElasticView, jobs: IntArray, held: IntArray, useful: IntArray, slow: BoolArray
    ) -> None:
        """Fit the speeds of new jobs and of jobs with a new speed, and the curves of jobs with new losses."""
        self._known, new = carried_over(self._known, jobs)
        batch = _floats(view.jobs.batch[jobs])
        steps_per_s = view.samples_per_s(jobs) / batch
        at = np.flatnonzero((steps_per_s > 0) & ~slow)
        learned = note_speeds(self._known, at, held[at], steps_per_s[at])
        at = np.union1d(np.flatnonzero(new), learned)
        exchange = view.jobs.exchange[jobs[at]]
        fit_speeds(self._known, at, exchange, batch[at], useful[at], self._trials.samples_per_s)
        if self._predicts:
            self._fit_curves(view, jobs)

    def _fit_curves(self, view: ElasticView, jobs: IntArray) -> None:
        """Fit the curves of jobs with more losses than they were fitted to, or fewer: work may be lost."""
        known = self._known
        last_and_new = np.diff(view.losses(jobs, np.maximum(known.epochs, 1)).ptr)
        at = np.flatnonzero(last_and_new != (known.epochs > 0))
        if len(at):
            losses = view.losses(jobs[at], np.ones(len(at), dtype=np.int64))
            known.curve[at] = fitted_curves(losses.ptr, losses.value)
            known.epochs[at] = np.diff(losses.ptr)

    def _claims(self, view: ElasticView, jobs: IntArray, useful: IntArray) -> Claims:
        """Estimates and demands of each job; costs are filled in by partition."""
        young = self._predicts & (self._known.epochs < LEAST_POINTS)
        return Claims(
            steps=self._samples_left(view, jobs) / view.jobs.batch[jobs],
            time=self._known.time / self._misjudged("speed", self._speed_error, jobs)[:, None],
            demand=view.jobs.role_demand[jobs],
            cost=np.zeros((len(jobs), 2)),
            most_workers=useful,
            with_ps=view.jobs.exchange[jobs] != Exchange.ALL_REDUCE,
            priority=np.where(young, self._young_factor, 1.0),
        )

    def _samples_left(self, view: ElasticView, jobs: IntArray) -> FloatArray:
        left = self._predicted(view, jobs) if self._predicts else view.work_left(jobs)
        return left * self._misjudged("convergence", self._convergence_error, jobs)

    def _predicted(self, view: ElasticView, jobs: IntArray) -> FloatArray:
        """(n,) samples that jobs have left, by their losses."""
        threshold, patience = view.jobs.loss_threshold[jobs], view.jobs.loss_patience[jobs]
        done = _floats(self._known.epochs)
        left = epochs_left(self._known.curve, done, _floats(threshold), _floats(patience), self._most_epochs)
        return left * view.jobs.samples[jobs]

    def _misjudged(self, what: str, error: float, jobs: IntArray) -> FloatArray:
        """Factor 1 + error or 1 - error of each job, drawn once."""
        if error == 0:
            return np.ones(len(jobs))
        draws = [self._streams.generator(f"optimus-{what}", job).random() for job in jobs.tolist()]
        return np.where(np.array(draws) < 0.5, 1 - error, 1 + error)

    def _target(self, view: ElasticView, jobs: IntArray, interval: IntervalJobs) -> Rows:
        """Target placements of every job."""
        partition = view.jobs.partition[jobs]
        found = []
        for p in np.unique(partition).tolist():
            members = np.flatnonzero(partition == p)
            servers = np.flatnonzero((self._world.server_partition == p) & view.available)
            capacity = self._world.cluster.capacity[servers]
            types = type_resources(self._world, self._world.pool_of(jobs[members]), servers)
            target = target_of(part_of(interval, members), servers, capacity, self._choices, types)
            placed = target.placements
            found.append(replace(placed, job=members[placed.job]))
            self._counts[_SHRUNK] += target.shrunk
            self._counts[_WITHOUT_ROOM] += target.without_room
            largest = self._counts[_TASKS:]
            np.maximum(largest, (target.tasks, target.steps), out=largest)
        every = PlacementTable.joined(found).in_order()
        ptr = np.searchsorted(every.job, np.arange(len(jobs) + 1))
        return Rows(ptr, every.server, every.role, every.count)

    def state(self) -> State:
        """Return knowledge of active jobs, and counts."""
        known = {name: array.copy() for name, array in self._known._asdict().items()}
        return {**known, "counts": self._counts.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        sorted_indices(state, "job", len(self._world.jobs.submit_us))
        all_within({name: state[name] for name in ("epochs", "seen", "seen_pairs", "changed_us")})
        self._known = Knowledge(**{name: state[name].copy() for name in Knowledge._fields})
        self._counts = state["counts"].copy()

    def counts(self) -> dict[str, int]:
        """Return counts of replaced slow workers and of jobs with fewer tasks than allocated or none, and the
        most tasks and steps of a decision in one partition.
        """
        return dict(zip(_COUNTS, self._counts.tolist(), strict=True))


def _beliefs(view: ElasticView, jobs: IntArray, claims: Claims, tasks: IntArray) -> Estimates:
    """Estimates for jobs with these (n, 2) tasks; no speed for jobs without tasks."""
    found = np.empty(len(jobs))
    steps_per_s(claims.time, tasks, found)
    batch = _floats(view.jobs.batch[jobs])
    return Estimates(jobs, np.where(tasks[:, WORKER] > 0, found * batch, np.nan), claims.steps * batch)


def _numbered(rows: Rows) -> PlacementTable:
    """Placements by job number."""
    number = np.repeat(np.arange(len(rows.ptr) - 1), np.diff(rows.ptr))
    return PlacementTable(number, rows.server, rows.role, rows.tasks)


def _useful_workers(view: ElasticView, jobs: IntArray) -> IntArray:
    """(n,) useful workers: at most the samples of a step, for jobs in step.

    Jobs whose workers demand nothing get at most the number that they ask for.
    """
    in_step = view.jobs.exchange[jobs] != Exchange.ASYNC
    useful = np.where(in_step, np.minimum(view.jobs.batch[jobs], _MOST_WORKERS), _MOST_WORKERS)
    for_nothing = (view.jobs.role_demand[jobs, WORKER] == 0).all(axis=1)
    asked = view.jobs.gang[jobs, WORKER]
    return np.where(for_nothing, np.minimum(asked, useful), useful).astype(np.int64)


def _floats(column: IntArray) -> FloatArray:
    return column.astype(np.float64)
