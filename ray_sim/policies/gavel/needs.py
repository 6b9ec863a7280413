"""Rules that say how fast each job must be; the tie rule makes shares of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.programme import Programme
from ray_sim.policy_api import State, Stateless


def mean_speed(now: JobsNow) -> FloatArray:
    """(J,) e: steps per second of each job on the mean GPU of the cluster."""
    speed: FloatArray = now.speed @ (now.capacity / now.capacity.sum())
    return speed


class NeedRule(ABC, Stateless):
    """Shares that give each job the speed that it needs."""

    name: ClassVar[str]

    @abstractmethod
    def seen(self, now: JobsNow) -> JobsNow:
        """The jobs with the speeds that the rule knows."""

    @abstractmethod
    def need(self, programme: Programme) -> FloatArray:
        """(J,) steps per second; `shares` calls it once."""

    def shares(self, now: JobsNow) -> FloatArray:
        """(J + P, T) shares of time; raises `UnsolvedError` if a solver fails."""
        if not len(now.job):
            return np.zeros_like(now.speed)
        programme = Programme(self.name, self.seen(now))
        return programme.evened(self.need(programme))


class MaxMin(NeedRule):
    """The largest z with n q/(w e) >= z for all jobs (LAS)."""

    name = "max_min"

    def __init__(self, *, aware: bool) -> None:
        """aware: of speeds; else all are taken for 1."""
        self.aware = aware

    def seen(self, now: JobsNow) -> JobsNow:
        return now if self.aware else replace(now, speed=np.ones_like(now.speed))

    def need(self, programme: Programme) -> FloatArray:
        per_level = programme.now.weight * mean_speed(programme.now) / programme.now.gpus
        return programme.corner(per_level=per_level).level * per_level


class _TimeRule(NeedRule):
    """Base of rules of times to the end."""

    def __init__(self, reference: int | None = None) -> None:
        """reference: the type whose speeds stand for all, from 0, or None for a rule aware of speeds."""
        self.reference = reference

    def seen(self, now: JobsNow) -> JobsNow:
        if self.reference is None:
            return now
        speed = now.speed[:, [self.reference]]
        if not speed.all():
            row = f"{self.name}: row {now.job[speed.argmin()]} of the workload"
            raise InvalidInputError(f"{row}: expected a speed > 0 on the reference type; take the aware rule")
        return replace(now, speed=np.repeat(speed, len(now.capacity), axis=1))


class Makespan(_TimeRule):
    """The least T with q >= s/T for all jobs."""

    name = "makespan"

    def need(self, programme: Programme) -> FloatArray:
        steps = programme.now.steps_left
        return programme.corner(per_level=steps).level * steps


class FinishTimeFair(_TimeRule):
    """The least r with (a + s/q)/(c + s/f) <= r for all jobs (Themis); weights are ignored.

    f: speed with 1/m of the cluster, for m jobs. c: seconds that the steps done would have taken so.
    """

    name = "finish_time_fair"

    def __init__(self, reference: int | None = None) -> None:
        super().__init__(reference)
        self._last: State = dict.fromkeys(("steps_left", "fair_speed", "fair_s"), np.zeros(0))
        self._last["job"] = np.zeros(0, dtype=np.int64)

    def need(self, programme: Programme) -> FloatArray:
        alone_s = self._times_alone(programme.now)
        left_s = least_ratio(programme, alone_s) * alone_s - programme.now.age_s
        return programme.now.steps_left / left_s

    def _times_alone(self, now: JobsNow) -> FloatArray:
        """(J,) c + s/f, in seconds; c grows by the steps done since the last call over its f."""
        last, fair_s = self._last, np.zeros(len(now.job))
        _, old, new = np.intersect1d(last["job"], now.job, assume_unique=True, return_indices=True)
        done = last["steps_left"][old] - now.steps_left[new]
        fair_s[new] = last["fair_s"][old] + done / last["fair_speed"][old]
        share = now.capacity / (len(now.job) * now.gpus[:, None])
        speed = (now.speed * share).sum(axis=1) / np.maximum(share.sum(axis=1), 1)
        left = now.steps_left.copy()
        self._last = {"job": now.job.copy(), "steps_left": left, "fair_speed": speed, "fair_s": fair_s}
        alone_s: FloatArray = fair_s + left / speed
        return alone_s

    def state(self) -> State:
        return self._last

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._last = dict(state)


def least_ratio(programme: Programme, alone_s: FloatArray) -> float:
    """Least r, to 1e-9 or the solver's tolerance, at which each job can have its need, s/(r alone_s - a).

    If r is too low, the highest level of the needs is below 1. By the dual solution it is so up to a higher
    ratio, which comes next: Newton's method, from below.
    """
    now = programme.now
    fastest = np.maximum(now.speed.max(axis=1), now.pair_speed.max(initial=0))
    ratio = float(((now.age_s + now.steps_left / fastest) / alone_s).max())
    while True:
        left_s = ratio * alone_s - now.age_s
        level, _, binding = programme.corner(per_level=now.steps_left / left_s)
        if level >= 1 - 1e-9:
            return ratio
        shortage = partial(_shortage, binding * left_s / level, alone_s, now.age_s)
        higher = brentq(shortage, ratio, ratio / level * (1 + 1e-9), xtol=1e-15 * ratio)
        if higher <= ratio:  # within the tolerance of the solver
            return ratio
        ratio = higher


def _shortage(weight: FloatArray, alone_s: FloatArray, age_s: FloatArray, ratio: float) -> float:
    return float(weight @ (1 / (ratio * alone_s - age_s))) - 1
