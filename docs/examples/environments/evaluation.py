"""Mean completion time of an agent over the episodes of an environment."""

import numpy as np


def mean_jct_h(env, act):
    """Mean completion time in hours over all episodes, with the actions of ``act(observation)``."""
    env.action_space.seed(0)
    hours = []
    for episode in range(len(env.unwrapped.episodes)):
        seen, over = env.reset(options={"episode": episode})[0], False
        while not over:
            seen, _, terminated, truncated, _ = env.step(act(seen))
            over = terminated or truncated
        hours.append(env.unwrapped.result().summary.jct_s.mean / 3600)
    return np.mean(hours)
