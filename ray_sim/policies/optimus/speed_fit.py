"""Speeds of jobs by numbers of workers and parameter servers, fitted to those observed.

Source: Peng et al., Optimus, EuroSys 2018, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ray_sim.model.job import Exchange
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation_kernels import TERMS

# Terms of the time of a step at which the coefficients of each model stand, see `TERMS`.
_SYNC = np.array([0, 1, 2, 3, 4])
_ASYNC = np.array([0, 5, 1, 6])

_NOISE = 1e-9
"""Terms of so small a share in the time of a step are rounding: a task that saves so little gains nothing."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Speeds that a job was seen to have: (n,) each."""

    workers: FloatArray
    ps: FloatArray
    """0 for a job that has none."""
    steps_per_s: FloatArray
    """Steps of all workers together, > 0."""


def fitted_time(exchange: int, batch: float, seen: Speeds) -> FloatArray:
    """(7,) coefficients >= 0 of the time of a step in the terms of `TERMS`, for the least relative error.

    Both models are linear in theta once inverted: 1 / f of jobs in step, w / f of others. The rows are
    weighted by the speed. Columns that the pairs seen cannot tell apart (w and p where all have as many
    workers as parameter servers) share nothing: some of them get all, the others 0.

    Parameters
    ----------
    exchange : `Exchange`; jobs that reduce among themselves have the terms of jobs in step without p
    batch : M, samples of a step of jobs in step
    """
    w, p, f = seen.workers, seen.ps, seen.steps_per_s
    alone = p == 0
    per_ps = np.divide(w, p, out=np.zeros_like(w), where=~alone)
    if exchange == Exchange.ASYNC:
        rows, weight, terms = np.stack([np.ones_like(w), per_ps, w, p], axis=1), f / w, _ASYNC
    else:
        rows, weight, terms = np.stack([batch / w, np.ones_like(w), per_ps, w, p], axis=1), f, _SYNC
    rows *= weight[:, None]
    size = np.sqrt((rows * rows).sum(axis=0))
    size[size == 0] = 1.0
    share = nnls(rows / size, np.ones(len(w)))[0]
    share[share < _NOISE * np.sqrt(len(w))] = 0.0
    theta = share / size
    coefficients = np.zeros(TERMS)
    coefficients[terms] = theta
    if exchange != Exchange.ASYNC:
        coefficients[0] *= batch
    return coefficients


def trial_pairs(exchange: int, most_workers: int) -> tuple[IntArray, IntArray]:
    """Workers and parameter servers of the trial runs of a new job, at most ten.

    Some have as many workers as parameter servers, some have not: else w and p, and 1 and w / p, would be
    alike.

    Parameters
    ----------
    most_workers : >= 1, more than so many are of no use
    """
    if exchange == Exchange.ALL_REDUCE:
        pairs = _RING_TRIALS[_RING_TRIALS[:, 0] <= most_workers]
    else:
        pairs = _TRIALS[_TRIALS[:, 0] <= most_workers]
    return pairs[:, 0], pairs[:, 1]


_TRIALS = np.array(
    [(1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (4, 8), (8, 4), (8, 8)], dtype=np.int64
)
_RING_TRIALS = np.array([(w, 0) for w in (1, 2, 3, 4, 6, 8, 12, 16)], dtype=np.int64)
MOST_TRIAL_TASKS = 16
"""In no trial run are more servers of use."""
