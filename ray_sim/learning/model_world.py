"""Many episodes of placement at once, in arrays, with speeds by a model or by the truth.

Harmony trains its policy offline on the rewards of a model of speeds before it places real jobs (Bao, Peng,
Wu: Deep Learning-based Job Placement in Distributed Machine Learning Clusters, INFOCOM 2019). Episodes follow
the rules of `ray_sim/Placement-v0`: with true speeds, observations, masks, rewards and completions are those
of the engine to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.order import never_fits
from ray_sim.engine.simulation import MOST_IDLE
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import I8, I64, NEVER, Bool
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.kernels.handle import handle
from ray_sim.learning.batch_arrays import F32, JobSets, new_batch
from ray_sim.learning.clock_kernels import act, begin_all, gather, resume
from ray_sim.learning.speeds import Running, SpeedModel, refuse_unknown_facts
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError, InvalidScenarioError
from ray_sim.model.units import FloatArray


class StepAnswer(NamedTuple):
    """Results of a step, (E,) each. The arrays are used again."""

    rewards: FloatArray
    """Shares of work done in the interval that the action ended, summed over jobs; 0 within a decision."""
    lengths_us: FloatArray
    """Length of that interval, from one decision with a valid action to the next; 0 within a decision."""
    present_us: FloatArray
    """Sum over jobs of the time in the system, waiting or running, within it; 0 within a decision. The first
    interval of an episode has the time before it as well, so that the sum over an episode without horizon is
    that of JCT."""
    interval_ended: Bool
    """Whether the action was the last of its decision."""
    episode_ended: Bool
    """Whether the episode is over as well; observations then show the first decision of the next one."""


class ModelWorld:
    """E episodes of `ray_sim/Placement-v0` with ``scaled=True``, stepped together.

    Lane e runs set e, then set e + E, and so on, modulo the number of sets; a new episode begins in the step
    that ends the one before.
    """

    def __init__(
        self,
        worlds: Sequence[World],
        speeds: SpeedModel,
        *,
        episodes: int | None = None,
        most_jobs: int = 12,
        most_new: int | None = None,
        models: Sequence[str] | None = None,
    ) -> None:
        """Begin an episode in every lane.

        Parameters
        ----------
        worlds : a set of jobs each, all on the same servers; elastic, with ``slot_s``
        speeds : it numbers jobs one world after the other
        episodes : E; as many as worlds where None
        most_jobs, most_new : N and N', see `PlacementSettings`
        models : columns of ``type``; all models of the worlds, sorted, where None

        Raises
        ------
        InvalidInputError : a number out of range, a model that is not among ``models``
        InvalidScenarioError : worlds with facts that a batch does not have, or on different servers
        """
        check_worlds(worlds)
        new = most_jobs if most_new is None else most_new
        lanes = len(worlds) if episodes is None else episodes
        if not 1 <= new <= most_jobs:
            raise InvalidInputError(
                f"1 <= most_new <= most_jobs must hold, got most_jobs={most_jobs}, most_new={new}"
            )
        if lanes < 1:
            raise InvalidInputError(f"episodes: must be at least 1, got {lanes}")
        self.models = model_columns(worlds) if models is None else tuple(models)
        """Columns of ``type``."""
        self.sets = job_sets(worlds, self.models)
        self.speeds = speeds
        """May be replaced between two steps; jobs get the new speeds when they are next rated."""
        self._batch = new_batch(self.sets, lanes, most_jobs, new, len(self.models))
        self._handle = handle(self._batch)
        most_running = min(self._batch.runs.running.shape[1], max(world.row_bound for world in worlds))
        servers = len(self.sets.capacity)
        self._running = Running(
            np.empty((lanes, most_running), dtype=np.int64),
            np.empty((lanes, most_running, 2, servers), dtype=np.int64),
        )
        boards = self._batch.boards
        self._shown: dict[str, F32 | I8] = {
            "type": boards.kind,
            "demands": boards.demands,
            "workers": boards.workers,
            "ps": boards.ps,
            "free": boards.free,
            "placement": boards.placement,
            "hidden": boards.hidden,
            "action_mask": boards.mask,
        }
        begin_all(self._handle)

    def __len__(self) -> int:
        """Number of episodes, E."""
        return len(self._batch.boards.valid)

    def observations(self) -> Mapping[str, F32 | I8]:
        """Entries by name, each with a leading axis of E; a step changes the arrays."""
        return self._shown

    @property
    def mask(self) -> I8:
        """(E, N' x 2 x S) 1 where an action is valid; a step changes the array."""
        return self._batch.boards.mask

    @property
    def free_shares(self) -> F32:
        """(E, S, R) free resources as shares of the largest server; a step changes the array."""
        return self._batch.boards.free

    def step(self, actions: I64) -> StepAnswer:
        """Carry out a valid action, ((row x 2 + role) x S + server), in every episode.

        Raises
        ------
        ForbiddenActionError : an action is not valid; nothing has been changed
        """
        self._check(actions)
        queued = act(self._handle, actions)
        while queued:
            rates = self.speeds.rates(self._gathered(queued))
            queued = resume(self._handle, queued, rates)
        answers = self._batch.answers
        return StepAnswer(
            answers.reward, answers.length, answers.present, answers.interval_ended, answers.episode_ended
        )

    def _check(self, actions: I64) -> None:
        mask = self._batch.boards.mask
        if actions.shape != (len(mask),) or actions.dtype != np.int64:
            raise ForbiddenActionError(
                f"actions: must be ({len(mask)},) of int64, are {actions.shape} of {actions.dtype}"
            )
        inside = (actions >= 0) & (actions < mask.shape[1])
        valid = inside & (mask[np.arange(len(mask)), np.where(inside, actions, 0)] == 1)
        if not valid.all():
            e = int(np.argmin(valid))
            raise ForbiddenActionError(
                f"action {actions[e]} is forbidden in episode {e}: see its action_mask"
            )

    def _gathered(self, queued: int) -> Running:
        """The running jobs of the queued episodes, without columns that all of them leave empty."""
        runs, queue = self._batch.runs, self._batch.answers.queue
        most = int(runs.n_running[queue[:queued]].max())
        running = Running(self._running.job[:queued, :most], self._running.tasks[:queued, :most])
        gather(self._handle, queued, running.job, running.tasks)
        return running


def model_columns(worlds: Sequence[World]) -> tuple[str, ...]:
    """All models of the jobs of worlds, sorted."""
    names = (ElasticFacts.in_world(world).profile.model_names for world in worlds)
    return tuple(sorted(set().union(*names)))


def job_sets(worlds: Sequence[World], models: tuple[str, ...]) -> JobSets:
    """The jobs of worlds on the same servers, a set for each world.

    Raises
    ------
    InvalidInputError : a model is not among ``models``
    InvalidScenarioError : there are no slots, or a world without a job that fits, or with one without work
    """
    slot_us, most = worlds[0].slot_us, worlds[0].cluster.capacity.max(axis=0)
    if slot_us is None:
        raise InvalidScenarioError("batched world: jobs are placed at slot boundaries; give slot_s")
    arrays = [world.arrays for world in worlds]
    counts = [len(each.submit) for each in arrays]
    return JobSets(
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        submit=np.concatenate([each.submit for each in arrays]),
        model=np.concatenate([_column_of(world, models) for world in worlds]),
        gang=np.concatenate([each.gang for each in arrays]),
        demand=np.concatenate([each.demand for each in arrays]),
        work=np.concatenate([np.asarray(world.work, dtype=np.float64) for world in worlds]),
        fits=np.concatenate([_fits(world, number) for number, world in enumerate(worlds)]),
        capacity=arrays[0].capacity.copy(),
        unit=np.divide(1.0, most, out=np.zeros(len(most)), where=most > 0),
        clock=np.array([slot_us, worlds[0].horizon_us, MOST_IDLE]),
        completion=np.full(sum(counts), NEVER, dtype=np.int64),
    )


def check_worlds(worlds: Sequence[World]) -> None:
    """Refuse worlds that cannot be episodes of one batch.

    Raises
    ------
    InvalidInputError : there is none
    InvalidScenarioError : worlds with facts that a batch does not have, or on different servers
    """
    if not worlds:
        raise InvalidInputError("worlds: there must be at least one")
    for number, world in enumerate(worlds):
        refuse_unknown_facts(world)
        _check_same_servers(worlds[0], world, number)


def _check_same_servers(first: World, other: World, number: int) -> None:
    same = (
        np.array_equal(first.cluster.capacity, other.cluster.capacity)
        and np.array_equal(first.cluster.speed, other.cluster.speed)
        and first.cluster.interference is other.cluster.interference
        and first.params == other.params
    )
    if not same:
        raise InvalidScenarioError(
            f"worlds: number {number} has other servers or world parameters than number 0; "
            "a batch has the same for all"
        )


def _column_of(world: World, models: tuple[str, ...]) -> I64:
    """(J,) column of each job, -1 for none."""
    profile = ElasticFacts.in_world(world).profile
    unknown = sorted(set(profile.model_names) - set(models))
    if unknown:
        raise InvalidInputError(
            f"models: there are jobs of model '{unknown[0]}', which is not one of {', '.join(models)}"
        )
    column = np.array([*(models.index(name) for name in profile.model_names), -1], dtype=np.int64)
    return column[profile.model]


def _fits(world: World, number: int) -> Bool:
    """(J,) whether each job fits on empty servers."""
    fits: Bool = (never_fits(world, "pooled") == FITS)[world.arrays.job_class]
    idle = np.flatnonzero(np.asarray(world.work) <= 0)
    if len(idle):
        raise InvalidScenarioError(
            f"worlds: job {world.table.name(int(idle[0]))} of number {number} has no samples to train"
        )
    if not fits.any():
        raise InvalidScenarioError(f"worlds: number {number} has no job that fits on the servers")
    return fits
