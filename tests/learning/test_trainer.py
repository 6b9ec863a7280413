"""Training finds the best placements of a tiny world, is the same every time, and stops at a NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")
pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'ray_sim[gym]'")

from ray_sim.environments import Episode, PlacementEnv
from ray_sim.learning.collection import Collection, Guide, LocalCollectors, Unit
from ray_sim.learning.trainer import Setting, Trainer
from ray_sim.policies.harmony.architecture import Architecture, Form
from tests.harmony_states import network_of
from tests.learning.small_training import parsed
from tests.learning.tiny_world import (
    MODELS,
    PAIRS,
    SETTINGS,
    best_rewards,
    one_by_one,
    random_act,
    reward_of,
    tiny_world,
)
from tests.proofs import quick_first

TASKS = 4
"""Actions of an episode."""


def setting_of(
    folder: Path, form: Form, seed: int = 0, rounds: int = 1, steps: int = 2 * TASKS, **changes: Any
) -> Setting:
    """Eight tiny worlds, small networks, a large rate for a small world, and the defaults otherwise.

    Parameters
    ----------
    changes : of the settings of learning
    """
    small = {"most_jobs": 2, "most_new": 2, "block": 16, "hidden": [32, 32], "minibatch": 128, "buffer": 1024}
    learning = {"form": form, **small, "learning_rate": 3e-3, **changes}
    plan = parsed(
        folder,
        seed=seed,
        learning=learning,
        jobs={"first": 1, "count": 8},
        collecting={"units": 1, "lanes": 8, "steps": steps},
        updates=8,
        rewards={},
        phases={"online": rounds},
        validation={"every": rounds, "seeds": {"first": 0, "count": 1}},
    )
    config, episodes = plan.learning, [Episode(tiny_world(pair), 0) for pair in PAIRS]
    servers = 2 if form is Form.DENSE else 0
    architecture = Architecture(form, len(MODELS), 1, servers, 2, 2, config.block, config.hidden_widths)
    collection = Collection(
        seed=seed,
        episodes=2 * episodes,
        models=MODELS,
        architecture=architecture,
        capacity=np.ones((2, 1)),
        lanes=plan.collecting.lanes,
        steps=steps,
        lanes_per_set=plan.collecting.lanes_per_set,
        exploration=config.exploration,
    )
    slot_us = episodes[0].world.slot_us
    assert slot_us is not None
    return Setting(plan, collection, episodes, slot_us)


def trained(setting: Setting) -> Trainer:
    """All rounds of the plan."""
    trainer, collectors = Trainer(setting), LocalCollectors(setting.collection)
    while not trainer.done:
        trainer.do_round(collectors)
    return trainer


def greedy_reward(env: PlacementEnv, setting: Setting) -> float:
    """Sum over episodes of the reward in the engine of the most probable actions after training."""
    network = network_of(setting.collection.architecture, trained(setting).parameters(), 2)
    return sum(reward_of(env, episode, network.best) for episode in range(len(PAIRS)))


@pytest.fixture(scope="module")
def env() -> PlacementEnv:
    episodes = [Episode(tiny_world(pair), 0) for pair in PAIRS]
    return PlacementEnv(episodes, **SETTINGS)


@pytest.fixture(scope="module")
def best(env: PlacementEnv) -> float:
    """By brute force: calm jobs share the fast server, and others have a server each."""
    return sum(best_rewards(env))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_training_finds_the_best_placements_of_a_tiny_world(
    seed: int, env: PlacementEnv, best: float, tmp_path: Path
) -> None:
    """At least 95 % of the best reward by brute force; random choice has 44 % of it."""
    reached = greedy_reward(env, setting_of(tmp_path, Form.DENSE, seed, rounds=100))
    by_chance = np.mean(
        [reward_of(env, episode, random_act(seed)) for episode in range(len(PAIRS)) for seed in range(20)]
    )
    assert reached >= 0.95 * best
    assert reached / len(PAIRS) >= by_chance + 0.4


@pytest.mark.long
def test_the_shared_form_learns_too(env: PlacementEnv, best: float, tmp_path: Path) -> None:
    assert greedy_reward(env, setting_of(tmp_path, Form.SHARED, seed=1, rounds=100)) >= 0.95 * best


@pytest.mark.parametrize(
    "changes",
    quick_first(
        [
            {},
            {"advantage": "td", "importance": "none"},
            {"advantage": "gae", "importance": "proximal"},
            {"critic": False},
        ]
    ),
)
def test_a_seed_gives_the_same_weights_every_time(changes: dict[str, Any], tmp_path: Path) -> None:
    one, same, other = (
        trained(setting_of(tmp_path, Form.SHARED, seed, rounds=3, **changes)) for seed in (0, 0, 1)
    )
    first, second = one.state(), same.state()
    assert {name: array.tobytes() for name, array in second.items()} == {
        name: array.tobytes() for name, array in first.items()
    }
    third = other.parameters()
    assert any(array.tobytes() != third[name].tobytes() for name, array in one.parameters().items())
    assert first["learner.steps"] == 3 * 8


def test_rewards_of_collected_episodes_are_those_of_the_engine(env: PlacementEnv, tmp_path: Path) -> None:
    """An episode is one interval here; two of the eight lanes begin with each pair of types."""
    setting = setting_of(tmp_path, Form.SHARED)
    steps = setting.collection.collect(Unit(0, 0), Guide(Trainer(setting).parameters())).steps
    for lane, shown in enumerate(steps.observations["type"][0].argmax(axis=2)):
        episode = PAIRS.index((MODELS[shown[0]], MODELS[shown[1]]))
        reward = reward_of(env, episode, one_by_one(steps.action[:TASKS, lane].tolist()))
        assert steps.progress[:TASKS, lane].tolist() == [0, 0, 0, reward]
    assert steps.episode_ended.sum() == 2 * 2 * len(PAIRS)


def test_actions_are_learned_in_order_of_time_once_their_interval_has_ended(tmp_path: Path) -> None:
    """Ten actions in each of eight lanes: two decisions of four, and two actions of a third."""
    setting = setting_of(tmp_path, Form.SHARED, steps=10)
    first = setting.collection.collect(Unit(0, 0), Guide(Trainer(setting).parameters()))
    learned = trained(setting).state()["learner.replay.action"]
    assert learned.tolist() == first.steps.action[: 2 * TASKS].ravel().tolist()
