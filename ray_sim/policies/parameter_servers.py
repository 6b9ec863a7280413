"""Parameter servers for jobs in chunks: who is active keeps its own, the others get idle ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ray_sim.engine.contract import View
from ray_sim.kernels.arrays import PARAMETER_SERVER
from ray_sim.model.units import BoolArray, FloatArray, IntArray

Pick = Callable[[IntArray], FloatArray]
"""For each of some jobs a number in [0, 1): how far down the list of idle slots the one is that it takes."""


def lowest(jobs: IntArray) -> FloatArray:
    """Every job takes the idle slot of the lowest server."""
    return np.zeros(len(jobs))


def parameter_servers(
    view: View, server_partition: IntArray, is_cloud: BoolArray, pick: Pick
) -> dict[int, list[tuple[int, int, int]]]:
    """New holdings: none for jobs that are not active, an idle slot for active ones without, in job order.

    A job whose workers are all in the cloud takes one there, others one elsewhere; who has one keeps it.

    Parameters
    ----------
    server_partition, is_cloud : (S,)
    """
    leaving, wanting = view.idle_holders, view.stalled
    idle = view.free[:, PARAMETER_SERVER].copy()
    np.add.at(idle, view.holdings.rows(leaving)[:, 1], 1)
    holdings: dict[int, list[tuple[int, int, int]]] = {job: [] for job in leaving.tolist()}
    if len(wanting) == 0:
        return holdings
    side = view.only_in_cloud[wanting]
    partition = view.jobs.partition[wanting]
    for group in np.unique(np.stack([partition, side], axis=1), axis=0):
        servers = np.flatnonzero((server_partition == group[0]) & (is_cloud == (group[1] == 1)))
        jobs = wanting[(partition == group[0]) & (side == (group[1] == 1))]
        ends = np.cumsum(idle[servers])  # where each server's slots end in the list of idle ones
        for job, share in zip(jobs.tolist(), pick(jobs).tolist(), strict=True):
            if len(ends) == 0 or ends[-1] == 0:
                break
            chosen = int(np.searchsorted(ends, int(share * ends[-1]), side="right"))
            ends[chosen:] -= 1
            holdings[job] = [(int(servers[chosen]), PARAMETER_SERVER, 1)]
    return holdings
