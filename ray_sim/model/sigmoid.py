"""The decreasing sigmoid of utilities and value functions."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray


def remaining_share(late: FloatArray) -> FloatArray:
    """Share 1 / (1 + exp(late)) that a sigmoid has left; it never overflows."""
    small = np.exp(-np.abs(late))
    share: FloatArray = np.where(late > 0, small, 1.0) / (1.0 + small)
    return share
