"""Mean JCT of a policy network, with its most probable actions, on fixed job sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ray_sim.environments.episodes import Episode
from ray_sim.kernels.core.arrays import COMPLETED
from ray_sim.learning.collection import NOT_FINITE, Collection
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import US_PER_S
from ray_sim.policies.harmony.architecture import Parameters
from ray_sim.policies.harmony.network import PolicyNetwork


def mean_jct_s(collection: Collection, episodes: Sequence[Episode], parameters: Parameters) -> float:
    """Mean over job sets of the mean JCT in seconds of the jobs that complete, as `ray-sim run --policy
    harmony` has it.

    Parameters
    ----------
    episodes : on the servers of the collection

    Returns
    -------
    NaN if no job of a set completes
    """
    network = collection.network(parameters)
    return float(np.mean([_jct_s(collection, episode, network) for episode in episodes]))


def _jct_s(collection: Collection, episode: Episode, network: PolicyNetwork) -> float:
    lane = collection.lane(episode)
    seen, _ = lane.reset()
    over = False
    while not over:
        action = network.best(seen)
        if action < 0:
            raise RunFailedError(NOT_FINITE)
        seen, _, terminated, truncated, _ = lane.step(action)
        over = terminated or truncated
    ledger = lane.simulation.core.ledger
    done = ledger.status == COMPLETED
    return float((ledger.end - episode.world.arrays.submit)[done].mean()) / US_PER_S if done.any() else np.nan
