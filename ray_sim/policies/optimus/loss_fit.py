"""Prediction of convergence from the losses so far."""

from __future__ import annotations

import numpy as np

from ray_sim.model.loss import last_epoch
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.loss_kernels import fit_losses

LEAST_POINTS = 5
"""Least number of losses for a fit; a job with fewer is young."""
MOST_POINTS = 100
"""Largest number of losses in a fit; longer runs are sampled evenly."""
EPOCHS_UNKNOWN = 20.0
"""Epochs left where there is no fit; the value of the authors' scheduler."""


def fitted_curves(ptr: IntArray, losses: FloatArray) -> FloatArray:
    """(n, 3) b0, b1, b2 >= 0 of each job, b0 = 0 where no falling curve fits.

    Parameters
    ----------
    ptr : (n + 1,); losses after epochs 1, 2, ... of job i are ``losses[ptr[i]:ptr[i + 1]]``

    Source: Peng et al., Optimus, EuroSys 2018, section 3.1.
    """
    curves = np.empty((len(ptr) - 1, 3))
    fit_losses(ptr, losses, LEAST_POINTS, np.empty(MOST_POINTS), np.empty(MOST_POINTS), curves)
    return curves


def epochs_left(
    curves: FloatArray, done: FloatArray, threshold: FloatArray, patience: FloatArray, most: float
) -> FloatArray:
    """(n,) epochs until each job has converged, at least 1.

    Parameters
    ----------
    done : (n,) completed epochs
    threshold, patience : (n,) as in `ray_sim.model.job.LossProfile`
    most : bound on the total epochs of a job
    """
    fits = curves[:, 0] > 0
    b0, b1 = np.where(fits, curves[:, 0], 1.0), curves[:, 1]
    end = np.where(fits, last_epoch(b0, b1, threshold, patience), done + EPOCHS_UNKNOWN)
    left: FloatArray = np.maximum(np.minimum(end, most) - done, 1.0)
    return left
