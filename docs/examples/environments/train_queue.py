"""Train MaskablePPO in ray_sim/Queue-v1; print steps and the mean JCT of other jobs in hours."""

from sb3_contrib import MaskablePPO

from ray_sim.environments import QueueEnv, evaluate

OPTIONS = {"scenario": "queue.yaml", "most_jobs": 6, "observe": ("duration_s", "tasks")}
OPTIONS |= {"scaled": True, "reward_scale_s": 36_000.0}


def train(rounds=25, steps=4096, seeds=64, evaluated=range(100, 120)):
    env, other_jobs = QueueEnv(seeds=range(seeds), **OPTIONS), QueueEnv(seeds=evaluated, **OPTIONS)
    learner = MaskablePPO("MultiInputPolicy", env, 3e-4, 2048, 256, 6, gamma=0.99, seed=0, device="cpu")

    def act(seen):
        return learner.predict(seen, action_masks=seen["action_mask"], deterministic=True)[0]

    print(0, evaluate(act, other_jobs).mean / 3600)
    for _ in range(rounds):
        learner.learn(steps, reset_num_timesteps=False)
        print(learner.num_timesteps, evaluate(act, other_jobs).mean / 3600, flush=True)
    return learner


if __name__ == "__main__":
    train().save("queue_agent")
