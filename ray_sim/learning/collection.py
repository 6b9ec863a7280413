"""Collection of experience: units of a fixed number of steps of a batch of episodes.

A unit is keyed by the seed of a training, its round and its number. Its job sets and its draws follow from
that key, its actions from these and the weights, so any actor gives the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.engine.simulation import Simulation
from ray_sim.environments.episodes import Episode
from ray_sim.learning.exploration import Choice, explore, rule_actions, together_actions
from ray_sim.learning.lanes import Lane, shown_together
from ray_sim.learning.replay import ENTRIES, Observations
from ray_sim.learning.reward_model import RewardModel, modelled
from ray_sim.learning.speed_samples import SpeedRecorder, SpeedSamples, joined
from ray_sim.model.errors import RunFailedError
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.policies.harmony.architecture import Architecture, Parameters
from ray_sim.policies.harmony.network import PolicyNetwork

MEASURED_SHARE = 0.1
"""Share of the placements met whose speeds are kept for the reward model."""

NOT_FINITE = (
    "training: the network rates an action by no finite number: its weights are too large; lower "
    "learning_rate"
)


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
    episodes: Sequence[Episode]
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
            len(self.episodes), self.lanes // self.lanes_per_set, replace=False
        )
        draw = streams.generator("harmony-actions", *unit)
        recorder = SpeedRecorder(self.models, MEASURED_SHARE, streams.generator("harmony-measured", *unit))
        episodes = [self.episodes[i] for i in chosen.repeat(self.lanes_per_set).tolist()]
        if guide.model is not None:
            episodes = [modelled(episode, guide.model, self.models) for episode in episodes]
        lanes = [self.lane(episode, recorder) for episode in episodes]
        network, seen = self.network(guide.parameters), shown_together(lanes)
        found = _empty(self.steps, seen)
        for t in range(self.steps):
            _keep(found.observations, t, seen)
            choice = self._choose(seen, network, guide.taught, draw)
            found.action[t], found.log_probability[t] = choice
            for e, (lane, action) in enumerate(zip(lanes, choice.action.tolist(), strict=True)):
                interval, found.episode_ended[t, e] = lane.act(action)
                if interval is not None:
                    found.interval_ended[t, e] = True
                    found.progress[t, e] = interval.progress
                    found.length_us[t, e] = np.rint((interval.end_s - interval.begin_s) * US_PER_S)
                    found.present_us[t, e] = np.rint(interval.present_s * US_PER_S)
        _keep(found.observations, self.steps, seen)
        measured = joined(recorder.parts) if guide.model is None and recorder.parts else None
        return Collected(found, measured)

    def lane(self, episode: Episode, placed: Callable[[Simulation], None] = lambda simulation: None) -> Lane:
        """A lane with the rows of the network; see `Lane`."""
        sizes = self.architecture
        return Lane([episode], self.models, sizes.most_jobs, sizes.most_new, placed)

    def network(self, parameters: Parameters) -> PolicyNetwork:
        """The policy network on the servers of the episodes."""
        resources = np.arange(self.architecture.resources)
        return PolicyNetwork(self.architecture, parameters, len(self.capacity), resources)

    def _choose(
        self, seen: Observations, network: PolicyNetwork, taught: bool, draw: np.random.Generator
    ) -> Choice:
        if taught:
            return Choice(together_actions(seen, self.capacity), np.zeros(self.lanes))
        logits = np.empty(seen[ACTION_MASK].shape)
        for e in range(len(logits)):
            logits[e] = network.logits({name: array[e] for name, array in seen.items()})
        largest = logits.max(axis=1, keepdims=True)
        if not np.isfinite(largest).all():  # the largest is NaN where one is
            raise RunFailedError(NOT_FINITE)
        likely = np.exp(logits - largest)
        rules = rule_actions(seen, self.capacity)
        return explore(likely / likely.sum(axis=1, keepdims=True), rules, self.exploration, draw)


def _empty(steps: int, seen: Observations) -> Steps:
    """Arrays to fill."""
    lanes = len(seen[ACTION_MASK])
    return Steps(
        {name: np.empty((steps + 1, *seen[name].shape), seen[name].dtype) for name in ENTRIES},
        np.zeros((steps, lanes), dtype=np.int64),
        *np.zeros((4, steps, lanes)),
        *np.zeros((2, steps, lanes), dtype=np.bool_),
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
