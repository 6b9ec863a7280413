"""A world with sixteen placements: two servers, two new jobs of a worker and a parameter server each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.environments import PlacementEnv
from ray_sim.learning.replay import Observations
from tests.interfering_worlds import interference, interfering_world
from tests.training import profile

MODELS = ("calm", "loud")
PAIRS = tuple(product(MODELS, MODELS))
"""Types of the two jobs of each episode."""

PLACEMENTS = tuple(product(range(2), repeat=4))
"""Servers of the worker and the parameter server of job 0, then of job 1."""

SLOWING = interference(
    worker_load={"calm": [0.1, 0.0], "loud": [0.6, 0.2]},
    sensitivity={"calm": [0.2, 0.0], "loud": [3.0, 1.0]},
    ps_load={"calm": [0.0, 0.1], "loud": [0.1, 0.4]},
)
"""Two calm jobs hardly disturb each other, two loud ones do."""

SETTINGS: dict[str, Any] = {"most_jobs": 2, "scaled": True, "models": MODELS}

Act = Callable[[Observations], int]


def tiny_world(pair: tuple[str, str]) -> World:
    """Jobs of this pair of types, which run until the horizon; server 0 is faster than server 1.

    A step takes 1 s of computation on server 0 and 2 s on server 1, and two transfers of 0.4 s within a
    server or 4 s between servers.
    """
    job = profile(epochs=1, samples=15_000, sample_s=0.01)
    facts = {"slot_s": 10, "horizon_s": 200}
    world = interfering_world([0.0, 0.0], [(model, job) for model in pair], [4.0, 4.0], SLOWING, facts)
    servers = replace(world.cluster, speed=np.array([1.0, 0.5]))
    return build_world(world.table, servers, params=world.params)


def reward_of(env: PlacementEnv, episode: int, act: Act) -> float:
    """Reward of an episode with the actions of ``act``."""
    seen, _ = env.reset(options={"episode": episode})
    total, over = 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(act(seen))
        total, over = total + reward, terminated or truncated
    return total


def one_by_one(actions: Iterable[int]) -> Act:
    """Takes these actions."""
    left = iter(actions)
    return lambda seen: next(left)


def in_turn(servers: tuple[int, ...]) -> Act:
    """Places the tasks of job 0, then those of job 1, on these servers."""
    return one_by_one(task * 2 + server for task, server in enumerate(servers))


def best_rewards(env: PlacementEnv) -> list[float]:
    """Largest reward of each episode over all placements, in the engine."""
    return [
        max(reward_of(env, episode, in_turn(servers)) for servers in PLACEMENTS)
        for episode in range(len(PAIRS))
    ]


def random_act(seed: int) -> Act:
    """Draws from valid actions."""
    draw = np.random.default_rng(seed)
    return lambda seen: int(draw.choice(np.flatnonzero(seen[ACTION_MASK])))
