"""Columns of the timeline about packing: GPUs that have been asked for, and fragments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.scoring import scoring_of
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Recorder, new_scores
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.fragments_over_time import Replica, fragments_over_time
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.model.units import FloatArray


def packing_columns(world: World, placement: int, record: Recorder) -> Mapping[str, FloatArray]:
    """(lines,) GPUs of the jobs that have come, and GPUs that are fragments; nothing without a target."""
    scoring = scoring_of(world, QUEUE_RULES[placement])
    if scoring is None or len(scoring.target.cpu) == 0 or scoring.column[1] < 0:
        return {}
    arrays, n_servers = world.arrays, len(world.cluster)
    lines = int(record.size[1])
    found = np.zeros(lines)
    replica = Replica(
        free=arrays.empty.copy(),
        there=world.there.copy(),
        head=np.full(len(world.table), -1),
        before=np.empty(len(record.time), np.int64),
        each=np.zeros(n_servers),
        changed=np.ones(n_servers, np.bool_),
    )
    fragments_over_time(arrays, new_scores(arrays, scoring), record, replica, found)
    asked = (arrays.gang * arrays.demand[:, :, scoring.column[1]]).sum(axis=1)
    come = np.searchsorted(arrays.submit, record.line_time[:lines], side="right")
    arrived: FloatArray = np.append(0, np.cumsum(asked))[come] / DEVICE
    return {"arrived_gpu": arrived, "frag_gpu": found / DEVICE}
