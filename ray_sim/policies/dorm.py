"""Dorm: bundles by an optimum within bounds on unfairness and on changes."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import ClassVar

import numpy as np

from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.bundles import CAP, MOST_WORKERS, BundlePolicy
from ray_sim.policies.shared.elastic_options import PARAMETER_BLOCKS, WHEN
from ray_sim.policies.shared.typed_servers import bundle_pool
from ray_sim.policy_api import (
    WORKER,
    ElasticView,
    Parameter,
)
from ray_sim.solvers.dorm import AllocationLimits, Applications, allocate, most_together
from ray_sim.solvers.milp import SearchEnd


class _Count(IntEnum):
    """Counts for the summary."""

    THETA1_RAISED = 0
    """Decisions for which theta1 was raised to 1."""
    THETA2_RAISED = 1
    """Decisions for which theta2 was raised to 1 as well."""
    LEFT_OUT = 2
    """Applications that waited so that earlier ones could have their containers, summed over decisions."""
    NODE_LIMIT = 3
    """Searches that ended at the node limit."""
    KEPT = 4
    """Decisions that changed nothing because such a search had found no solution."""


class Dorm(BundlePolicy):
    """Bundles that use most of the servers, decided at every arrival and completion, or at the next slot.

    theta1 bounds the distance of shares from dominant resource fairness, theta2 bounds how many running jobs
    may be changed. If both cannot be met, theta1, then theta2 are raised to 1; if that does not help, the
    newest jobs wait. Each partition is solved separately.

    Source: Sun, Wen, Ta, Yan, Towards Distributed Machine Learning in Shared Clusters: A
    Dynamically-Partitioned Approach, 2017.
    """

    name: ClassVar[str] = "dorm"
    section: ClassVar[str] = "docs/models/baselines.md#dorm (Sun et al., 2017)"
    summary: ClassVar[str] = "most use within bounds on unfairness and changes, by MILP (Dorm)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "theta1",
            "float",
            0.1,
            "bound on the sum of distances of dominant shares from fair ones: theta1 x 2 x resource types",
            source="docs/models/baselines.md#dorm; Sun et al.: 0.2, 0.1, 0.1 in Dorm-1, 2, 3",
            minimum=0.0,
            maximum=1.0,
        ),
        Parameter(
            "theta2",
            "float",
            0.1,
            "largest share of the running jobs that may be changed at a time, rounded up to whole jobs",
            source="docs/models/baselines.md#dorm; Sun et al.: 0.1, 0.1, 0.2 in Dorm-1, 2, 3",
            minimum=0.0,
            maximum=1.0,
        ),
        CAP,
        MOST_WORKERS,
        Parameter(
            "gap",
            "float",
            0.01,
            "relative gap to the best use at which a search ends",
            minimum=0.0,
            source="docs/models/baselines.md#dorm",
        ),
        Parameter(
            "packing",
            "choice",
            "search",
            "placement of bundles. search: by the programme; in_turn: the programme counts bundles for all "
            "servers as one, then servers are filled in order: fast, but looser on fairness",
            choices=("search", "in_turn"),
            source="docs/models/baselines.md#dorm",
        ),
        Parameter(
            "node_limit",
            "int",
            100,
            "nodes of the search tree after which the incumbent is used, or nothing changes without one",
            minimum=1,
            source="docs/models/baselines.md#dorm",
        ),
        replace(WHEN, default="event"),
        PARAMETER_BLOCKS,
    )

    def __init__(
        self,
        theta1: float = 0.1,
        theta2: float = 0.1,
        cap: str = "batch",
        most_workers: int | None = None,
        gap: float = 0.01,
        packing: str = "search",
        node_limit: int = 100,
        when: str = "event",
        parameter_blocks: str = AS_WORLD,
    ) -> None:
        super().__init__(when, parameter_blocks, cap, most_workers)
        self._theta = (theta1, theta2)
        self._gap = gap
        self._nodes = node_limit
        self._in_turn = packing == "in_turn"
        self._counts = np.zeros(len(_Count), dtype=np.int64)

    def _share(self, view: ElasticView, jobs: IntArray, servers: IntArray) -> tuple[IntArray, IntArray]:
        """Solve for the bundles of the jobs."""
        containers = self._containers(self._applications(view, jobs, servers))
        owner, where = np.nonzero(containers)
        count = containers[owner, where]
        return np.repeat(owner, count), servers[np.repeat(where, count)]

    def counts(self) -> dict[str, int]:
        """Return counts of decisions and searches, see `_Count`."""
        return {count.name.lower(): int(self._counts[count]) for count in _Count}

    def _applications(self, view: ElasticView, jobs: IntArray, servers: IntArray) -> Applications:
        held = np.zeros((len(jobs), len(servers)), dtype=np.int64)
        rows = view.placements.rows_of(jobs)
        workers = rows.role == WORKER
        owner = np.repeat(np.arange(len(jobs)), np.diff(rows.ptr))[workers]
        bundle = self._reallocation.bundles.workers[jobs[owner]]
        held[owner, np.searchsorted(servers, rows.server[workers])] = rows.tasks[workers] // bundle
        return Applications(
            demand=self._reallocation.bundles.demand[jobs],
            least=np.ones(len(jobs), dtype=np.int64),
            most=self._reallocation.bundles.most[jobs],
            capacity=self._world.cluster.capacity[servers],
            allowed=self._world.pools[bundle_pool(self._world, jobs)][:, servers],
            held=held,
            old=np.diff(rows.ptr) > 0,
        )

    def _containers(self, applications: Applications) -> IntArray:
        """(n, S) bundles: of all applications, or of the first ones that can all have some."""
        containers = np.zeros_like(applications.held)
        most = most_together(applications, self._limits(1.0, 1.0))
        for n in range(most, 0, -1):
            found = self._within_bounds(applications.first(n))
            if found is not None:
                containers[:n] = found
                break
        else:
            n = 0
        self._counts[_Count.LEFT_OUT] += np.count_nonzero(~containers.any(axis=1))
        return containers

    def _limits(self, theta1: float, theta2: float) -> AllocationLimits:
        return AllocationLimits(theta1, theta2, self._gap, self._nodes, self._in_turn)

    def _within_bounds(self, applications: Applications) -> IntArray | None:
        """(n, S) bundles within the bounds, which are raised if necessary; None if there is no solution."""
        theta1, theta2 = self._theta
        tried = None
        for theta, raised in (
            ((theta1, theta2), None),
            ((1.0, theta2), _Count.THETA1_RAISED),
            ((1.0, 1.0), _Count.THETA2_RAISED),
        ):
            if theta == tried:
                continue
            tried = theta
            ending, found = allocate(applications, self._limits(*theta))
            if ending is SearchEnd.LIMIT:
                self._counts[_Count.NODE_LIMIT] += 1
            if found is not None:
                if raised is not None:
                    self._counts[raised] += 1
                return found
            if ending is SearchEnd.LIMIT and applications.old.any():
                self._counts[_Count.KEPT] += 1
                return applications.held
        return None
