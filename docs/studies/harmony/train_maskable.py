"""Train MaskablePPO of sb3-contrib with the jobs and the number of actions of the main trainings.

    python train_maskable.py [SEED ...]

Run it in this folder. Directories are trained/maskable-SEED, with the network that is best in validation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
from maskable_agent import Trained, flat
from sb3_contrib import MaskablePPO
from trainings import PLAN as PLAN_FILE
from trainings import SEEDS

from ray_sim.environments import PlacementEnv
from ray_sim.learning.training_plan import read_plan

PLAN = read_plan(Path(PLAN_FILE))
COLLECTING = PLAN.collecting
ACTIONS = PLAN.rounds * COLLECTING.units * COLLECTING.lanes * COLLECTING.steps
STEPS = 4224
"""Actions between two updates."""


class Flat(gymnasium.ObservationWrapper):
    """Shows all entries as one array, as networks of sb3 take no entry named `type`."""

    def __init__(self, env: PlacementEnv) -> None:
        super().__init__(env)
        shown = flat(env.reset(seed=0)[0])
        self.observation_space = gymnasium.spaces.Box(0, np.inf, shown.shape, np.float32)

    def observation(self, observation: dict) -> np.ndarray:
        """The array."""
        return flat(observation)


def new_env(seeds: range) -> Flat:
    """The environment of the agent, with the reward of the main trainings in its own unit."""
    env = PlacementEnv(
        scenario=PLAN.scenario,
        seeds=seeds,
        most_jobs=Trained.most_jobs,
        most_new=Trained.most_new,
        observe=Trained.observe,
        scaled=Trained.scaled,
        models=Trained.models,
        reward="jct",
        reward_scale_s=1e4,
    )
    return Flat(env)


def mean_jct_s(env: Flat, learner: MaskablePPO) -> float:
    """Mean completion time over all episodes, with the most probable actions."""
    found = []
    for episode in range(len(env.unwrapped.episodes)):
        seen, over = env.reset(options={"episode": episode})[0], False
        while not over:
            action = learner.predict(seen, action_masks=env.unwrapped.action_masks(), deterministic=True)[0]
            seen, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        jct_s = env.unwrapped.result().summary.jct_s
        found.append(np.inf if jct_s is None else jct_s.mean)
    return float(np.mean(found))


def train(seed: int) -> None:
    """Train one network; print actions and the mean JCT in validation, and write the best."""
    folder = Path(f"trained/maskable-{seed}")
    folder.mkdir(parents=True, exist_ok=True)
    validation = new_env(PLAN.validation.seeds.seeds)
    layers = {"net_arch": [64, 64]}
    learner = MaskablePPO(
        "MlpPolicy", new_env(PLAN.jobs.seeds), 1e-3, STEPS, 528, 8, 0.97, 0.9,
        ent_coef=0.003, policy_kwargs=layers, seed=seed, device="cpu",
    )  # fmt: skip
    best = np.inf
    while learner.num_timesteps < ACTIONS:
        learner.learn(4 * ACTIONS // PLAN.rounds, reset_num_timesteps=False)
        found = mean_jct_s(validation, learner)
        print(seed, learner.num_timesteps, round(found), flush=True)
        if found < best:
            best = found
            learner.save(folder / "network.zip")


if __name__ == "__main__":
    for number in sys.argv[1:] or SEEDS:
        train(int(number))
