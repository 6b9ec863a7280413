"""Largest total speed, or speed per cost, with deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.needs import mean_speed
from ray_sim.policies.gavel.programme import InfeasibleSharesError, Programme
from ray_sim.policy_api import State


class Throughput:
    """The largest sum of q, which favours jobs with fast steps.

    No tie rule: the shares are the corner at which the solver ends, which depends on its input only.
    """

    def __init__(
        self, *, relative: bool = False, prices: FloatArray | None = None, allowed_s: FloatArray | None = None
    ) -> None:
        """relative: sum q/e. prices: (T,) > 0, of a GPU of each type; they divide speeds.

        allowed_s: seconds from arrival to deadline of each row of the workload; infinite: none.
        """
        self.relative, self.prices, self.allowed_s = relative, prices, allowed_s
        self.infeasible = 0
        """Computations whose deadlines could not all be met, so that all were dropped."""

    def shares(self, now: JobsNow) -> FloatArray:
        """(J + P, T) shares of time; raises `UnsolvedError` if the solver fails."""
        if not len(now.job):
            return np.zeros_like(now.speed)
        programme = Programme("throughput", now)
        unit = mean_speed(now) if self.relative else np.ones(len(now.job))
        of_pairs = (now.pair_speed / unit[now.pairs][:, :, None]).sum(axis=1)
        gain = np.concatenate([now.speed / unit[:, None], of_pairs])
        gain /= 1.0 if self.prices is None else self.prices
        if self.allowed_s is not None:
            left_s = self.allowed_s[now.job] - now.age_s
            with suppress(InfeasibleSharesError):
                if left_s.min() > 0:
                    return programme.corner(gain=gain, floor=now.steps_left / left_s).shares
            self.infeasible += 1
        return programme.corner(gain=gain).shares

    def state(self) -> State:
        return {"infeasible": np.array([self.infeasible])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.infeasible = int(state["infeasible"][0])
