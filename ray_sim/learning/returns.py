"""Rewards and returns of the steps that actors collected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.learning.collection import Steps
from ray_sim.learning.training_config import Reward
from ray_sim.model.units import BoolArray, FloatArray, IntArray


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


def common_errors(steps: Steps, errors: FloatArray, known: BoolArray, lanes_per_set: int) -> FloatArray:
    """(T, E) mean error of the values at one time of an episode, over the lanes with its job set.

    The jobs to come change the returns of all these lanes alike, whatever the lanes do. A baseline with this
    mean removes that part of the advantages, which lowers their variance. The mean has the error of the
    action itself, so that k lanes with one action each at that time have (k - 1) / k of the advantages.

    Parameters
    ----------
    errors : (T, E) returns less values
    known : (T, E) errors that count

    Source: Mao, Venkatakrishnan, Schwarzkopf, Alizadeh: Variance Reduction for Reinforcement Learning in
    Input-Driven Environments, ICLR 2019, section 4.
    """
    lanes = np.arange(errors.shape[1]) // lanes_per_set
    key = np.stack([np.broadcast_to(lanes, errors.shape), _times(steps)])[:, known]
    _, which = np.unique(key, axis=1, return_inverse=True)
    found = np.zeros_like(errors)
    found[known] = (np.bincount(which, errors[known]) / np.bincount(which))[which]
    return found


def _times(steps: Steps) -> IntArray:
    """(T, E) microseconds since the first decision of the episode."""
    found = np.zeros(steps.action.shape, dtype=np.int64)
    for t in range(1, len(found)):
        length = steps.length_us[t - 1].astype(np.int64)
        found[t] = np.where(steps.episode_ended[t - 1], 0, found[t - 1] + length)
    return found


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
