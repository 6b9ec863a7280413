"""Returns of intervals, from which advantages of actions follow; docs/models/harmony.md#loss."""

from __future__ import annotations

import numpy as np

from ray_sim.learning.samples import EPISODE_OVER, Samples
from ray_sim.model.units import FloatArray


def interval_returns(samples: Samples, values: FloatArray, discount: float, trace_decay: float) -> FloatArray:
    """(m,) lambda-returns Q of intervals, the same for all actions of one.

    ``Q = r + discount ((1 - trace_decay) V(next state) + trace_decay Q(next interval))``; where collection
    stopped within an episode, V of the state reached stands for what follows; after an episode it is 0.

    Parameters
    ----------
    values : V of each row of the observations
    discount : for each interval, 0 to 1
    trace_decay : 1 for discounted sums of rewards, 0 for one interval and V

    Source: Sutton and Barto, Reinforcement Learning, 2018, equation 12.20.
    """
    found = samples.reward.astype(np.float64)
    actions = len(samples.action)
    for i in range(len(found) - 1, -1, -1):
        row = int(samples.following[i])
        if row == EPISODE_OVER:
            continue
        ahead = found[samples.interval[row]] if row < actions else values[row]
        found[i] += discount * ((1.0 - trace_decay) * values[row] + trace_decay * ahead)
    return found


class MovingAverage:
    """Exponential moving average of numbers, the baseline where there is no critic."""

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
