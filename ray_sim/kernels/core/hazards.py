"""Random failures of running jobs: when the hazard of an attempt reaches the chance that was drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
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
def _gpus_of(books: Books, job: int) -> int:
    """Milli-GPU that a job holds."""
    pool, held = books.pool, 0
    row = pool.head[job]
    while row >= 0:
        held += pool.row_count[row] * books.arrays.demand[job, pool.row_role[row], GPU]
        row = pool.row_next[row]
    return held


@outlined
def _look_at(now: int, books: Books, hazard: Hazard, job: int, scale_us: float, shape: float) -> None:
    """Where the number of GPUs has changed, book the hazard so far and find when the job fails."""
    gpus, before = _gpus_of(books, job), hazard.gpus[job]
    if gpus == before:
        return
    progress = executed(books.ledger, job, now) - hazard.begin[job]
    at = (progress / scale_us) ** shape
    hazard.booked[job] += before / DEVICE * (at - (hazard.until[job] / scale_us) ** shape)
    hazard.gpus[job], hazard.until[job] = gpus, progress
    left = max(hazard.chance[job] - hazard.booked[job], 0.0)
    hazard.due[job] = NEVER
    if gpus > 0:
        fails = np.ceil(scale_us * (at + left / (gpus / DEVICE)) ** (1 / shape))
        if fails < _LONGEST:
            hazard.due[job] = hazard.begin[job] + max(int(fails), 1)


@kernel
def next_failure(now: int, books: Books, hazard: Hazard, changed: Bool, scale_us: float, shape: float) -> int:
    """Return the first instant at which a running job fails, NEVER if none does; O(running jobs).

    Parameters
    ----------
    changed : (J,) jobs whose GPUs may have changed; set to False for running jobs
    scale_us : L
    shape : k
    """
    ledger, calendar, first = books.ledger, books.calendar, NEVER
    for job in calendar.heap[: calendar.size[0]]:
        if changed[job]:
            changed[job] = False
            _look_at(now, books, hazard, job, scale_us, shape)
        if hazard.due[job] < NEVER:
            first = min(first, ledger.anchor[job] + hazard.due[job] - ledger.ran[job])
    return first
