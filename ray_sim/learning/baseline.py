"""Baseline of returns where there is no critic; docs/models/harmony.md#loss."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray


class MovingAverage:
    """Exponential moving average of numbers."""

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self._sum, self._weight = 0.0, 0.0

    def add(self, numbers: FloatArray) -> None:
        """Add numbers, the oldest first."""
        for number in numbers.tolist():
            self._sum = self._decay * self._sum + number
            self._weight = self._decay * self._weight + 1.0

    def state(self) -> FloatArray:
        """(2,) what further means depend on."""
        return np.array([self._sum, self._weight])

    def restore(self, state: FloatArray) -> None:
        """Continue from a `state`."""
        self._sum, self._weight = state.tolist()

    @property
    def value(self) -> float:
        """Weighted mean so far; 0 before the first number."""
        return self._sum / self._weight if self._weight else 0.0
