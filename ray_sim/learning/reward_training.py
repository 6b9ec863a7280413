"""Fits the reward model with PyTorch: mean relative error, batch normalisation, Adam."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import numpy as np

from ray_sim.agents.features import F32
from ray_sim.learning.pytorch import Tensor, nn, torch
from ray_sim.learning.reward_model import (
    DenseRewardModel,
    Layer,
    RewardModel,
    SharedRewardModel,
    cells_of,
    largest,
    relative_error,
    state_of,
)
from ray_sim.learning.speed_samples import SpeedSamples
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

Form = Literal["shared", "dense"]

_AVERAGED = 4096
"""Most samples over which batch normalisation takes its averages for inference."""

_MOST_GRADIENT = 1.0
"""Norm to which gradients are shortened: that of the relative error of a speed far too large is as large."""


@dataclass(frozen=True, slots=True)
class RewardTraining:
    """How a reward model is fitted."""

    form: Form = "shared"
    """Shared weights, or the published fully connected form."""
    hidden: tuple[int, ...] = (32, 32, 32)
    """Neurons of each hidden layer; the shared form has all but the last before the maximum over servers."""
    learning_rate: float = 5e-3
    """Of Adam at first; it falls to 0 along half a cosine over all epochs."""
    minibatch: int = 256
    """Samples of a step."""
    epochs: int = 20
    """Most passes over the samples."""
    target: float = 0.1
    """Fitting stops when the relative error of held-out samples is at most this; 0 for all epochs."""
    rows: int | None = None
    """Rows of the dense form; as many as the widest sample where None."""


class EpochError(NamedTuple):
    """Errors after a pass over the samples."""

    epoch: int
    """From 1 on."""
    fitted: float
    """Mean of the losses of its steps."""
    held_out: float
    """Relative error of held-out samples."""


class FittedModel(NamedTuple):
    """A reward model and how it came about."""

    model: RewardModel
    errors: tuple[EpochError, ...]
    """Of each epoch."""


def fit_reward_model(
    samples: SpeedSamples, held_out: SpeedSamples, types: int, training: RewardTraining, seed: int
) -> FittedModel:
    """Fit a reward model; one thread, so that the same seed gives the same weights on one machine.

    Parameters
    ----------
    types : L, types of jobs

    Raises
    ------
    InvalidInputError : fewer than two samples, no job with a measured speed, or a loss that is no number
    """
    if len(samples) < 2:
        raise InvalidInputError(f"reward model: needs at least two samples to fit, got {len(samples)}")
    if not samples.measured.any() or not held_out.measured.any():
        raise InvalidInputError("reward model: no job of the samples has a measured speed above 0")
    torch.set_num_threads(1)
    streams = Streams(seed)
    torch.manual_seed(int(streams.generator("reward-model-weights").integers(2**62)))
    order = streams.generator("reward-model-minibatches")
    network = _network(samples, types, training)
    optimiser = torch.optim.Adam(network.parameters(), lr=training.learning_rate)
    steps = training.epochs * -(-len(samples) // training.minibatch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    errors: list[EpochError] = []
    for epoch in range(1, training.epochs + 1):
        losses = []
        for part in _minibatches(len(samples), training.minibatch, order):
            loss = network.loss(part)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]  # torch has no type for it
            nn.utils.clip_grad_norm_(network.parameters(), _MOST_GRADIENT)
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
        _check_finite(losses, epoch)
        held = relative_error(network.folded().speeds(held_out.kind, held_out.tasks), held_out)
        errors.append(EpochError(epoch, float(np.mean(losses)), held))
        if held <= training.target:
            break
    return FittedModel(network.folded(), tuple(errors))


def _check_finite(losses: list[float], epoch: int) -> None:
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        raise InvalidInputError(
            f"reward model: the loss is {losses[wrong[0]]} in step {wrong[0] + 1} of epoch {epoch}; "
            "lower the learning rate"
        )


def _minibatches(samples: int, size: int, order: np.random.Generator) -> Iterator[IntArray]:
    """All samples in random order, in parts of nearly equal length."""
    yield from np.array_split(order.permutation(samples), -(-samples // size))


class _Network(Protocol):
    """A network in the making."""

    def parameters(self) -> list[nn.Parameter]:
        """Weights to fit."""

    def loss(self, part: IntArray) -> Tensor:
        """Mean relative error of some of the samples."""

    def folded(self) -> RewardModel:
        """The network so far, for inference."""


def _network(samples: SpeedSamples, types: int, training: RewardTraining) -> _Network:
    if training.form == "shared":
        return _SharedNetwork(samples, types, training.hidden)
    rows = samples.kind.shape[1] if training.rows is None else training.rows
    return _DenseNetwork(samples, types, rows, training.hidden)


class _SharedNetwork:
    """See `SharedRewardModel`; a job is an example of its own, since its features tell of the others."""

    def __init__(self, samples: SpeedSamples, types: int, hidden: tuple[int, ...]) -> None:
        self._types = types
        self._averaged = cells_of(samples.kind[:_AVERAGED], samples.tasks[:_AVERAGED], types)
        there = samples.measured
        cells = cells_of(samples.kind, samples.tasks, types)
        of_job = np.append(cells.first, len(cells.features))
        example = there[samples.kind >= 0]
        self._begin, self._end = of_job[:-1][example], of_job[1:][example]
        self._of_sample = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        self._features = torch.from_numpy(cells.features)
        self._log_speed = _log_speeds(samples.speed[there])
        self._cell_layers = _hidden_layers((cells.features.shape[1], *hidden[:-1]))
        self._job_layers = _hidden_layers(hidden[-2:])
        self._job_layers.append(_last_layer(hidden[-1], 1, self._log_speed))

    def parameters(self) -> list[nn.Parameter]:
        """Weights to fit."""
        return [*self._cell_layers.parameters(), *self._job_layers.parameters()]

    def loss(self, part: IntArray) -> Tensor:
        """Mean relative error over the jobs of some of the samples."""
        jobs = _ranges(self._of_sample[part], self._of_sample[part + 1])
        begin, end = self._begin[jobs], self._end[jobs]
        hidden = self._cell_layers(self._features[torch.from_numpy(_ranges(begin, end))])
        most = torch.segment_reduce(hidden, "max", lengths=torch.from_numpy(end - begin))
        output = self._job_layers(most)[:, 0]
        return _relative_errors(output, self._log_speed[torch.from_numpy(jobs)]).mean()

    def folded(self) -> SharedRewardModel:
        """The network so far, for inference."""
        cell_layers, hidden = _folded(self._cell_layers, self._averaged.features)
        job_layers, _ = _folded(self._job_layers, largest(hidden, self._averaged))
        return SharedRewardModel(self._types, cell_layers, job_layers)


class _DenseNetwork:
    """See `DenseRewardModel`."""

    def __init__(self, samples: SpeedSamples, types: int, rows: int, hidden: tuple[int, ...]) -> None:
        self._types, self._rows = types, rows
        state = state_of(samples.kind, samples.tasks, types, rows)
        more = ((0, 0), (0, rows - samples.kind.shape[1]))
        there = np.pad(samples.measured, more)
        self._state, self._there = torch.from_numpy(state), torch.from_numpy(there)
        self._log_speed = _log_speeds(np.where(there, np.pad(samples.speed, more), 1.0))
        self._layers = _hidden_layers((state.shape[1], *hidden))
        self._layers.append(_last_layer(hidden[-1], rows, self._log_speed[self._there]))

    def parameters(self) -> list[nn.Parameter]:
        """Weights to fit."""
        return list(self._layers.parameters())

    def loss(self, part: IntArray) -> Tensor:
        """Mean relative error over the jobs of some of the samples."""
        chosen = torch.from_numpy(part)
        errors = _relative_errors(self._layers(self._state[chosen]), self._log_speed[chosen])
        return errors[self._there[chosen]].mean()

    def folded(self) -> DenseRewardModel:
        """The network so far, for inference."""
        layers, _ = _folded(self._layers, self._state[:_AVERAGED].numpy())
        return DenseRewardModel(self._types, self._rows, layers)


def _ranges(begin: IntArray, end: IntArray) -> IntArray:
    """The whole numbers from ``begin[i]`` to ``end[i]`` - 1 for each i, one range after the other."""
    lengths = end - begin
    shift = begin - np.concatenate([[0], np.cumsum(lengths)[:-1]])
    numbers: IntArray = np.arange(lengths.sum()) + np.repeat(shift, lengths)
    return numbers


def _log_speeds(speed: FloatArray) -> Tensor:
    return torch.from_numpy(np.log(speed).astype(np.float32))


def _relative_errors(output: Tensor, log_speed: Tensor) -> Tensor:
    """``|c - c'| / c'`` of c = exp(output), without the range of c itself."""
    return torch.abs(torch.expm1(output - log_speed))


def _hidden_layers(sizes: tuple[int, ...]) -> nn.Sequential:
    """Fully connected layers, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs, track_running_stats=False), nn.ReLU()]
    return nn.Sequential(*layers)


def _last_layer(inputs: int, outputs: int, log_speed: Tensor) -> nn.Linear:
    """A layer whose outputs are at first about the mean logarithm of the speeds."""
    layer = nn.Linear(inputs, outputs)
    layer.bias.data.fill_(float(log_speed.mean()))
    return layer


def _folded(layers: nn.Sequential, values: F32) -> tuple[tuple[Layer, ...], F32]:
    """Fully connected layers with the batch normalisation after each folded into them, and their outputs.

    The averages are those over ``values``, (n, inputs).
    """
    found: list[Layer] = []
    for module in layers:
        if isinstance(module, nn.Linear):
            weight, bias = module.weight.detach().numpy().T, module.bias.detach().numpy()
            found.append(Layer(weight.copy(), bias.copy()))
            values = values @ weight + bias
        elif isinstance(module, nn.BatchNorm1d):
            scale = module.weight.detach().numpy() / np.sqrt(values.var(axis=0) + np.float32(module.eps))
            shift = module.bias.detach().numpy() - values.mean(axis=0) * scale
            weight, bias = found.pop()
            found.append(Layer(weight * scale, bias * scale + shift))
            values = values * scale + shift
        else:
            values = np.maximum(values, np.float32(0.0))
    return tuple(found), values
