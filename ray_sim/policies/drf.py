"""Dominant resource fairness (DRF).

Listed in `BUILT_IN` of `ray_sim/policies/registry.py`. The order in which bundles are given and their ties
decide results; a bundle is a number of workers and their parameter server on one server.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.kernels.elastic.dominant_shares import fill, new_filling
from ray_sim.kernels.elastic.least_loaded import new_loads
from ray_sim.kernels.elastic.server_tree import new_server_tree
from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.bundles import (
    CAP,
    MOST_WORKERS,
    BundlePolicy,
    bundle_bound,
)
from ray_sim.policies.shared.elastic_options import PARAMETER_BLOCKS, WHEN
from ray_sim.policies.shared.typed_servers import PLENTY, bundle_pool, type_resources
from ray_sim.policy_api import ElasticView, Parameter


class Drf(BundlePolicy):
    """Give bundles one by one to the job with the smallest dominant share, from empty servers.

    A bundle goes to the least loaded server on which it fits. Each partition is filled separately.

    Source: Ghodsi et al., Dominant Resource Fairness, NSDI 2011.
    """

    name: ClassVar[str] = "drf"
    section: ClassVar[str] = "docs/models/baselines.md#drf (Ghodsi et al., NSDI 2011)"
    summary: ClassVar[str] = "equal dominant shares by progressive filling (DRF)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        WHEN,
        CAP,
        MOST_WORKERS,
        Parameter(
            "unplaced",
            "choice",
            "drop",
            "action when the bundle of a job fits nowhere. drop: the others go on; stop: the round ends",
            source="docs/models/baselines.md#drf; stop as in the simulator of DL2 (Peng et al.)",
            choices=("drop", "stop"),
        ),
        Parameter(
            "pooled",
            "bool",
            False,
            "whether a bundle is given if all servers together hold it; one that no single server holds is "
            "then given and not placed",
            source="docs/models/baselines.md#drf; Ghodsi et al., algorithm 1, has one pool",
        ),
        PARAMETER_BLOCKS,
    )
    needs: ClassVar[frozenset[str]] = frozenset({"slot_s"})

    def __init__(
        self,
        when: str = "slot",
        cap: str = "batch",
        most_workers: int | None = None,
        unplaced: str = "drop",
        pooled: bool = False,
        parameter_blocks: str = AS_WORLD,
    ) -> None:
        super().__init__(when, parameter_blocks, cap, most_workers)
        self._stop = unplaced == "stop"
        self._pooled = pooled
        self._unplaced = 0

    def counts(self) -> dict[str, int]:
        """Return the number of bundles that were given and not placed, over all rounds."""
        return {"unplaced_bundles": self._unplaced} if self._pooled else {}

    def _share(self, view: ElasticView, jobs: IntArray, servers: IntArray) -> tuple[IntArray, IntArray]:
        """Fill the servers progressively."""
        bundle = self._reallocation.bundles
        demand, most = bundle.demand[jobs], bundle.most[jobs]
        capacity = self._world.cluster.capacity[servers]
        total = capacity.sum(axis=0)
        bound = bundle_bound(demand, most, total)
        needed, offered = type_resources(self._world, bundle_pool(self._world, jobs), servers)
        demand, total = np.hstack([demand, needed]), np.append(total, np.full(needed.shape[1], PLENTY))
        whole, free = np.hstack([capacity, np.zeros_like(offered)]), np.hstack([capacity, offered])
        tree = new_server_tree(servers, whole, free, demand.min(axis=0))
        filling = new_filling(demand, most, total, bound)
        placed = fill(filling, new_loads(tree), self._pooled, self._stop)
        self._unplaced += int(filling.got.sum()) - placed
        return filling.job[:placed], filling.server[:placed]
