"""Steps of training: one minibatch, one step of Adam for each network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.engine.states import all_within, same, within
from ray_sim.learning.loss import (
    entropies,
    importance_weights,
    log_probabilities,
    policy_losses,
    proximal_weights,
    value_losses,
)
from ray_sim.learning.networks import Network, new_policy, new_value, states_of
from ray_sim.learning.pytorch import Tensor, one_thread, torch
from ray_sim.learning.replay import ENTRIES, Observations, Replay, ReplayBatch
from ray_sim.learning.training_config import Importance, TrainingConfig
from ray_sim.model.errors import RunFailedError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.policies.harmony.architecture import F32, Architecture

MOST_GRADIENT = 1.0
"""Norm to which the gradient of a network is cut."""

TINY = 1e-8
"""Keeps equal advantages from a division by 0."""

MOST_MOVE = 0.2
"""Change of a ratio beyond which a sample has no more weight, for `Importance.PROXIMAL`."""

MOST_IMPORTANCE = 2.0
"""Bound on importance ratios."""


class TrainingDivergedError(RunFailedError):
    """A loss or a gradient is not finite; the networks are as before that step."""


class UpdateLosses(NamedTuple):
    """Means over a minibatch."""

    policy: float
    value: float
    """0 without a critic."""
    entropy: float


class MovingAverage:
    """Exponential moving average of returns, the baseline without a critic; docs/models/harmony.md#loss."""

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self._sum, self._weight = 0.0, 0.0

    def add(self, numbers: FloatArray) -> None:
        """Add numbers, the oldest first."""
        for number in numbers.tolist():
            self._sum = self._decay * self._sum + number
            self._weight = self._decay * self._weight + 1.0

    def state(self) -> FloatArray:
        """(2,) what further means depend on."""
        return np.array([self._sum, self._weight])

    def restore(self, state: FloatArray) -> None:
        """Continue from a `state`."""
        self._sum, self._weight = state.tolist()

    @property
    def value(self) -> float:
        """Weighted mean so far; 0 before the first number."""
        return self._sum / self._weight if self._weight else 0.0


class Learner:
    """Networks, optimisers and replay of one training."""

    def __init__(self, config: TrainingConfig, architecture: Architecture, streams: Streams) -> None:
        one_thread()
        self._config = config
        self.policy, self.value = new_policy(architecture, streams), new_value(architecture, streams)
        self._optimisers = [
            torch.optim.Adam(network.parameters(), lr=config.learning_rate)
            for network in (self.policy, self.value)
        ]
        self._replay = Replay(config.buffer, streams)
        self._baseline = MovingAverage(config.baseline_decay)
        self.steps = 0
        """Steps of training so far."""

    def put(self, batch: ReplayBatch) -> None:
        """Put samples with their returns into the buffer, the oldest first."""
        self._baseline.add(batch.returns)
        self._replay.put(batch)

    def forget(self) -> None:
        """Empty the buffer, as its returns are of other rewards."""
        self._replay.forget()

    def values(self, observations: Observations) -> FloatArray:
        """(E,) the baseline of states."""
        if not self._config.critic:
            return np.full(len(observations[ACTION_MASK]), self._baseline.value)
        with torch.no_grad():
            values: FloatArray = self.value(states_of(observations)).double().numpy()
        return values

    def step(self, *, imitate: bool = False) -> UpdateLosses:
        """Draw a minibatch and improve both networks.

        Parameters
        ----------
        imitate : whether the policy network learns the actions as they were taken, whatever their returns

        Raises
        ------
        TrainingDivergedError : a loss or a gradient is not finite
        RunFailedError : there are no samples
        """
        if not len(self._replay):
            raise RunFailedError(
                "training: no interval has ended in the actions of the rounds so far, so there is nothing to "
                "learn from; raise collecting.steps"
            )
        policy, value, entropy = self._losses(self._next_minibatch(), imitate)
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        (policy + value).backward()
        self._check_finite(policy, value)
        for network in (self.policy, self.value):
            torch.nn.utils.clip_grad_norm_(network.parameters(), MOST_GRADIENT)
        for optimiser in self._optimisers:
            optimiser.step()
        self.steps += 1
        return UpdateLosses(policy.item(), value.item(), entropy.item())

    def check(self, *, imitate: bool = False) -> None:
        """Compute the losses of the next step, and change nothing: weights after a step may be too large.

        Raises
        ------
        TrainingDivergedError : a loss is not finite
        """
        with torch.no_grad():
            policy, value, _ = self._losses(self._next_minibatch(), imitate)
        self._check_finite(policy, value)

    def _next_minibatch(self) -> ReplayBatch:
        return self._replay.minibatch(self._config.minibatch, self.steps)

    def _losses(self, batch: ReplayBatch, imitate: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Mean losses of policy and value, and the mean entropy."""
        states = states_of(batch.observations)
        mask, action = states[ACTION_MASK], torch.as_tensor(batch.action)
        returns = torch.as_tensor(batch.returns, dtype=torch.float32)
        found = log_probabilities(self.policy(states), mask)
        value = value_losses(self.value(states), returns).mean() if self._config.critic else torch.zeros(())
        advantage = returns - torch.as_tensor(batch.baseline, dtype=torch.float32)
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + TINY)
        taken = found.gather(1, action[:, None]).squeeze(1).detach()
        before = torch.as_tensor(batch.log_probability, dtype=torch.float32)
        if imitate:
            advantage = torch.ones_like(advantage)
        elif self._config.importance is Importance.CLIPPED:
            advantage = advantage * importance_weights(taken, before, MOST_IMPORTANCE)
        elif self._config.importance is Importance.PROXIMAL:
            advantage = advantage * proximal_weights(taken, before, advantage, MOST_MOVE)
        losses = policy_losses(found, mask, action, advantage, self._config.entropy)
        return losses.mean(), value, entropies(found, mask).mean().detach()

    def _check_finite(self, policy: Tensor, value: Tensor) -> None:
        gradients = [
            parameter.grad.sum()
            for network in (self.policy, self.value)
            for parameter in network.parameters()
            if parameter.grad is not None
        ]
        if not torch.isfinite(torch.stack([policy, value, *gradients])).all():
            raise TrainingDivergedError(
                f"training: step {self.steps}: the loss is {policy.item():g} (policy) and {value.item():g} "
                "(value), or a gradient is not finite; the networks are kept as before this step. Lower "
                f"learning_rate (now {self._config.learning_rate:g}) or check the rewards"
            )

    def parameters(self) -> dict[str, F32]:
        """Parameters of the policy network for a checkpoint."""
        return self.policy.parameters_by_name()

    def state(self) -> dict[str, np.ndarray]:
        """All that further steps depend on, as arrays by name."""
        found: dict[str, np.ndarray] = {"steps": np.array(self.steps), "baseline": self._baseline.state()}
        for name, network, optimiser in self._parts():
            for key, array in network.arrays.items():
                found[f"{name}.{key}"] = array.detach().numpy()
                moments = optimiser.state.get(array, {})
                found |= {f"{name}.{key}.{moment}": value.numpy() for moment, value in moments.items()}
        kept = self._replay.kept
        if kept is not None:
            found |= {f"replay.{name}": array for name, array in kept.observations.items()}
            columns = zip(ReplayBatch._fields[1:], kept[1:], strict=True)
            found |= {f"replay.{name}": array for name, array in columns}
        return found

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a `state`; it fits if the losses of the next step can be computed from it."""
        all_within({name: np.abs(array) for name, array in state.items()})
        self.steps = int(state["steps"])
        self._baseline.restore(state["baseline"])
        for name, network, optimiser in self._parts():
            for key, array in network.arrays.items():
                prefix = f"{name}.{key}"
                array.data = torch.as_tensor(state[prefix]).clone()
                moments = [each for each in state if each.startswith(f"{prefix}.")]
                optimiser.state[array] = {
                    each.removeprefix(f"{prefix}."): torch.as_tensor(state[each]).clone() for each in moments
                }
        self._replay.forget()
        if "replay.action" in state:
            observations = {name: state[f"replay.{name}"] for name in ENTRIES}
            within(state, "replay.action", 0, observations[ACTION_MASK].shape[1] - 1)
            self._replay.put(
                ReplayBatch(observations, *(state[f"replay.{name}"] for name in ReplayBatch._fields[1:]))
            )
            lengths = [len(array) for name, array in state.items() if name.startswith("replay.")]
            same("replay", [len(self._replay)] * len(lengths), lengths)
            self.check()

    def _parts(self) -> Iterator[tuple[str, Network, torch.optim.Optimizer]]:
        yield "policy", self.policy, self._optimisers[0]
        yield "value", self.value, self._optimisers[1]
