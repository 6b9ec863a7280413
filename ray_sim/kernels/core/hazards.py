"""Random failures of running jobs: when the hazard of an attempt reaches the chance that was drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, NEVER, Books, Bool
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.kernels.core.progress import executed

_LONGEST = NEVER // 4


class Hazard(NamedTuple):
    """Hazard of each job's attempt, (J,): g ((t / L)^k - (u / L)^k) from progress u to t on g GPUs."""

    chance: F64
    """Hazard at which the attempt fails."""
    begin: I64
    """Microseconds of progress before the attempt."""
    gpus: I64
    """Milli-GPU for which `due` holds."""
    until: I64
    """Progress of the attempt up to which the hazard is booked."""
    booked: F64
    due: I64
    """Microseconds of progress at which the job fails."""


@kernel
def held_gpus(books: Books, jobs: I64, gpus: I64) -> None:
    """Set ``gpus``, (n,), to the milli-GPU that each of ``jobs`` holds."""
    pool = books.pool
    for i in range(len(jobs)):
        gpus[i] = 0
        row = pool.head[jobs[i]]
        while row >= 0:
            gpus[i] += pool.row_count[row] * books.arrays.demand[jobs[i], pool.row_role[row], GPU]
            row = pool.row_next[row]


@kernel
def look_at(
    now: int, books: Books, hazard: Hazard, jobs: I64, gpus: I64, scale_us: float, shape: float
) -> None:
    """Where the number of GPUs has changed, book the hazard so far and find when the running jobs fail.

    Parameters
    ----------
    gpus : (n,) milli-GPU on which ``jobs`` make progress now
    scale_us : L
    shape : k
    """
    for i in range(len(jobs)):
        job, before = jobs[i], hazard.gpus[jobs[i]]
        if gpus[i] == before:
            continue
        progress = executed(books.ledger, job, now) - hazard.begin[job]
        at = (progress / scale_us) ** shape
        hazard.booked[job] += before / DEVICE * (at - (hazard.until[job] / scale_us) ** shape)
        hazard.gpus[job], hazard.until[job] = gpus[i], progress
        left = max(hazard.chance[job] - hazard.booked[job], 0.0)
        hazard.due[job] = NEVER
        if gpus[i] > 0:
            fails = np.ceil(scale_us * (at + left / (gpus[i] / DEVICE)) ** (1 / shape))
            if fails < _LONGEST:
                hazard.due[job] = hazard.begin[job] + max(int(fails), 1)


@kernel
def next_failure(books: Books, hazard: Hazard, running: I64, placed_anew: Bool) -> int:
    """Return the first instant at which one of the ``running`` jobs fails, NEVER if none does; O(n).

    -1 if one of them has been placed anew: `look_at` it first.
    """
    ledger, first = books.ledger, NEVER
    for job in running:
        if placed_anew[job]:
            return -1
        if hazard.due[job] < NEVER:
            first = min(first, ledger.anchor[job] + hazard.due[job] - ledger.ran[job])
    return first
