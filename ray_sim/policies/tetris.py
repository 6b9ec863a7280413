"""Tetris: multi-resource packing with a preference for jobs with little work left."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ray_sim.kernels.elastic.alignment import balance, new_packing, pack
from ray_sim.kernels.elastic.server_tree import new_server_tree
from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.units import NEVER_US, IntArray
from ray_sim.policies.shared.bundles import BundlePolicy, bundle_bound
from ray_sim.policies.shared.elastic_options import (
    PARAMETER_BLOCKS,
    WHEN,
    next_slot_us,
)
from ray_sim.policies.shared.typed_servers import bundle_pool, type_resources
from ray_sim.policy_api import (
    ElasticContext,
    ElasticView,
    Parameter,
    Streams,
)


class Tetris(BundlePolicy):
    """Give bundles one by one to the best pair of job and server, from empty servers in every round.

    The score is alignment - eps x remaining work, with eps = m x mean alignment / mean work over the pairs
    that fit when the round begins. A job gets at most the workers that it asks for.

    Source: Grandl et al., Multi-resource Packing for Cluster Schedulers, SIGCOMM 2014.
    """

    name: ClassVar[str] = "tetris"
    section: ClassVar[str] = "docs/models/baselines.md#tetris (Grandl et al., SIGCOMM 2014)"
    summary: ClassVar[str] = "bundles where they fit best, short jobs first (Tetris)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "work_weight",
            "float",
            1.0,
            "m: weight of remaining work against alignment; 0 = alignment only",
            source="docs/models/baselines.md#tetris; about 1 in Grandl et al., from memory",
            minimum=0.0,
        ),
        WHEN,
        PARAMETER_BLOCKS,
    )
    sees: frozenset[str] = frozenset({"duration_s", "work_left"})
    needs: ClassVar[frozenset[str]] = frozenset({"slot_s"})

    def __init__(
        self, work_weight: float = 1.0, when: str = "slot", parameter_blocks: str = AS_WORLD
    ) -> None:
        super().__init__(when, parameter_blocks)
        self._work_weight = work_weight

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Compute the bundles."""
        super().start(world, streams)
        self._offer: _Offer | None = None
        """That of the last round: it changes with the servers that are there and the types asked for."""

    def _review_us(self, view: ElasticView) -> int:
        """On slots, the next one: the work left changes in every slot."""
        return next_slot_us(view, self._slot_us) if self._when == "slot" else NEVER_US

    def _share(self, view: ElasticView, jobs: IntArray, servers: IntArray) -> tuple[IntArray, IntArray]:
        """Pack the bundles of the jobs onto the servers."""
        bundle = self._reallocation.bundles
        demand, most = bundle.demand[jobs], bundle.most[jobs]
        offer = self._offer
        types = type_resources(self._world, bundle_pool(self._world, jobs), servers)
        if offer is None or not offer.serves(servers, types.offered):
            offer = _offer_of(servers, self._world.cluster.capacity[servers], types.offered)
            self._offer = offer
        bound = bundle_bound(demand, most, offer.total)
        demand = np.hstack([demand, types.needed])
        tree = new_server_tree(offer.servers, offer.capacity, offer.free, demand.min(axis=0))
        packing = new_packing(demand, most, view.time_left_us(jobs), tree, bound)
        placed = pack(packing, self._work_weight * balance(packing, offer.first, offer.equal_servers))
        return packing.job[:placed], packing.server[:placed]


class _Offer(NamedTuple):
    """Available servers of a partition, equal ones next to each other."""

    available: IntArray
    """(S,) sorted."""
    types: IntArray
    """(S, T) quanta of the `TypeResources` of ``available``."""
    servers: IntArray
    """(S,) the same in order of capacity, equal ones in index order."""
    capacity: IntArray
    """(S, R + T) quanta of ``servers``; 0 of types."""
    free: IntArray
    """(S, R + T) the same with types."""
    total: IntArray
    """(R,)"""
    first: IntArray
    """(kinds,) place of the first server of each kind in ``servers``."""
    equal_servers: IntArray
    """(kinds,) number of servers of each kind."""

    def serves(self, available: IntArray, types: IntArray) -> bool:
        """Whether it is that of these servers and types."""
        return np.array_equal(self.available, available) and np.array_equal(self.types, types)


def _offer_of(available: IntArray, capacity: IntArray, types: IntArray) -> _Offer:
    free, whole = np.hstack([capacity, types]), np.hstack([capacity, np.zeros_like(types)])
    order = np.lexsort(free.T)
    free, total = free[order], capacity.sum(axis=0)
    _, first, equal_servers = np.unique(free, axis=0, return_index=True, return_counts=True)
    return _Offer(available, types, available[order], whole[order], free, total, first, equal_servers)
