"""Collection of experience: units of a fixed number of steps of a batch of episodes.

A unit is keyed by the seed of a training, its round and its number. Its job sets and its draws follow from
that key, its actions from these and the weights, so any actor gives the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ray_sim.engine.world import World
from ray_sim.learning.batched_policy import BatchedPolicy
from ray_sim.learning.exploration import Choice, explore, rule_actions, together_actions
from ray_sim.learning.model_world import ModelWorld
from ray_sim.learning.observations import ENTRIES, Observations
from ray_sim.learning.reward_model import ModelledSpeeds, RewardModel
from ray_sim.learning.speed_samples import RecordedSpeeds, SpeedSamples, joined
from ray_sim.learning.speeds import true_speeds
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.harmony.architecture import Architecture, Parameters

MEASURED_SHARE = 0.05
"""Share of the placements met whose speeds are kept for the reward model."""


class Steps(NamedTuple):
    """Observations, actions and rewards of E episodes over T steps."""

    observations: Observations
    """(T + 1, E) states; the last are those after the last step."""
    action: IntArray
    """(T, E)."""
    log_probability: FloatArray
    """(T, E) of the action when it was taken, exploration included; 0 for those of a teacher."""
    progress: FloatArray
    """(T, E) shares of work done in the interval that the action ended, summed over jobs; 0 within a
    decision."""
    length_us: FloatArray
    """(T, E) length of that interval."""
    present_us: FloatArray
    """(T, E) time of jobs in the system within it, summed over jobs."""
    interval_ended: BoolArray
    """(T, E)."""
    episode_ended: BoolArray
    """(T, E)."""


class Collected(NamedTuple):
    """Result of a collection unit."""

    steps: Steps
    measured: SpeedSamples | None
    """A random share of the speeds that jobs had, where they were true."""


class Unit(NamedTuple):
    """A piece of a round."""

    round: int
    number: int


class Guide(NamedTuple):
    """What chooses the actions of a round."""

    parameters: Parameters
    """Of the policy network."""
    taught: bool = False
    """Whether a rule chooses all actions, see `together_actions`."""
    model: RewardModel | None = None
    """Gives the speeds of jobs; the true ones where None."""


@dataclass(frozen=True, slots=True)
class Collection:
    """What all units of a training have in common."""

    seed: int
    worlds: Sequence[World]
    """Job sets to draw from, all on the same servers."""
    models: tuple[str, ...]
    architecture: Architecture
    capacity: FloatArray
    """(S, R) capacity of servers as shares of the largest, as ``free`` has them."""
    lanes: int
    """E, episodes of a unit."""
    steps: int
    """T, actions of a unit in each episode."""
    lanes_per_set: int
    """Number of neighbouring lanes with the same job set, which each of them plays again at its end."""
    exploration: float
    """Probability that a rule chooses an action."""

    def collect(self, unit: Unit, guide: Guide) -> Collected:
        """Play the episodes of a unit; groups of `lanes_per_set` lanes have different job sets."""
        streams = Streams(self.seed)
        chosen = streams.generator("harmony-job-sets", *unit).choice(
            len(self.worlds), self.lanes // self.lanes_per_set, replace=False
        )
        draw = streams.generator("harmony-actions", *unit)
        world = self.batch([self.worlds[i] for i in np.repeat(chosen, self.lanes_per_set).tolist()])
        measured = RecordedSpeeds(
            world.speeds, world.sets.model, MEASURED_SHARE, streams.generator("harmony-measured", *unit)
        )
        world.speeds = measured if guide.model is None else ModelledSpeeds(guide.model, world.sets.model)
        policy = BatchedPolicy(self.architecture, guide.parameters, world.observations())
        found = _empty(self.steps, world.observations())
        for t in range(self.steps):
            seen = world.observations()
            _keep(found.observations, t, seen)
            choice = self._choose(seen, policy, guide, draw)
            found.action[t], found.log_probability[t] = choice
            answer = world.step(choice.action)
            for kept, new in zip(found[3:], answer, strict=True):
                kept[t] = new
        _keep(found.observations, self.steps, world.observations())
        return Collected(found, joined(measured.parts) if measured.parts else None)

    def batch(self, worlds: Sequence[World], lanes: int | None = None) -> ModelWorld:
        """Episodes of these job sets with true speeds, one for each at a time, or so many."""
        return ModelWorld(
            worlds,
            true_speeds(worlds),
            episodes=lanes,
            most_jobs=self.architecture.most_jobs,
            most_new=self.architecture.most_new,
            models=self.models,
        )

    def _choose(
        self, seen: Observations, policy: BatchedPolicy, guide: Guide, draw: np.random.Generator
    ) -> Choice:
        if guide.taught:
            return Choice(together_actions(seen, self.capacity), np.zeros(self.lanes))
        rules = rule_actions(seen, self.capacity)
        return explore(policy.probabilities(), rules, self.exploration, draw)


def _empty(steps: int, seen: Observations) -> Steps:
    """Arrays to fill."""
    lanes = len(seen["free"])

    def figures() -> FloatArray:
        return np.empty((steps, lanes))

    def flags() -> BoolArray:
        return np.empty((steps, lanes), dtype=np.bool_)

    return Steps(
        {name: np.empty((steps + 1, *seen[name].shape), seen[name].dtype) for name in ENTRIES},
        np.empty((steps, lanes), dtype=np.int64),
        figures(),
        figures(),
        figures(),
        figures(),
        flags(),
        flags(),
    )


def _keep(kept: Observations, t: int, seen: Observations) -> None:
    for name, array in kept.items():
        array[t] = seen[name]


class Collectors(Protocol):
    """Collects units of a round; any implementation gives the same arrays."""

    @property
    def deaths(self) -> int:
        """Actors that died so far."""

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """What is collected in each unit, in the order of the units."""


class LocalCollectors:
    """Collects one unit after the other in this process."""

    deaths = 0

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """What is collected in each unit."""
        return [self._collection.collect(unit, guide) for unit in units]
