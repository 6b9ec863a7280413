"""Train PPO of RLlib in ray_sim/Placement-v0; print the return, minus the mean JCT in hours."""

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune import register_env

from ray_sim.environments import FlatObservations, PlacementEnv

SCENARIO = {
    "workload": {"synth": {"profile": "two_models.yaml", "jobs": 40, "horizon_s": 16_000}},
    "cluster": "testbed.yaml",
    "world": {"truth": "placement", "slot_s": 600},
}


def new_env(options):
    entries = ("workers", "ps", "demands", "free", "placement")
    return FlatObservations(PlacementEnv(most_jobs=2, most_new=1, observe=entries, scaled=True, **options))


def train(rounds=20, steps=2000, seeds=64):
    register_env("placement", new_env)
    options = {"scenario": SCENARIO, "seeds": range(seeds), "reward": "jct", "reward_scale_s": 144_000.0}
    config = PPOConfig().environment("placement", env_config=options).env_runners(num_env_runners=1)
    config.training(train_batch_size_per_learner=steps, minibatch_size=500, num_epochs=8, lr=1e-3, gamma=0.95)
    algorithm = config.rl_module(rl_module_spec=RLModuleSpec(ActionMaskingTorchRLModule)).build_algo()
    for i in range(rounds):
        print((i + 1) * steps, algorithm.train()["env_runners"]["episode_return_mean"], flush=True)
    return algorithm


if __name__ == "__main__":
    train()
