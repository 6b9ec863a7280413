"""The action space of environments whose states forbid some actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from ray_sim.kernels.core.arrays import I8


class ValidActions(Discrete):
    """Actions 0 to n - 1, of which `sample` without a mask draws one that is valid now.

    Pickled, copied and batched it is a plain `Discrete`.
    """

    def __init__(self, n: int, mask: Callable[[], I8 | None]) -> None:
        super().__init__(n)
        self._mask = mask

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an action; see `gymnasium.spaces.Discrete.sample`."""
        if mask is None and probability is None:
            mask = self._mask()
            if mask is not None and not mask.any():
                mask = None
        return super().sample(mask=mask, probability=probability)

    def __reduce__(self) -> tuple[type[Discrete], tuple[int]]:
        return Discrete, (int(self.n),)
