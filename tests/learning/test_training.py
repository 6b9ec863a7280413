"""Training finds the best placements of a tiny world, is the same every time, and stops at a NaN."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")
pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'ray_sim[gym]'")

from ray_sim.environments import PlacementEnv
from ray_sim.environments.vector import PlacementVector
from ray_sim.learning.online import Progress, Sampler, train
from ray_sim.learning.training_config import TrainingConfig, parse_training
from ray_sim.learning.update import Learner, TrainingDivergedError
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import Architecture, Form
from tests.harmony_states import network_of
from tests.learning.tiny_world import (
    PAIRS,
    SETTINGS,
    best_rewards,
    episodes,
    random_act,
    reward_of,
)

CAPACITY = np.ones((2, 1))


def config_of(form: Form, **changes: object) -> TrainingConfig:
    """Small networks, and a large rate for a small world."""
    small = {"most_jobs": 2, "most_new": 2, "block": 16, "hidden": [32, 32], "minibatch": 128, "buffer": 1024}
    content = {"form": form, **small, "learning_rate": 3e-3, "entropy": 0.03, "exploration": 0.3, **changes}
    return parse_training(content, "test")


def architecture_of(config: TrainingConfig) -> Architecture:
    servers = 2 if config.form is Form.DENSE else 0
    return Architecture(config.form, 2, 1, servers, 2, 2, config.block, config.hidden_widths)


def trained(config: TrainingConfig, seed: int, rounds: int) -> tuple[Learner, list[Progress]]:
    learner = Learner(config, architecture_of(config), Streams(seed))
    environments = PlacementVector(8, episodes=episodes(), **SETTINGS)
    sampler = Sampler(environments, CAPACITY, config.exploration, Streams(seed))
    return learner, list(train(learner, sampler, rounds, steps=10, updates=8))


@pytest.fixture(scope="module")
def env() -> PlacementEnv:
    return PlacementEnv(episodes(), **SETTINGS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def best(env: PlacementEnv) -> float:
    """By brute force: calm jobs share the fast server, and others have a server each."""
    return sum(best_rewards(env))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
def test_training_finds_the_best_placements_of_a_tiny_world(
    seed: int, env: PlacementEnv, best: float
) -> None:
    """At least 95 % of the best reward by brute force; random choice has 44 % of it."""
    config = config_of(Form.DENSE)
    learner, _ = trained(config, seed, rounds=100)
    network = network_of(architecture_of(config), learner.parameters(), 2)
    reached = sum(reward_of(env, episode, network.best) for episode in range(len(PAIRS)))
    by_chance = np.mean(
        [reward_of(env, episode, random_act(seed)) for episode in range(len(PAIRS)) for seed in range(20)]
    )
    assert reached >= 0.95 * best
    assert reached / len(PAIRS) >= by_chance + 0.4


@pytest.mark.slow
def test_the_shared_form_learns_too(env: PlacementEnv, best: float) -> None:
    config = config_of(Form.SHARED, entropy=0.1, exploration=0.4)
    learner, _ = trained(config, 1, rounds=100)
    network = network_of(architecture_of(config), learner.parameters(), 2)
    assert sum(reward_of(env, episode, network.best) for episode in range(len(PAIRS))) >= 0.95 * best


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"advantage": "td", "importance": "none"},
        {"advantage": "gae"},
        {"critic": False},
    ],
)
def test_a_seed_gives_the_same_weights_every_time(changes: dict[str, object]) -> None:
    config = config_of(Form.SHARED, **changes)
    one, same, other = (trained(config, seed, rounds=3) for seed in (0, 0, 1))
    first, second, third = (learner.parameters() for learner, _ in (one, same, other))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    assert any(first[name].tobytes() != third[name].tobytes() for name in first)
    assert [each.losses for each in one[1]] == [each.losses for each in same[1]]
    assert one[0].steps == 24


def test_rewards_of_intervals_are_those_of_the_environment() -> None:
    """An episode is one interval here, with the same reward in each of eight environments of one type."""
    _, progress = trained(config_of(Form.SHARED), 0, rounds=2)
    rewards = np.concatenate([each.rewards for each in progress])
    assert len(rewards) == 8 * 4
    assert rewards.min() > 0
    assert rewards.max() <= 2


def test_a_loss_that_is_not_finite_stops_training_and_keeps_the_networks() -> None:
    config = config_of(Form.SHARED)
    learner, _ = trained(config, 0, rounds=1)
    environments = PlacementVector(2, episodes=episodes(), reward=lambda interval: 1e300, **SETTINGS)
    sampler = Sampler(environments, CAPACITY, config.exploration, Streams(0))
    learner.add(sampler.collect(10, learner.probabilities))
    kept = learner.parameters()
    with pytest.raises(TrainingDivergedError, match=r"training: step 8: .* is not finite; .* learning_rate"):
        learner.step()
    assert all(kept[name].tobytes() == array.tobytes() for name, array in learner.parameters().items())
