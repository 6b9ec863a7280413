"""Print the mean completion time in hours of rules and policies, on the jobs that the examples measure."""

from ray_sim.environments import PlacementEnv, QueueEnv, evaluate

POLICIES = {
    "queue": ["fifo", "sjf", {"name": "sjf", "params": {"backfill": True}}],
    "placement": ["load_balance", "tetris_packing", "fifo", "sjf"],
}


def first_valid_action(seen):
    return seen["action_mask"].argmax()


def print_rules(example, env):
    env.action_space.seed(0)
    found = evaluate(lambda seen: env.action_space.sample(), env, [first_valid_action, *POLICIES[example]])
    print(example, found.mean / 3600, "random")
    for label, rule in found.baselines.items():
        print(example, rule.mean / 3600, label)


if __name__ == "__main__":
    print_rules("queue", QueueEnv(scenario="queue.yaml", seeds=range(100, 120), most_jobs=6))
    print_rules("placement", PlacementEnv(scenario="placement.yaml", seeds=range(100, 120), most_jobs=1))
