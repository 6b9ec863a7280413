"""Wrapper that gives observations the form that RLlib's masked models take."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ray_sim.agents.features import ACTION_MASK, F32
from ray_sim.environments.scheduling_env import Observations, SchedulingEnv


class FlatObservations(gymnasium.ObservationWrapper[dict[str, F32], np.int64, Observations]):
    """Observations of two entries: ``observations``, (n,), all entries one after the other, and the mask."""

    def __init__(self, env: SchedulingEnv) -> None:
        super().__init__(env)
        entries = env.observation_space
        assert isinstance(entries, spaces.Dict)
        shown = [space for name, space in entries.items() if name != ACTION_MASK]
        high = np.concatenate([space.high.ravel() for space in shown if isinstance(space, spaces.Box)])
        mask = spaces.Box(0.0, 1.0, entries[ACTION_MASK].shape, np.float32)
        both: dict[str, spaces.Space[Any]] = {
            "observations": spaces.Box(np.zeros_like(high), high, dtype=np.float32),
            ACTION_MASK: mask,
        }
        self._names: list[str] = [name for name in entries if name != ACTION_MASK]
        self.observation_space = spaces.Dict(both)

    def observation(self, observation: Observations) -> dict[str, F32]:
        """Join the entries."""
        flat: F32 = np.concatenate([observation[name].ravel() for name in self._names])
        return {"observations": flat, ACTION_MASK: observation[ACTION_MASK].astype(np.float32)}
