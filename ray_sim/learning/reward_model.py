"""Harmony's reward model: the speed of each job from the placement of all, by a fitted network.

The networks here have their batch normalisation folded into weights and are computed by numpy;
`ray_sim.learning.reward_training` fits them. docs/training_harmony.md has both forms.

Source: Bao, Peng, Wu: Deep Learning-based Job Placement in Distributed Machine Learning Clusters, INFOCOM
2019; the shared form is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import NamedTuple, Protocol

import numpy as np

from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.learning.batch_arrays import F32
from ray_sim.learning.cell_kernels import count_cells, fill_cells
from ray_sim.learning.speed_samples import SpeedSamples
from ray_sim.learning.speeds import Running
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import US_PER_S, FloatArray, IntArray


class Layer(NamedTuple):
    """One fully connected layer."""

    weight: F32
    """(inputs, outputs)."""
    bias: F32
    """(outputs,)."""


class Cells(NamedTuple):
    """Jobs on servers; see `ray_sim.learning.cell_kernels.fill_cells`."""

    features: F32
    """(C, 3 L + 5)."""
    first: I64
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
    """Features of every job on each of its servers; see `RewardModel.speeds`."""
    kind, tasks = np.ascontiguousarray(kind), np.ascontiguousarray(tasks)
    features = np.empty((count_cells(kind, tasks), 3 * types + 5), dtype=np.float32)
    first = np.empty(kind.size, dtype=np.int64)
    beside = np.empty((tasks.shape[3], types, 2), dtype=np.int64)
    jobs = fill_cells(kind, tasks, beside, features, first)
    return Cells(features, first[:jobs])


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


class ModelledSpeeds:
    """The speeds of a reward model, for a `ModelWorld`."""

    def __init__(self, model: RewardModel, kind: IntArray) -> None:
        """Serve the jobs of a world, whose types, (J,), are ``kind``."""
        self._model, self._kind = model, kind

    def rates(self, running: Running) -> F64:
        """See `SpeedModel.rates`."""
        kind = np.where(running.job >= 0, self._kind[running.job], -1)
        return self._model.speeds(kind, running.tasks) / US_PER_S


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
