"""The loss of a job over its epochs, l(k) = 1 / (b0 k + b1) + b2, and when it has converged.

From one epoch on what is above b2 may be lower by a share, as where the learning rate is lowered.

Source: Peng et al., Optimus, EuroSys 2018, section 3.1; the fall is ours.
"""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray


def loss(
    b0: FloatArray,
    b1: FloatArray,
    b2: FloatArray,
    epoch: FloatArray,
    drop: FloatArray | float = 0.0,
    drop_epoch: FloatArray | float = 0.0,
) -> FloatArray:
    """Loss after so many epochs, without noise.

    Parameters
    ----------
    drop : share by which what is above b2 is lower from ``drop_epoch`` on, in [0, 1)
    drop_epoch : whole; the first epoch at the latest if below 1
    """
    value: FloatArray = np.where(epoch >= drop_epoch, 1.0 - drop, 1.0) / (b0 * epoch + b1) + b2
    return value


def last_epoch(b0: FloatArray, b1: FloatArray, threshold: FloatArray, patience: FloatArray) -> FloatArray:
    """The epoch after which a job ends: the last of ``patience`` in a row with a fall below ``threshold``.

    The fall l(k - 1) - l(k) = b0 / (u (u - b0)) with u = b0 k + b1 falls with k, so the first epoch below the
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


def last_epoch_with_drop(
    b0: FloatArray,
    b1: FloatArray,
    threshold: FloatArray,
    patience: FloatArray,
    drop: FloatArray,
    drop_epoch: FloatArray,
) -> FloatArray:
    """`last_epoch` of a curve with a drop; one that the threshold notices starts the count anew."""
    smooth_end = last_epoch(b0, b1, threshold, patience)
    at, zero = np.maximum(drop_epoch, 1.0), np.zeros(())
    fall = loss(b0, b1, zero, at - 1.0) - loss(b0, b1, zero, at, drop, at)
    noticed = (drop > 0) & (at <= smooth_end) & (fall >= threshold)
    # What falls by 1 - drop as much falls below the threshold where the smooth curve does below this one.
    end = np.maximum(last_epoch(b0, b1, threshold / (1.0 - drop), patience), at + patience)
    return np.where(noticed, end, smooth_end)
