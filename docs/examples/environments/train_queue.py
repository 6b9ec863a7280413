"""Train MaskablePPO in ray_sim/Queue-v0; print the mean completion time of other jobs in hours."""

import gymnasium
import numpy as np
from sb3_contrib import MaskablePPO

JOBS = {"synth": {"profile": "philly", "jobs": 60, "load_scale": 3.0}}
OPTIONS = {"scenario": {"workload": JOBS, "cluster": "toy"}, "most_jobs": 6, "scaled": True}
OPTIONS |= {"observe": ("duration_s", "tasks", "free"), "reward_scale_s": 36_000.0}


def mean_jct_h(act, seeds=range(100, 120)):
    env, hours = gymnasium.make("ray_sim/Queue-v0", seeds=seeds, **OPTIONS).unwrapped, []
    for episode in range(len(seeds)):
        seen, over = env.reset(options={"episode": episode})[0], False
        while not over:
            seen, _, terminated, truncated, _ = env.step(act(seen))
            over = terminated or truncated
        hours.append(env.result().summary.jct_s.mean / 3600)
    return np.mean(hours)


def act(learner, seen):
    return learner.predict(seen, action_masks=seen["action_mask"], deterministic=True)[0]


def train(rounds=10, steps=10_240, seeds=64, evaluated=range(100, 120)):
    env = gymnasium.make("ray_sim/Queue-v0", seeds=range(seeds), **OPTIONS)
    learner = MaskablePPO("MultiInputPolicy", env, 1e-3, 2048, 256, 6, gamma=0.99, seed=0, device="cpu")
    for _ in range(rounds):
        learner.learn(steps, reset_num_timesteps=False)
        print(learner.num_timesteps, mean_jct_h(lambda seen: act(learner, seen), evaluated))
    return learner


if __name__ == "__main__":
    train().save("queue_agent")
