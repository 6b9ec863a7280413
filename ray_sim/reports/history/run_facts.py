"""Facts of a run that its events do not tell: servers, demands and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WorldArrays
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.room_over_time import NO_RULE
from ray_sim.model.units import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Servers and demands of J jobs on S servers with R resources, in quanta."""

    servers: tuple[str, ...]
    resources: Mapping[str, int]
    """Quanta in a unit of each resource, in the order of the arrays' axis."""
    arrays: WorldArrays
    """Capacities, gangs, demands and partitions; the roles of a gang are worker and parameter server."""
    there: BoolArray
    """(S,) servers that are available before the first event."""
    cloud: BoolArray
    """(S,) servers of a cloud."""
    job_ids: pl.Series
    partitions: tuple[str, ...] | None
    """Names of the partitions; None where all servers are one."""
    ps_levels: tuple[IntArray, IntArray] | None
    """Memory that each parameter server of a server has, (S,), and that a job needs, (J,); as ranks.

    A parameter server may serve a job if its rank is at least the job's. None where jobs are not chunked.
    """
    strict: bool
    """Whether the policy declares that no job passes one that does not fit (``backfill=False``)."""
    placement: str | None
    """Placement rule that the policy declares; None where it declares none."""
    epoch_utc: datetime | None = None
    """Instant of second 0 of the workload; None where submissions have no dates."""

    @property
    def chunked(self) -> bool:
        """Whether workers train chunks; a job then waits while none of its chunks makes progress."""
        return self.ps_levels is not None

    @property
    def rule(self) -> int:
        """Number of the placement rule; `NO_RULE` if the policy declares none of `RULE_NAMES`."""
        return RULE_NAMES.index(self.placement) if self.placement in RULE_NAMES else NO_RULE

    def eligible(self, job: int) -> BoolArray:
        """(S,) servers of the job's partition."""
        part = self.arrays.server_part
        mine: BoolArray = (part == self.arrays.job_part[job]) & (part >= 0)
        return mine

    def serving(self, job: int) -> BoolArray:
        """(S,) servers of the partition of a chunked job whose parameter servers may serve it."""
        assert self.ps_levels is not None, "only in worlds of chunked jobs"
        offered, needed = self.ps_levels
        may: BoolArray = self.eligible(job) & (offered >= needed[job])
        return may & (self.arrays.capacity[:, PARAMETER_SERVER] > 0)

    def whole_demand(self, job: int) -> IntArray:
        """(R,) demand of the whole gang; of a chunked job one slot of each kind."""
        if self.chunked:
            return np.ones(len(self.resources), dtype=np.int64)
        whole: IntArray = self.arrays.gang[job] @ self.arrays.demand[job, : self.arrays.gang.shape[1]]
        return whole

    def amount(self, job: IntArray, role: IntArray, tasks: IntArray) -> IntArray:
        """(n, R) quanta that placements of these jobs, roles and numbers of tasks take."""
        demand = self.arrays.demand
        taken: IntArray = demand[job, np.minimum(role, demand.shape[1] - 1)] * tasks[:, None]
        return taken
