"""Loss of a job by epoch, l(k) = 1 / (b0 k + b1) + b2, and the epoch of convergence.

From ``drop_epoch`` on, the part above b2 may be lower by a share, as after a cut of the learning rate.

Source: Peng et al., Optimus, EuroSys 2018, section 3.1; the drop is ours.
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
    """Loss after an epoch, without noise.

    Parameters
    ----------
    drop : share by which the part of the loss above b2 is lower from ``drop_epoch`` on, in [0, 1)
    drop_epoch : whole; below 1 it is the first epoch
    """
    value: FloatArray = np.where(epoch >= drop_epoch, 1.0 - drop, 1.0) / (b0 * epoch + b1) + b2
    return value


def last_epoch(b0: FloatArray, b1: FloatArray, threshold: FloatArray, patience: FloatArray) -> FloatArray:
    """Last epoch of a job: the last of ``patience`` consecutive ones with a drop below ``threshold``.

    The drop l(k - 1) - l(k) = b0 / (u (u - b0)) with u = b0 k + b1 decreases in k, so the first epoch below
    the threshold is the first with u beyond the positive root of u^2 - b0 u = b0 / threshold.

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
    """`last_epoch` of a curve with a sudden drop; a drop of the threshold or more restarts the count."""
    smooth_end = last_epoch(b0, b1, threshold, patience)
    at, zero = np.maximum(drop_epoch, 1.0), np.zeros(())
    fall = loss(b0, b1, zero, at - 1.0) - loss(b0, b1, zero, at, drop, at)
    noticed = (drop > 0) & (at <= smooth_end) & (fall >= threshold)
    # The drop scales the later curve by 1 - drop: compare the smooth curve with threshold / (1 - drop).
    end = np.maximum(last_epoch(b0, b1, threshold / (1.0 - drop), patience), at + patience)
    return np.where(noticed, end, smooth_end)
