"""Harmony's reward model: the speed of each job from the placement of all, by a fitted network.

The networks here have their batch normalisation folded into weights and are computed by numpy;
`ray_sim.learning.reward_training` fits them. docs/training_harmony.md has both forms.

Source: Bao, Peng, Wu: Deep Learning-based Job Placement in Distributed Machine Learning Clusters, INFOCOM
2019; the shared form is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ray_sim.agents.features import F32
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.rules import PlacementRule, StepTimeInputs
from ray_sim.environments.episodes import Episode
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.learning.speed_samples import SpeedSamples, tasks_by_server, types_of
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.progress_rule import PlacementRows, rows_of
from ray_sim.model.units import US_PER_S, FloatArray, IntArray


class Layer(NamedTuple):
    """One fully connected layer."""

    weight: F32
    """(inputs, outputs)."""
    bias: F32
    """(outputs,)."""


class Cells(NamedTuple):
    """Jobs on servers; see `cells_of`. What disturbs a job there are the tasks of others, counted by type."""

    features: F32
    """(C, 3 L + 5)."""
    first: IntArray
    """(jobs,) first cell of each job; its cells follow each other."""


class RewardModel(Protocol):
    """Predicts the speeds of jobs."""

    def speeds(self, kind: IntArray, tasks: IntArray) -> FloatArray:
        """(n, K) samples per second of jobs; 0 where there is none.

        Parameters
        ----------
        kind : (n, K) type of each job, -1 where there is none
        tasks : (n, K, 2, S) its workers and parameter servers on each server
        """


@dataclass(frozen=True, slots=True)
class SharedRewardModel:
    """Weights shared by all jobs and servers: any number of either, in any order.

    Each cell, a job on one of its servers, passes the first layers. Of each output the largest over the
    servers of the job passes the last layers, since tasks wait for each other. They give the logarithm of its
    speed.
    """

    types: int
    """L, types of jobs."""
    cell_layers: tuple[Layer, ...]
    job_layers: tuple[Layer, ...]

    def speeds(self, kind: IntArray, tasks: IntArray) -> FloatArray:
        """See `RewardModel.speeds`."""
        cells = cells_of(kind, tasks, self.types)
        speeds = np.zeros(kind.shape)
        if len(cells.first):
            hidden = _rectified(cells.features, self.cell_layers)
            hidden = largest(hidden, cells)
            held = (kind >= 0) & tasks.any(axis=(2, 3))
            speeds[held] = np.exp(_output(hidden, self.job_layers)[:, 0].astype(np.float64))
        return speeds


@dataclass(frozen=True, slots=True)
class DenseRewardModel:
    """The published form: fully connected layers over all of (x, w, p, d), for at most so many rows."""

    types: int
    rows: int
    """Most jobs that run at a time."""
    layers: tuple[Layer, ...]

    def speeds(self, kind: IntArray, tasks: IntArray) -> FloatArray:
        """See `RewardModel.speeds`.

        Raises
        ------
        InvalidInputError : there are more jobs than rows
        """
        output = _output(state_of(kind, tasks, self.types, self.rows), self.layers)[:, : kind.shape[1]]
        speeds: FloatArray = np.where(kind >= 0, np.exp(output.astype(np.float64)), 0.0)
        return speeds


def cells_of(kind: IntArray, tasks: IntArray, types: int) -> Cells:
    """Features of every job on each of its servers; see `RewardModel.speeds`.

    Features are: type, one-hot; workers and parameter servers here; those of other jobs here by type; all
    workers and parameter servers of the job; on how many servers it is.
    """
    one_hot = np.eye(types, dtype=np.int64)
    typed = one_hot[kind] * (kind >= 0)[..., None]
    held = tasks.any(axis=2) & (kind >= 0)[..., None]
    sample, job, server = held.nonzero()
    own = tasks[sample, job, :, server]
    others = np.einsum("nkl,nkrs->nslr", typed, tasks)[sample, server]
    others[np.arange(len(own)), kind[sample, job]] -= own
    of_job = [tasks.sum(axis=3)[sample, job], held.sum(axis=2)[sample, job][:, None]]
    features = np.hstack([typed[sample, job], own, others.reshape(len(own), 2 * types), *of_job])
    first = np.flatnonzero(np.diff(sample * kind.shape[1] + job, prepend=-1))
    return Cells(features.astype(np.float32), first)


def state_of(kind: IntArray, tasks: IntArray, types: int, rows: int) -> F32:
    """(n, rows (L + 2 + 2 S)) the inputs x, w, p and d of the published form.

    Raises
    ------
    InvalidInputError : there are more jobs than rows
    """
    n, most, _, servers = tasks.shape
    if most > rows:
        raise InvalidInputError(
            f"reward model: {most} jobs run at a time, it has {rows} rows; give more, or use the shared form"
        )
    state = np.zeros((n, rows, types + 2 + 2 * servers), dtype=np.float32)
    sample, row = np.nonzero(kind >= 0)
    state[sample, row, kind[sample, row]] = 1.0
    state[:, :most, types : types + 2] = tasks.sum(axis=3)
    state[:, :most, types + 2 :] = tasks.reshape(n, most, 2 * servers)
    return state.reshape(n, -1)


def largest(values: F32, cells: Cells) -> F32:
    """(jobs, outputs) the largest value over the cells of each job."""
    most: F32 = np.maximum.reduceat(values, cells.first, axis=0)
    return most


def _rectified(values: F32, layers: tuple[Layer, ...]) -> F32:
    """Layers, each followed by ReLU."""
    for layer in layers:
        values = np.maximum(values @ layer.weight + layer.bias, np.float32(0.0))
    return values


def _output(values: F32, layers: tuple[Layer, ...]) -> F32:
    """Layers, each but the last followed by ReLU."""
    output: F32 = _rectified(values, layers[:-1]) @ layers[-1].weight + layers[-1].bias
    return output


@dataclass(frozen=True, slots=True)
class ModelledProgress:
    """Progress rule of jobs that train at the speeds of a reward model."""

    model: RewardModel
    kind: IntArray
    """(J,) type of each job."""
    servers: int
    """S."""
    disturbing: ClassVar[bool] = True

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs`` beside all that run."""
        running = np.flatnonzero(placements.pool.head >= 0)
        tasks = tasks_by_server(rows_of(placements, running), self.servers)
        speeds = self.model.speeds(self.kind[running][None], tasks[None])[0]
        return speeds[np.searchsorted(running, jobs)] / US_PER_S

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """All other running jobs."""
        others = placements.pool.head >= 0
        others[jobs] = False
        return np.flatnonzero(others)

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of N jobs with these placements, each alone."""
        tasks = tasks_by_server(rows, self.servers)
        return self.model.speeds(self.kind[jobs][:, None], tasks[:, None])[:, 0]

    def on_reference_servers(self, servers: int) -> ModelledProgress:
        """The same rule with this number of servers; it has no reference servers."""
        return replace(self, servers=servers)


class ModelledRule(PlacementRule):
    """Step-time rule by a reward model, in place of the true one."""

    def __init__(self, model: RewardModel, kind: IntArray) -> None:
        self._model, self._kind = model, kind

    def progress(self, inputs: StepTimeInputs) -> ModelledProgress:
        """See `ModelledProgress`."""
        return ModelledProgress(self._model, self._kind, len(inputs.speed))


def modelled(episode: Episode, model: RewardModel, models: Sequence[str]) -> Episode:
    """An episode whose jobs train at the speeds of a reward model with these types by number."""
    world = episode.world
    rule = ModelledRule(model, types_of(world, models))
    facts = replace(ElasticFacts.in_world(world), rule=rule, colocation=None)
    return Episode(replace(world, facts=facts), episode.seed)


def relative_error(predicted: FloatArray, samples: SpeedSamples) -> float:
    """Mean of ``|c - c'| / c'`` over all jobs with a measured speed c' above 0; NaN if there is none."""
    there = samples.measured
    measured = samples.speed[there]
    return float((np.abs(predicted[there] - measured) / measured).mean()) if there.any() else float("nan")


def model_arrays(model: RewardModel) -> dict[str, np.ndarray]:
    """Arrays of a model of the shared form; their names are those of snapshots, which a change breaks."""
    assert isinstance(model, SharedRewardModel), "a training fits the shared form"
    parts = {"cell": model.cell_layers, "job": model.job_layers}
    return {
        f"{name}.{i}.{field}": getattr(layer, field)
        for name, layers in parts.items()
        for i, layer in enumerate(layers)
        for field in Layer._fields
    }


def model_of(arrays: Mapping[str, np.ndarray], types: int) -> RewardModel:
    """The model of `model_arrays`, for so many types of jobs."""

    def layers(name: str) -> tuple[Layer, ...]:
        numbers = takewhile(lambda i: f"{name}.{i}.weight" in arrays, count())
        return tuple(Layer(*(arrays[f"{name}.{i}.{field}"] for field in Layer._fields)) for i in numbers)

    return SharedRewardModel(types, layers("cell"), layers("job"))
