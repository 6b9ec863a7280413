"""Samples of actions, by interval, as arrays: what collection hands to training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.agents.features import ACTION_MASK
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.harmony.architecture import STATE

Observations = Mapping[str, npt.NDArray[np.float32] | npt.NDArray[np.int8]]
"""Entries of observations by name, each with a leading axis of states."""

ENTRIES = (*STATE, ACTION_MASK)
"""Entries that are kept."""

EPISODE_OVER = -1
"""In `Samples.following`: no state follows."""


class Samples(NamedTuple):
    """n actions in m intervals, and the states in which collection stopped.

    Samples of one episode follow each other in time, and so do its intervals.
    """

    observations: Observations
    """Rows 0 to n - 1: the states of the actions; further rows: states that follow the last interval of an
    episode that goes on."""
    action: IntArray
    """(n,)"""
    log_probability: FloatArray
    """(n,) logarithm of the probability with which the action was taken, exploration included."""
    interval: IntArray
    """(n,) number of the interval of each action, ascending."""
    reward: FloatArray
    """(m,) of each interval."""
    following: IntArray
    """(m,) row of the first state of the next interval; `EPISODE_OVER` where there is none."""


class Step(NamedTuple):
    """One step of E environments at a time, (E,) each."""

    observations: Observations
    """What the actions answered."""
    action: IntArray
    log_probability: FloatArray
    acts: BoolArray
    """Whether the environment took its action; others were reset."""
    reward: FloatArray
    """Of the interval that the step closes."""
    closes: BoolArray
    """Whether the interval is over after the step."""
    over: BoolArray
    """Whether the episode is over after the step."""


class Collector:
    """Puts steps of several environments in order of environment and time, and closes intervals."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def note(self, step: Step) -> None:
        """Keep a step; its arrays must not change later."""
        self._steps.append(step)

    def take(self, observations: Observations) -> Samples:
        """Hand out all closed intervals, at least one step after the first `note`; open ones stay.

        Parameters
        ----------
        observations : what the environments show now
        """
        steps = self._steps
        acts, closes, over = (
            np.stack([getattr(step, name) for step in steps], axis=1) for name in ("acts", "closes", "over")
        )
        closing = acts & closes
        done = closing[:, ::-1].cumsum(axis=1)[:, ::-1] > 0  # (E, T) a close at or after the step
        e, t = np.nonzero(acts & done)
        last = closing[e, t]
        following = np.flatnonzero(last) + 1
        following[over[e, t][last]] = EPISODE_OVER
        ends = np.flatnonzero(last & (np.append(e[1:], -1) != e))  # last rows of each environment
        going_on = ends[~over[e, t][ends]]
        is_open = np.append(acts & ~done, np.ones((len(acts), 1), dtype=np.bool_), axis=1)
        first_open = is_open.argmax(axis=1)
        following[np.searchsorted(np.flatnonzero(last), going_on)] = len(e) + np.arange(len(going_on))
        states_t, states_e = np.append(t, first_open[e[going_on]]), np.append(e, e[going_on])
        snapshots = [*(step.observations for step in steps), observations]
        found = Samples(
            {name: np.stack([each[name] for each in snapshots])[states_t, states_e] for name in ENTRIES},
            np.stack([step.action for step in steps])[t, e],
            np.stack([step.log_probability for step in steps])[t, e],
            np.cumsum(last) - last,
            np.stack([step.reward for step in steps])[t, e][last],
            following,
        )
        self._keep(acts & ~done, int(first_open.min()))
        return found

    def _keep(self, acts: BoolArray, first: int) -> None:
        """Keep the open steps only, from step ``first`` on."""
        self._steps = [step._replace(acts=acts[:, t]) for t, step in enumerate(self._steps) if t >= first]
