"""Train PPO of RLlib in ray_sim/Placement-v1; print steps and the mean JCT of other jobs in hours."""

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune import register_env

from ray_sim.environments import FlatObservations, PlacementEnv, evaluate

OPTIONS = {"scenario": "placement.yaml", "most_jobs": 1, "scaled": True}
OPTIONS |= {"reward": "jct", "reward_scale_s": 1e4}
OPTIONS |= {"observe": ("demands", "workers", "ps", "free", "placement", "hidden")}


def new_env(options):
    return FlatObservations(PlacementEnv(**OPTIONS, **options))


def train(rounds=40, steps=4000, seeds=64, evaluated=range(100, 120)):
    register_env("placement", new_env)
    config = PPOConfig().environment("placement", env_config={"seeds": range(seeds)}).debugging(seed=0)
    config.env_runners(num_env_runners=1, num_envs_per_env_runner=8)
    config.training(lr=1e-3, gamma=0.97, lambda_=0.9, entropy_coeff=0.003, kl_target=0.03)
    config.training(train_batch_size_per_learner=steps, minibatch_size=500, num_epochs=8)
    algorithm = config.rl_module(rl_module_spec=RLModuleSpec(ActionMaskingTorchRLModule)).build_algo()

    def act(seen):
        batch = {name: torch.from_numpy(entry)[None] for name, entry in seen.items()}
        return algorithm.get_module().forward_inference({"obs": batch})["action_dist_inputs"].argmax().item()

    other_jobs = new_env({"seeds": evaluated})
    print(0, evaluate(act, other_jobs).mean / 3600)
    for i in range(1, rounds + 1):
        algorithm.train()
        print(i * steps, evaluate(act, other_jobs).mean / 3600, flush=True)
    return algorithm


if __name__ == "__main__":
    train()
