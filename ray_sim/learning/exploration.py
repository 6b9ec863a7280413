"""Actions of a learner: drawn from the network's distribution, or now and then from a packing rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.replay import Observations
from ray_sim.model.units import FloatArray, IntArray

RULES = 2
"""Bin packing, load balancing."""


class Choice(NamedTuple):
    """Actions of E environments."""

    action: IntArray
    """(E,)"""
    log_probability: FloatArray
    """(E,) logarithm of the probability of the action, exploration included."""


def rule_actions(observations: Observations, capacity: FloatArray) -> IntArray:
    """(`RULES`, E) actions by bin packing and by load balancing.

    The task is the first one with a valid action: of the first new job, a worker before a parameter server.
    It goes to the valid server with the least free / capacity, or the least used / capacity, summed over the
    resources that the server has; ties: the lowest.

    Parameters
    ----------
    observations : with a leading axis E; each has a valid action
    capacity : (S, R) in the units of ``free``
    """
    servers = len(capacity)
    mask = observations[ACTION_MASK].astype(np.bool_).reshape(len(observations[ACTION_MASK]), -1, servers)
    task = mask.any(axis=2).argmax(axis=1)
    valid = mask[np.arange(len(mask)), task]
    has = capacity > 0
    share = np.divide(observations["free"], capacity, out=np.zeros(observations["free"].shape), where=has)
    scores = (share.sum(axis=2), (has - share).sum(axis=2))
    best = np.stack([np.where(valid, score, np.inf).argmin(axis=1) for score in scores])
    actions: IntArray = task * servers + best
    return actions


def together_actions(observations: Observations, capacity: FloatArray) -> IntArray:
    """(E,) actions that put the tasks of a job together, and jobs apart.

    The task is that of `rule_actions`. It goes to the valid server with the most tasks of its job; among
    these to the least loaded one; ties: the lowest.
    """
    episodes, servers, columns = observations["placement"].shape
    balanced = rule_actions(observations, capacity)[1]
    row = balanced // (2 * servers)
    tasks = observations["placement"].reshape(episodes, servers, columns // 2, 2).sum(axis=3)
    own = tasks[np.arange(episodes), :, row]
    first = balanced // servers * servers
    mask = observations[ACTION_MASK].astype(np.bool_)
    valid = mask[np.arange(episodes)[:, None], first[:, None] + np.arange(servers)]
    most = np.where(valid, own, -1.0)
    has = capacity > 0
    share = np.divide(observations["free"], capacity, out=np.zeros(observations["free"].shape), where=has)
    load: FloatArray = (has - share).sum(axis=2)
    best = np.where(most == most.max(axis=1, keepdims=True), load, np.inf).argmin(axis=1)
    actions: IntArray = first + best
    return actions


def explore(
    probabilities: npt.NDArray[np.float64],
    rules: IntArray,
    exploration: float,
    draw: np.random.Generator,
) -> Choice:
    """Draw an action of each environment: by a rule with probability ``exploration``, else by the network.

    Parameters
    ----------
    probabilities : (E, actions) of the network; rows sum to 1
    rules : (`RULES`, E) actions of the rules, each of which is as likely
    draw : 3 E numbers are drawn, however the choices fall
    """
    by_rule, which, where = draw.random((3, len(probabilities)))
    rows = np.arange(len(probabilities))
    sums = probabilities.cumsum(axis=1)
    # The last action with positive probability bounds what rounding of the sums could exceed.
    last = probabilities.shape[1] - 1 - (probabilities[:, ::-1] > 0).argmax(axis=1)
    drawn = np.minimum((sums <= (where * sums[:, -1])[:, None]).sum(axis=1), last)
    chosen = rules[(which * RULES).astype(np.int64), rows]
    action = np.where(by_rule < exploration, chosen, drawn)
    likely = (1.0 - exploration) * probabilities[rows, action]
    likely = likely + exploration * (rules == action).mean(axis=0)
    return Choice(action, np.log(likely))
