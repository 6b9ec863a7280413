"""Prices of GPU types by which certificates count GPUs of unequal speed: shadow prices of least makespan."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from ray_sim.model.units import FloatArray
from ray_sim.solvers.linear_programme import linear_optimum

_MOST_JOBS = 500
"""Jobs of the programme; of more, evenly spaced ones, as any prices give a bound."""


def gpu_prices(speed: FloatArray, gpus: FloatArray, number: FloatArray) -> FloatArray:
    """(T,) price of a GPU of each type, the largest 1; 1 of all where the programme is not solved.

    The programme finds the least T with shares y_it of time: every job does its work, sum_t y_it <= T,
    and sum_i gpus_i y_it <= number_t T; its shadow prices of the last rows are proportional to the prices.

    Parameters
    ----------
    speed : (n, T) jobs per time on GPUs of each type; 0 where a job cannot run
    gpus : (n,) GPUs that a job holds
    number : (T,) GPUs of each type
    """
    stride = -(-len(speed) // _MOST_JOBS)
    # Numbers near 1: the solver drops small ones.
    speed = speed[::stride] / np.median(speed[::stride].max(axis=1))
    gpus, number = gpus[::stride] * stride / number.max(), number / number.max()
    job, kind = np.nonzero(speed > 0)
    n, types, pairs = len(speed), len(number), len(job)
    last = np.full(n + types, pairs)
    rows = np.concatenate([job, n + job, 2 * n + kind, n + np.arange(n + types)])
    columns = np.concatenate([np.tile(np.arange(pairs), 3), last])
    values = np.concatenate([-speed[job, kind], np.ones(pairs), gpus[job], np.full(n, -1.0), -number])
    bounds = np.concatenate([np.full(n, -1.0), np.zeros(n + types)])
    cost: FloatArray = np.append(np.zeros(pairs), 1.0)
    matrix = coo_array((values, (rows, columns)), shape=(2 * n + types, pairs + 1)).tocsr()
    found = linear_optimum(cost, method="highs-ds", A_ub=matrix, b_ub=bounds)
    prices: FloatArray = -found.ineqlin.marginals[-types:] if found.status == 0 else np.zeros(types)
    return prices / prices.max() if prices.max() > 0 else np.ones(types)
