"""OASiS: admission and full schedules by prices, with workers and parameter servers on separate servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ray_sim.model.units import IntArray
from ray_sim.policies.shared.jobs_in_slots import JobsInSlots
from ray_sim.policies.shared.plan_at_arrival import Planned
from ray_sim.policies.shared.planning_parameters import OPTIONS, DeclaredRanges, price_parameters
from ray_sim.policy_api import PARAMETER_SERVER, WORKER, ElasticContext, Parameter
from ray_sim.solvers.planning.market import Constants, Market, MarketCapacity, declared_constants
from ray_sim.solvers.planning.oasis import Sides, best_schedule, ends_alone, role_constants
from ray_sim.solvers.planning.schedule import Outcome, Planning
from ray_sim.solvers.planning.slot_job import SlotJob


class JobsApart(JobsInSlots):
    """Jobs in slots, with workers and parameter servers on separate servers."""

    def __init__(
        self, world: ElasticContext, slot_us: int, slots: int, *, by_world: bool, worker_share: float
    ) -> None:
        super().__init__(world, slot_us, slots, by_world=by_world)
        self._worker_share = worker_share

    def worker_servers(self, partition: int) -> IntArray:
        """Return the first servers of a partition, at least one; the others are for parameter servers."""
        servers = super().worker_servers(partition)
        first = int(np.clip(round(self._worker_share * len(servers)), 1, max(len(servers) - 1, 1)))
        return servers[:first]

    def in_slots(self, job: int) -> SlotJob | None:
        """Convert a job to slots, with all its tasks at the external rate."""
        planned = super().in_slots(job)
        return None if planned is None else planned.apart()


class Oasis(Planned):
    """Plan each job at arrival, by prices, with workers and parameter servers on separate servers.

    The first servers of each partition are for workers.

    Source: Bao, Peng, Wu, Li, Online Job Scheduling in Distributed Machine Learning Clusters, INFOCOM 2018.
    """

    name: ClassVar[str] = "oasis"
    section: ClassVar[str] = "docs/models/oasis.md#schedule (Bao et al., INFOCOM 2018)"
    summary: ClassVar[str] = "admission and schedule by prices, roles on servers apart (OASiS)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "worker_share",
            "float",
            0.5,
            "share of the servers of each partition for workers, the first ones; the others are for "
            "parameter servers. Each side has at least one server",
            source="docs/models/oasis.md#sides; half in Yu et al., figures 8 and 9",
            minimum=0.0,
            maximum=1.0,
        ),
        Parameter(
            "grid",
            "choice",
            "quanta",
            "parts of the work of a job. quanta: as `quanta` says; exact: chunk-epochs, E x N of them "
            "with N = F, which takes long for large jobs",
            source="docs/models/oasis.md#schedule; exact as Bao et al.",
            choices=("quanta", "exact"),
        ),
        Parameter(
            "quanta",
            "int",
            None,
            "equal parts of the work of a job; none = max(40, 4 x slots of the horizon)",
            source="docs/models/pd_ors.md#schedule",
            minimum=1,
            maximum=1_000_000,
        ),
        *price_parameters(
            "a task (a worker or a parameter server)",
            "docs/models/oasis.md#declared-ranges",
            lists="; or first these numbers of workers, then those of parameter servers",
        ),
        *OPTIONS,
    )

    def __init__(
        self,
        worker_share: float = 0.5,
        grid: str = "quanta",
        quanta: int | None = None,
        constants: str = "trace",
        declared_utility: Sequence[float] | None = None,
        declared_demand: Sequence[float] | None = None,
        declared_work: Sequence[float] | None = None,
        speeds: str = "world",
        price_span: float | None = None,
        unfinished: str = "leave",
        replan: str = "none",
        record: bool = False,
    ) -> None:
        ranges = DeclaredRanges(declared_utility, declared_demand, declared_work)
        super().__init__(speeds, price_span, unfinished, replan, record, constants, ranges)
        self._worker_share = worker_share
        self._is_exact = grid == "exact"
        self._planning = Planning(quanta)

    def _jobs_in_slots(self) -> JobsApart:
        """Jobs of the run with their roles apart."""
        share = self._worker_share
        return JobsApart(self._world, self._slot_us, self._slots, by_world=self._by_world, worker_share=share)

    def _sets_of_servers(self, partition: int) -> list[IntArray]:
        """Servers for workers, then those for parameter servers."""
        servers = np.flatnonzero(self._world.server_partition == partition)
        first = len(self._jobs.worker_servers(partition))
        return [servers[:first], servers[first:]]

    def _constants(self, partition: int, clusters: list[MarketCapacity]) -> list[Constants]:
        """Compute the lowest and highest prices of both sides; none if no job counts."""
        if self._declared is not None:
            resources = self._world.cluster.resources
            ranges = self._declared.of_markets(self.name, resources, ("workers", "parameter servers"))
            constants = [
                declared_constants(of_side, side, self._slots, markets=2)
                for of_side, side in zip(ranges, clusters, strict=True)
            ]
        else:
            counted = self._counted_jobs(partition, ends_alone)
            if not counted:
                return []
            constants = [
                role_constants(counted, role, side, self._slots)
                for role, side in zip((WORKER, PARAMETER_SERVER), clusters, strict=True)
            ]
        return [each.within(self._price_span) for each in constants]

    def _best_plan(self, job: SlotJob, markets: Sequence[Market]) -> Outcome:
        """Search by `best_schedule`."""
        return best_schedule(job, Sides(*markets), self._parts(job))

    def _parts(self, job: SlotJob) -> int:
        """Number of parts of a job's work."""
        if not self._is_exact:
            return self._planning.number_of(self._slots)
        return int(self._jobs.training.epochs[job.number]) * job.most_workers
