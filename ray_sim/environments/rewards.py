"""Rewards of the time between two decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ray_sim.engine.run_meter import Reading
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.units import US_PER_S


class Interval(NamedTuple):
    """The time from one decision that had a choice to the next one, or to the end of the run."""

    begin_s: float
    """Since the first submission, as all times here."""
    end_s: float
    progress: float
    """Sum over jobs of the share of its work that each did: c / e, epochs trained over all its epochs."""
    completed: int
    present_s: float
    """Time that jobs were in the system, summed over jobs: their mean number times the length."""
    waiting: int
    """Jobs that wait at the end."""
    running: int
    """Jobs that run at the end."""


Reward = Callable[[Interval], float]
"""Reward of an interval."""


def interval_between(before: Reading, after: Reading) -> Interval:
    """What happened between two readings."""
    return Interval(
        before.now_us / US_PER_S,
        after.now_us / US_PER_S,
        after.progress - before.progress,
        after.completed - before.completed,
        (after.present_us - before.present_us) / US_PER_S,
        after.waiting,
        after.running,
    )


def progress(interval: Interval) -> float:
    """Shares of work done: over an episode, the number of jobs that complete and the shares of the others."""
    return interval.progress


def minus_present(scale_s: float) -> Reward:
    """Minus the time of jobs in the system, over a scale: over an episode, minus the sum of JCTs over it."""

    def reward(interval: Interval) -> float:
        return -interval.present_s / scale_s

    return reward


def finite(reward: Reward) -> Reward:
    """A user's reward, whose values must be finite: a NaN would spoil what a learner has learned so far."""

    def checked(interval: Interval) -> float:
        value = reward(interval)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidInputError(f"reward: must be a finite number, got {value!r} for {interval}")
        return number

    return checked


def reward_of(reward: str | Reward, scale_s: object) -> Reward:
    """The reward of a name, or the user's own function, see `finite`.

    Raises
    ------
    UnknownNameError, InvalidInputError : no such reward, or a scale that is not above 0
    """
    if not isinstance(reward, str):
        if not callable(reward):
            raise InvalidInputError(f"reward: must be a name or a function of an Interval, got {reward!r}")
        return finite(reward)
    if not (isinstance(scale_s, int | float | np.number) and 0 < scale_s < math.inf):
        raise InvalidInputError(f"reward_scale_s: must be a number above 0, got {scale_s!r}")
    known = {"progress": progress, "jct": minus_present(float(scale_s))}
    if reward not in known:
        raise UnknownNameError("reward", reward, known)
    return known[reward]
