"""Train a rule of four numbers in ray_sim/Queue-v1 by the cross-entropy method; judge it on other jobs."""

import numpy as np

from ray_sim.environments import QueueAgent, QueueEnv, evaluate

OPTIONS = {"scenario": "queue.yaml", "most_jobs": 32, "scaled": True}
OPTIONS |= {"observe": ("tasks", "duration_s", "waited_s")}


def features(seen):
    """(K, 4): 1; log10 of run time and wait over 10,000 s, and of run time over the shortest without room."""
    run_time, waited = seen["duration_s"] - 4, seen["waited_s"] - 4
    no_room = (seen["tasks"] > 0) & (seen["action_mask"][:-1] == 0)
    longer = np.maximum(run_time - run_time[no_room].min(initial=np.inf), 0)
    return np.stack([np.ones_like(run_time), run_time, waited, longer], axis=1)


def rule(weights):
    """Start the job of the highest score that fits if it is above 0, else wait."""

    def act(seen):
        *fits, may_wait = seen["action_mask"]
        scores = np.where(fits, features(seen) @ weights, -np.inf)
        best = scores.argmax()
        return len(fits) if may_wait and scores[best] <= 0 else best

    return act


class Rule(QueueAgent):
    """The rule that was trained, as a policy: --policy train_rule:Rule."""

    most_jobs, scaled, observe = OPTIONS["most_jobs"], OPTIONS["scaled"], OPTIONS["observe"]
    trained_file = "rule_weights.txt"

    def load(self, file):
        return rule(np.loadtxt(file))

    def act(self, seen):
        return self.trained(seen)


def oldest_that_fits(seen):
    return seen["action_mask"].argmax()


def shortest_that_fits(seen):
    return np.where(seen["action_mask"][:-1], seen["duration_s"], np.inf).argmin()


def total_jct_h(env, act, episode):
    """Sum of completion times: minus the sum of rewards."""
    (seen, _), total, over = env.reset(options={"episode": episode}), 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(act(seen))
        total, over = total - reward, terminated or truncated
    return total


def train(seeds=256, rounds=10, rules=20, draws=20, kept=5):
    """Draw rules, keep the best and draw the next around them, as far apart as these are and a bit more."""
    env = QueueEnv(seeds=range(seeds), **OPTIONS)
    oldest = [total_jct_h(env, oldest_that_fits, i) for i in range(seeds)]
    random = np.random.default_rng(0)
    mean, spread = np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4)
    print("JCT over that of the oldest that fits, by round:", end="")
    for i in range(rounds):
        drawn = mean + spread * random.standard_normal((rules, 4))
        # The same for all rules, so that luck cancels out.
        episodes = random.choice(seeds, draws, replace=False)
        ratios = [[total_jct_h(env, rule(each), e) / oldest[e] for e in episodes] for each in drawn]
        best = np.argsort(np.mean(ratios, axis=1))[:kept]
        mean, spread = drawn[best].mean(axis=0), drawn[best].std(axis=0) + 0.1 * 0.8**i
        print(f" {np.mean(ratios):.2f}", end="", flush=True)
    return mean


if __name__ == "__main__":
    weights = train()
    print("\nweights:", weights.round(2))
    np.savetxt("rule_weights.txt", weights)
    other_jobs = QueueEnv(seeds=range(2000, 2100), **OPTIONS)
    print(evaluate(rule(weights), other_jobs, [oldest_that_fits, shortest_that_fits, "sjf", "srtf"]))
