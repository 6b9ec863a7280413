"""Print the mean completion time in hours of rules and policies, on the jobs that the examples measure."""

import numpy as np

from ray_sim.engine.run import run_world
from ray_sim.environments import PlacementEnv, QueueEnv, evaluate
from ray_sim.policies.registry import create_policy

POLICIES = {
    "queue": [("fifo", {}), ("sjf", {}), ("sjf", {"backfill": "true"})],
    "placement": [("load_balance", {}), ("tetris_packing", {}), ("fifo", {}), ("sjf", {})],
}


def policy_mean_jct_h(episodes, name, params):
    runs = [run_world(world, create_policy(name, params), seed=seed) for world, seed in episodes]
    return np.mean([run.summary.jct_s.mean / 3600 for run in runs])


def print_rules(example, env):
    env.action_space.seed(0)
    print(example, evaluate(lambda seen: env.action_space.sample(), env).mean / 3600, "random")
    print(example, evaluate(lambda seen: seen["action_mask"].argmax(), env).mean / 3600, "first valid action")
    for name, params in POLICIES[example]:
        label = " ".join([name, *(f"{key}={value}" for key, value in params.items())])
        print(example, policy_mean_jct_h(env.episodes, name, params), label)


if __name__ == "__main__":
    print_rules("queue", QueueEnv(scenario="queue.yaml", seeds=range(100, 120), most_jobs=6))
    print_rules("placement", PlacementEnv(scenario="placement.yaml", seeds=range(100, 120), most_jobs=1))
