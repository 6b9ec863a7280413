"""Slurm's multifactor priority: age, fair share by Fair Tree, size, class.

    P = sum of weight x factor;  age = min(1, waited / max_age);  size = GPUs / GPUs of the cluster
    class = number of lower classes / (classes - 1);  fair share = rank of the user / users

Fair Tree sorts teams, and in them users, by level = S / U: parts of shares and of usage among siblings,
infinite without usage. Usage halves every `half_life_s`. `ray_sim.policies.batch.policy` calls it.

Source: Slurm, Fair Tree Fairshare Algorithm (https://slurm.schedmd.com/fair_tree.html).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.model.units import US_PER_S, FloatArray, IntArray


def levels(shares: FloatArray, usage: FloatArray, parent: IntArray) -> FloatArray:
    """(n,) level S / U of each child among the children of its parent.

    Parameters
    ----------
    shares, usage, parent : (n,) each; shares > 0
    """
    all_shares, all_usage = np.bincount(parent, shares)[parent], np.bincount(parent, usage)[parent]
    level = np.full(len(shares), np.inf)
    np.divide(shares * all_usage, all_shares * usage, out=level, where=usage > 0)
    return level


def fair_shares(usage: FloatArray, team: IntArray, shares: FloatArray) -> FloatArray:
    """(A,) factor of each account, a user in a team: rank from the highest level, last 1 / A.

    Tied teams are one; tied users share the higher rank.

    Parameters
    ----------
    usage, team : (A,) of each account
    shares : (M,) of each team
    """
    n = len(usage)
    present = np.unique(team)
    of_team: FloatArray = np.bincount(team, usage, minlength=len(shares))[present].astype(np.float64)
    root = np.zeros(len(present), dtype=np.int64)
    team_level = np.zeros(len(shares))
    team_level[present] = levels(shares[present], of_team, root)
    user_level = levels(np.ones(n), usage, team)
    order = np.lexsort((-user_level, -team_level[team]))
    pair = np.column_stack([team_level[team], user_level])[order]
    new = np.concatenate([[True], (pair[1:] != pair[:-1]).any(axis=1)])[:n]
    rank = n - np.maximum.accumulate(np.where(new, np.arange(n), 0))
    factor = np.empty(n)
    factor[order] = rank / max(n, 1)
    return factor


class FairShare:
    """Fair shares of accounts by their decayed use of GPUs; a part of the policy's state.

    Parameters
    ----------
    account, gpus : (J,) of each job
    team : (A,) of each account
    shares : (M,) of each team
    """

    def __init__(
        self, account: IntArray, gpus: FloatArray, team: IntArray, shares: FloatArray, half_life_s: float
    ) -> None:
        self._account, self._of_job, self._team, self._shares = account, gpus, team, shares
        self._half_life_s = half_life_s
        self.used, self.held = np.zeros(len(team)), np.zeros(len(team))
        """(A,) decayed GPU-seconds, and GPUs held since the last `advance`."""
        self._known = np.zeros(len(team), dtype=np.bool_)
        self._since_us = 0

    def advance(self, now_us: int) -> None:
        """Usage at an instant: U 2^(-t/H) + GPUs (H / ln 2) (1 - 2^(-t/H))."""
        kept = np.exp2(-(now_us - self._since_us) / US_PER_S / self._half_life_s)
        self.used = self.used * kept + self.held * (self._half_life_s / np.log(2) * (1 - kept))
        self._since_us = now_us

    def factors(self, jobs: IntArray) -> FloatArray:
        """(n,) fair share of the account of each waiting job, among accounts with jobs so far."""
        self._known[self._account[jobs]] = True
        factor = np.zeros(len(self._team))
        factor[self._known] = fair_shares(self.used[self._known], self._team[self._known], self._shares)
        return factor[self._account[jobs]]

    def hold(self, jobs: IntArray) -> None:
        """From now on these jobs hold their GPUs."""
        held = np.bincount(self._account[jobs], self._of_job[jobs], len(self._team))
        self.held = held.astype(np.float64)

    def state(self) -> dict[str, np.ndarray]:
        """Arrays that `restore` takes."""
        arrays = {"used": self.used, "held": self.held, "known": self._known}
        return {name: array.copy() for name, array in arrays.items()} | {"since": np.array(self._since_us)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self.used, self.held = state["used"].copy(), state["held"].copy()
        self._known, self._since_us = state["known"].copy(), int(state["since"])


def multifactor(weights: FloatArray, factors: FloatArray) -> FloatArray:
    """(n,) priorities from (4,) weights and (4, n) factors: age, fair share, size, class."""
    priority: FloatArray = weights[0] * factors[0]
    for weight, factor in zip(weights[1:], factors[1:], strict=True):
        priority = priority + weight * factor  # one by one: a matrix product may round otherwise
    return priority
