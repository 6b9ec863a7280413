"""Parameter servers of chunked jobs: active jobs keep theirs, others get idle ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policy_api import PARAMETER_SERVER, ChunkedContext, ChunkedView

Pick = Callable[[IntArray], FloatArray]
"""Number in [0, 1) for each job: the position of its slot in the list of idle slots."""


def lowest(jobs: IntArray) -> FloatArray:
    """Choose the idle slot on the lowest server for every job."""
    return np.zeros(len(jobs))


class PsServers(NamedTuple):
    """Servers with slots for parameter servers, (n,) each."""

    server: IntArray

    partition: IntArray
    in_cloud: BoolArray
    ps_offer: IntArray
    """See `Eligibility`."""

    @classmethod
    def of(cls, world: ChunkedContext) -> PsServers:
        """Find the servers in a world of chunked jobs."""
        in_cloud = world.cluster.in_cloud
        server = np.flatnonzero(in_cloud | (world.cluster.ps_slots > 0))
        return cls(server, world.server_partition[server], in_cloud[server], world.eligible.ps_offer[server])


class _Idle(NamedTuple):
    """Idle slots of some servers, in server order."""

    servers: IntArray
    """Sorted."""
    ends: IntArray
    """Cumulative number of idle slots."""

    def take(self, server: int) -> None:
        """Remove one idle slot of a server, if the server is in the list."""
        place = int(np.searchsorted(self.servers, server))
        if place < len(self.servers) and self.servers[place] == server:
            self.ends[place:] -= 1


def parameter_servers(
    view: ChunkedView, servers: PsServers, ps_need: IntArray, pick: Pick
) -> dict[int, list[tuple[int, int, int]]]:
    """New placements: none for jobs that are no longer active, an idle slot for active jobs without one.

    Jobs choose in job order. A job whose workers are all in the cloud takes a slot there, others one
    elsewhere; if all parameter servers of that side are too small for it, it takes one of the other side.

    Parameters
    ----------
    ps_need : (J,) see `Eligibility`
    """
    leaving, wanting = view.idle_holders, view.stalled
    idle = view.free[:, PARAMETER_SERVER].copy()
    np.add.at(idle, view.placements.of(leaving).server, 1)
    placements: dict[int, list[tuple[int, int, int]]] = {job: [] for job in leaving.tolist()}
    if len(wanting) == 0:
        return placements
    columns = (view.jobs.partition[wanting], view.only_in_cloud[wanting], ps_need[wanting])
    kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    lists = []
    for partition, in_cloud, need in kinds.tolist():
        mine = servers.partition == partition
        side, may_serve = mine & (servers.in_cloud == bool(in_cloud)), mine & (servers.ps_offer >= need)
        too_small = side.any() and not (side & may_serve).any()
        chosen = servers.server[may_serve if too_small else side & may_serve]
        lists.append(_Idle(chosen, np.cumsum(idle[chosen])))
    drawn = zip(wanting.tolist(), kind.reshape(-1).tolist(), pick(wanting).tolist(), strict=True)
    for job, of, share in drawn:
        ends = lists[of].ends
        if len(ends) == 0 or ends[-1] == 0:
            continue
        server = int(lists[of].servers[np.searchsorted(ends, int(share * ends[-1]), side="right")])
        placements[job] = [(server, PARAMETER_SERVER, 1)]
        for slots in lists:
            slots.take(server)
    return placements
