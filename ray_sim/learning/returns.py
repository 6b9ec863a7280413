"""Rewards and returns of the steps that actors collected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.learning.collection import Steps
from ray_sim.learning.training_config import Reward
from ray_sim.model.units import BoolArray, FloatArray


class Returns(NamedTuple):
    """Targets of the networks, (T, E) each."""

    returns: FloatArray
    """Lambda-return of each action."""
    known: BoolArray
    """Whether its interval ended within the T steps; other returns mean nothing."""


def rewards(steps: Steps, kind: Reward, discount: float, slot_us: int) -> FloatArray:
    """(T, E) rewards, 0 within a decision.

    The published reward is the progress of one slot, and later slots count ``discount`` times as much. An
    interval of n slots earns what its progress, spread evenly over it, would earn in n rewards of a slot, as
    an integral: progress times ``(1 - discount^n) / (-n ln discount)``. Time in the system, likewise, counts
    in slots, divided by the number of servers: a value network learns better what is about 1.
    """
    slots, servers = steps.length_us / slot_us, steps.observations["free"].shape[2]
    earned = steps.progress if kind is Reward.PROGRESS else -steps.present_us / slot_us / servers
    exponent = -slots * np.log(discount)
    spread = np.divide(-np.expm1(-exponent), exponent, out=np.ones_like(slots), where=exponent > 0)
    return earned * spread


def lambda_returns(
    steps: Steps, reward: FloatArray, values: FloatArray, discount: float, decay: float, slot_us: int
) -> Returns:
    """Lambda-returns of actions: ``Q = r + d ((1 - decay) V(next state) + decay Q(next action))``.

    Within a decision d is 1; over an interval of n slots it is ``discount^n``; after an episode it is 0.
    With decay 1 all actions of an interval have the return of the interval. After the last step V stands for
    what follows.

    Parameters
    ----------
    values : (T + 1, E) V of each state

    Source: Sutton and Barto, Reinforcement Learning, 2018, equation 12.20; for intervals of any length,
    Sutton, Precup and Singh, Artificial Intelligence 112, 1999.
    """
    factor = np.where(steps.episode_ended, 0.0, discount ** (steps.length_us / slot_us))
    found = np.empty_like(reward)
    ahead = values[-1]
    for t in range(len(reward) - 1, -1, -1):
        ahead = reward[t] + factor[t] * ((1.0 - decay) * values[t + 1] + decay * ahead)
        found[t] = ahead
    known = np.logical_or.accumulate(steps.interval_ended[::-1], axis=0)[::-1]
    return Returns(found, known)
