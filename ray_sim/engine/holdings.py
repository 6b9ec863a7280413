"""GPUs that jobs held over time, from the events of a run: for results, at its end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import EVICT, FINISH, LOSE, MOVE, START, STOP, Recorder
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.units import QUANTA_PER_UNIT, FloatArray, IntArray

_CHANGES = (START, MOVE, STOP, LOSE, FINISH, EVICT)


class Holdings(NamedTuple):
    """Spells in which jobs held the same GPUs, (n,) each, by job and time; spells without GPUs included."""

    job: IntArray
    from_us: IntArray
    until_us: IntArray
    gpus: FloatArray


def holdings_of(world: World, record: Recorder, end_us: int) -> Holdings:
    """The holdings of a run that ended at ``end_us``, from each job's first start on; O(n log n) events."""
    at = np.flatnonzero(np.isin(record.kind[: int(record.size[0])], _CHANGES))
    at = at[np.argsort(record.job[at], kind="stable")]
    kind, job, time = record.kind[at], record.job[at], record.time[at]
    # The rows of a holding are next to each other in the record.
    begins = (np.diff(job, prepend=-1) != 0) | (np.diff(time, prepend=-1) != 0)
    begins |= (np.diff(kind, prepend=-1) != 0) | (np.diff(at, prepend=-1) != 1)
    demand = world.arrays.demand[job, np.maximum(record.role[at], 0), GPU]
    gpus = np.where((kind == START) | (kind == MOVE), record.value[at] * demand, 0)
    held = np.bincount(np.cumsum(begins) - 1, gpus) / QUANTA_PER_UNIT["gpu"]
    job, time = job[begins], time[begins]
    until = np.where(np.diff(job, append=-1) != 0, np.maximum(end_us, time), np.append(time[1:], 0))
    return Holdings(job, time, until, held)
