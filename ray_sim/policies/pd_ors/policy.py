"""PD-ORS: admit a job if its best schedule has more utility than cost, at prices that rise with the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import FloatArray
from ray_sim.policies.pd_ors.parameters import PARAMETERS
from ray_sim.policies.shared.plan_at_arrival import Planned, PricedServers, Refusal, refusal
from ray_sim.policy_api import WHOLE_TRACE, Parameter
from ray_sim.solvers.planning.alone import ends_alone
from ray_sim.solvers.planning.prices import (
    Constants,
    MarketCapacity,
    Ranges,
    declared_constants,
    traced_constants,
)
from ray_sim.solvers.planning.rounding_factor import Favour, TaskRounding
from ray_sim.solvers.planning.schedule import Planning, Schedule, best_schedule
from ray_sim.solvers.planning.slot_job import SlotJob

_FAVOUR: dict[str, Favour] = {"one": "neither", "packing": "packing", "covering": "covering"}


class PdOrs(Planned):
    """Plan each job at arrival, at prices of servers, resources and slots that rise with the load.

    Source: Yu, Liu, Wu, Ji, Bentley, Toward Efficient Online Scheduling for Distributed Machine Learning
    Systems, 2021.
    """

    name: ClassVar[str] = "pd_ors"
    section: ClassVar[str] = "docs/models/pd_ors.md#algorithm (Yu et al., 2021)"
    summary: ClassVar[str] = "admission and full schedule at arrival, by prices (PD-ORS)"
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    uses_seed: ClassVar[bool] = True
    sees: frozenset[str] = Planned.sees | {WHOLE_TRACE}

    def __init__(
        self,
        quanta: int | None = None,
        round: Literal["each", "last"] = "each",  # noqa: A002  # the parameter's name
        tries: int = 50,
        gain: str = "one",
        delta: float = 0.5,
        constants: str = "trace",
        declared_utility: Sequence[float] | None = None,
        declared_demand: Sequence[float] | None = None,
        declared_work: Sequence[float] | None = None,
        price_span: float | None = None,
        unfinished: str = "leave",
        replan: str = "none",
        idle: str = "leave",
        record: bool = False,
    ) -> None:
        super().__init__(price_span, unfinished, replan, record, idle)
        self._planning = Planning(quanta, TaskRounding(_FAVOUR[gain], delta, tries), round)
        self._declares = constants == "declared"
        if self._declares:
            self.sees = self.sees - {WHOLE_TRACE}
        self._declared = {
            "declared_utility": declared_utility,
            "declared_demand": declared_demand,
            "declared_work": declared_work,
        }

    def _open(self) -> list[PricedServers]:
        """Open a market for each partition that has jobs with utility that can end."""
        self._of_partition: dict[int, int] = {}
        markets: list[PricedServers] = []
        for partition in np.unique(self._world.server_partition).tolist():
            servers = np.flatnonzero(self._world.server_partition == partition)
            cluster = MarketCapacity(self._world.cluster.capacity[servers], self._quanta_per_unit)
            constants = self._constants(cluster, partition)
            if constants is not None:
                self._of_partition[partition] = len(markets)
                markets.append(self._market(servers, cluster, constants))
        return markets

    def _constants(self, cluster: MarketCapacity, partition: int) -> Constants | None:
        """Compute the lowest and highest prices of a partition."""
        if cluster.units <= 0:
            return None
        if self._declares:
            return declared_constants(self._ranges(), cluster, self._slots)
        counted = [job for job in self._promising(partition) if ends_alone(job, cluster)]
        return traced_constants(counted, cluster) if counted else None

    def _ranges(self) -> Ranges:
        """Read the declared ranges of jobs.

        Raises
        ------
        InvalidScenarioError : a range is missing or has the wrong number of values
        """
        resources = self._world.cluster.resources
        lengths = {"declared_utility": 2, "declared_demand": len(resources), "declared_work": 2}
        for name, length in lengths.items():
            given = self._declared[name]
            if given is None or len(given) != length:
                what = (
                    f"one number for each of {', '.join(resources)}"
                    if name == "declared_demand"
                    else "2 numbers"
                )
                found = "none" if given is None else f"{len(given)}"
                raise InvalidScenarioError(
                    f"policy pd_ors: constants=declared needs {what} in {name}, got {found}"
                )
        utility, demand, work = (_floats(self._declared[name]) for name in lengths)
        return Ranges(
            utility=(float(utility[0]), float(utility[1])),
            least_demand=demand,
            work=(float(work[0]), float(work[1])),
        )

    def _best_plan(self, job: SlotJob, markets: Sequence[PricedServers]) -> Schedule | Refusal:
        """Search by `best_schedule`, on the servers of the job's partition."""
        at = self._of_partition.get(self.partition_of(job.number))
        if at is None:
            return Refusal.INFEASIBLE
        priced = markets[at]
        outcome = best_schedule(job, priced.market, self._planning, self._streams)
        self._counted["unsolved_slots"] += outcome.unsolved
        if not isinstance(outcome, Schedule):
            return refusal(outcome)
        return replace(outcome, plan=replace(outcome.plan, server=priced.servers[outcome.plan.server]))


def _floats(numbers: Sequence[float] | None) -> FloatArray:
    return np.array(() if numbers is None else numbers, dtype=np.float64)
