"""Agents that follow a simple rule, for both environments, and episodes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ray_sim.agents.round import Observation
from ray_sim.environments import PlacementAgent, QueueAgent

if TYPE_CHECKING:
    from ray_sim.environments.scheduling_env import SchedulingEnv

Rule = Callable[[Observation], int]
Steps = list[tuple[int, float, bool, bool]]


def play(env: SchedulingEnv, rule: Rule, **reset: Any) -> Steps:
    """An episode: action, reward and flags of each step."""
    seen, _ = env.reset(**reset)
    steps: Steps = []
    while True:
        action = rule(seen)
        seen, reward, terminated, truncated, _ = env.step(action)
        steps.append((action, reward, terminated, truncated))
        if terminated or truncated:
            return steps


def at_random(seed: int) -> Rule:
    """Any valid action."""
    draw = np.random.default_rng(seed)
    return lambda seen: int(draw.choice(np.flatnonzero(seen["action_mask"])))


def first_valid(observation: Observation) -> int:
    """The valid action of the lowest number."""
    return int(observation["action_mask"].argmax())


def least_loaded(observation: Observation) -> int:
    """The first valid task, on the server with the most free of all resources."""
    valid = np.flatnonzero(observation["action_mask"])
    servers = observation["free"].shape[0]
    task = valid[valid // servers == valid[0] // servers]
    room = observation["free"].sum(axis=1)[task % servers]
    return int(task[np.argmax(room)])


def in_turn(observation: Observation) -> int:
    """The oldest job if it fits, else wait."""
    mask = observation["action_mask"]
    return 0 if mask[0] else len(mask) - 1


class LeastLoaded(PlacementAgent):
    """`least_loaded` as a policy."""

    most_jobs = 6
    observe = ("free", "demands")

    def act(self, observation: Observation) -> int:
        return least_loaded(observation)


class InTurn(QueueAgent):
    """`in_turn` as a policy."""

    most_jobs = 4
    observe = ("tasks",)

    def act(self, observation: Observation) -> int:
        return in_turn(observation)
