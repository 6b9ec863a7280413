"""The loss of a job over its epochs, l(k) = 1 / (b0 k + b1) + b2, and when it has converged.

Source: Peng et al., Optimus, EuroSys 2018, section 3.1.
"""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray


def loss(b0: FloatArray, b1: FloatArray, b2: FloatArray, epoch: FloatArray) -> FloatArray:
    """Loss after so many epochs, without noise."""
    value: FloatArray = 1 / (b0 * epoch + b1) + b2
    return value


def last_epoch(b0: FloatArray, b1: FloatArray, threshold: FloatArray, patience: FloatArray) -> FloatArray:
    """The epoch after which a job ends: the last of ``patience`` in a row with a drop below ``threshold``.

    The drop l(k - 1) - l(k) = b0 / (u (u - b0)) with u = b0 k + b1 falls with k, so the first epoch below the
    threshold is the first with u beyond the positive root of u^2 - b0 u = b0 / threshold.

    Parameters
    ----------
    b0, b1, threshold : > 0; shapes that broadcast
    patience : whole, >= 1

    Returns
    -------
    whole numbers, >= 1
    """
    root = (b0 + np.sqrt(b0 * b0 + 4 * b0 / threshold)) / 2
    first = np.maximum(1, np.floor((root - b1) / b0) + 1)
    epochs: FloatArray = first + patience - 1
    return epochs
