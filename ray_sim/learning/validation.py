"""Mean JCT of a policy network, with its most probable actions, on fixed job sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import NEVER
from ray_sim.learning.batched_policy import BatchedPolicy
from ray_sim.learning.collection import Collection
from ray_sim.model.units import US_PER_S
from ray_sim.policies.harmony.architecture import Parameters


def mean_jct_s(collection: Collection, worlds: Sequence[World], parameters: Parameters) -> float:
    """Mean over job sets of the mean JCT in seconds of the jobs that complete, as `ray-sim run --policy
    harmony` has it.

    Parameters
    ----------
    worlds : on the servers of the collection

    Returns
    -------
    NaN if no job of a set completes
    """
    # Twice, as a lane goes on with the next set and clears its completions.
    batch = collection.batch([*worlds, *worlds], lanes=len(worlds))
    policy = BatchedPolicy(collection.architecture, parameters, batch.observations())
    found = np.zeros(len(worlds))
    running = np.ones(len(worlds), dtype=np.bool_)
    while running.any():
        ended = batch.step(policy.best()).episode_ended & running
        for e in np.flatnonzero(ended).tolist():
            of_set = slice(*batch.sets.first[e : e + 2])
            end, submit = batch.sets.completion[of_set], batch.sets.submit[of_set]
            done = end < NEVER
            found[e] = (end - submit)[done].mean() / US_PER_S if done.any() else np.nan
        running &= ~ended
    return float(found.mean())
