"""Least makespan of equal pieces of work on workers of several speeds."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import IntArray


def least_makespan(pieces: IntArray, lengths: IntArray, workers: IntArray) -> IntArray:
    """Least time for all pieces of each job if the job is alone; a piece stays on one worker.

    In a time T a worker completes floor(T / length) pieces in any order, so the result is the least T with
    enough of them. Complexity: O(J K log T).

    Parameters
    ----------
    pieces : (J,) number of pieces of each job, >= 1
    lengths : (J, K) time of a piece on a worker of each kind, >= 0; all 0 if one is
    workers : (K,) of each kind, >= 1

    Returns
    -------
    (J,) in the unit of the lengths
    """
    impossible = np.full(len(pieces), -1, dtype=np.int64)
    possible: IntArray = pieces * lengths.min(axis=1)
    divisors = np.maximum(lengths, 1)  # at length 0 the search starts at its answer, 0
    while (possible - impossible > 1).any():
        middle = impossible + (possible - impossible) // 2
        enough = (middle[:, None] // divisors) @ workers >= pieces
        possible = np.where(enough, middle, possible)
        impossible = np.where(enough, impossible, middle)
    return possible
