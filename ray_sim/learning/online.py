"""Training in one process: steps of a vector of Placement-v0, and steps of training in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.exploration import explore, rule_actions
from ray_sim.learning.samples import ENTRIES, Collector, Observations, Samples, Step
from ray_sim.learning.update import Learner, Losses
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray

Probabilities = Callable[[Observations], FloatArray]
"""Probabilities of actions, (E, actions), from observations with a leading axis E."""


class Environments(Protocol):
    """Several environments that are stepped together, as gymnasium's vectors with resets in the next step."""

    def reset(self, *, seed: int | None = None) -> tuple[Observations, dict[str, np.ndarray]]:
        """Begin episodes."""

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Carry out one action each; one whose episode has ended begins another."""


class Progress(NamedTuple):
    """What one round of training gives."""

    rewards: FloatArray
    """Rewards of the intervals that were collected."""
    losses: Losses
    """Of the last step of training."""


class Sampler:
    """Takes actions in environments and hands out samples of closed intervals."""

    def __init__(
        self, environments: Environments, capacity: FloatArray, exploration: float, streams: Streams
    ) -> None:
        """See `capacity_shares` for ``capacity``."""
        self._environments, self._capacity = environments, capacity
        self._exploration, self._streams = exploration, streams
        self._collector = Collector()
        self._seen, _ = environments.reset(seed=streams.seed)
        self._ended = np.zeros(len(self._seen[ACTION_MASK]), dtype=np.bool_)
        self._taken = 0

    def collect(self, steps: int, probabilities: Probabilities) -> Samples:
        """Step all environments, and return the samples of the intervals that were closed."""
        for _ in range(steps):
            self._step(probabilities)
        return self._collector.take(self._seen)

    def _step(self, probabilities: Probabilities) -> None:
        seen, acts = self._seen, ~self._ended
        draw = self._streams.generator("harmony-exploration", self._taken)
        rated = {**seen, ACTION_MASK: np.where(acts[:, None], seen[ACTION_MASK], 1)}
        choice = explore(probabilities(rated), rule_actions(rated, self._capacity), self._exploration, draw)
        self._seen, reward, terminated, truncated, info = self._environments.step(choice.action)
        over = terminated | truncated
        closes = info["_length_s"] if "_length_s" in info else np.zeros_like(over)
        observations = {name: seen[name] for name in ENTRIES}
        self._collector.note(Step(observations, *choice, acts, reward, closes & acts, over))
        self._ended = over
        self._taken += 1


def train(learner: Learner, sampler: Sampler, rounds: int, steps: int, updates: int) -> Iterator[Progress]:
    """Collect and improve in turn.

    Parameters
    ----------
    steps : of all environments in a round
    updates : steps of training in a round
    """
    for _ in range(rounds):
        samples = sampler.collect(steps, learner.probabilities)
        learner.add(samples)
        losses = [learner.step() for _ in range(updates)]
        yield Progress(samples.reward, losses[-1])
